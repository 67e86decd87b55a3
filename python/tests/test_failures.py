"""Samples that fail or do not end: what is raised, left out or put in their place, and what is written down."""

import multiprocessing
import re
from typing import Any

import pytest
import torch
from compare import assert_same, clone
from conftest import SUBJECT_IS_TORCH, Loader
from torch.utils.data import Dataset, Subset

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.skipif(SUBJECT_IS_TORCH, reason="torch has no such options"),
]

WORKERS = pytest.mark.parametrize("workers", [1, 2, 4])


class Faulty(Dataset):
    """Samples with a name, of which some fail."""

    def __init__(self, bad: Any = (), n: int = 12) -> None:
        self.bad = frozenset(bad)
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict:
        if i in self.bad:
            raise ValueError(f"sample {i} is bad")
        return {"index": i, "image": torch.full((3,), i / 2), "name": f"image {i}"}


class FaultyOnce(Faulty):
    """What fails, fails the first time only."""

    def __init__(self, bad: Any = (), n: int = 12) -> None:
        super().__init__(bad, n)
        self.failed = multiprocessing.RawArray("b", n)

    def __getitem__(self, i: int) -> dict:
        if i in self.bad and not self.failed[i]:
            self.failed[i] = 1
            raise ValueError(f"sample {i} is bad")
        return Faulty.__getitem__(Faulty(n=self.n), i)


class Stuck(Dataset):
    """Sample 5 waits at a gate."""

    def __init__(self) -> None:
        self.gate = multiprocessing.Event()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> int:
        return self.wait_at_the_gate(i) if i == 5 else i

    def wait_at_the_gate(self, i: int) -> int:
        self.gate.wait(60)
        return i


def listed(batch: list) -> dict:
    """Collates, but not by default."""
    return {
        "index": torch.tensor([sample["index"] for sample in batch]),
        "image": torch.stack([sample["image"] for sample in batch]),
        "name": [sample["name"] for sample in batch],
    }


#: Rows shared by workers; whole batches by one worker; whole batches by a function of the user's.
DISPATCH: dict[str, dict] = {
    "rows": {},
    "batches": {"dispatch": "batch"},
    "function": {"collate_fn": listed},
}
dispatched = pytest.mark.parametrize("dispatch", DISPATCH.values(), ids=DISPATCH)


def loader_of(dataset: Dataset, workers: int, dispatch: dict, **arguments: Any) -> Any:
    return Loader(dataset, **{"batch_size": 4, "num_workers": workers} | dispatch | arguments)


def indices(batches: list) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches]


def assert_whole(batches: list) -> None:
    """Every part of a batch is of the same samples."""
    for batch in batches:
        rows = batch["index"].tolist()
        assert batch["image"].tolist() == [[i / 2] * 3 for i in rows]
        assert batch["name"] == [f"image {i}" for i in rows]


def collect(iterator: Any) -> tuple[list, list[Exception]]:
    """The batches and the errors of what is left of an epoch."""
    batches, errors = [], []
    while True:
        try:
            batches.append(next(iterator))
        except StopIteration:
            return batches, errors
        except Exception as error:
            error.__traceback__ = None
            errors.append(error)


def pick(failures: list[dict], *names: str) -> list[tuple]:
    return [tuple(failure[name] for name in names) for failure in failures]


# --- raise ------------------------------------------------------------------------------------------


@WORKERS
@dispatched
def test_an_error_names_its_sample_in_a_note(workers: int, dispatch: dict) -> None:
    loader = loader_of(Faulty([6]), workers, dispatch)
    batches, (error,) = collect(iter(loader))
    assert type(error) is ValueError
    assert "ValueError: sample 6 is bad" in str(error)
    assert any(re.search(r"\b6\b", note) for note in error.__notes__)
    assert indices(batches) == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert_whole(batches)


@WORKERS
def test_an_error_of_a_row_names_only_its_sample(workers: int) -> None:
    _, (error,) = collect(iter(loader_of(Faulty([6]), workers, {})))
    assert error.__notes__ == ["(while loading sample 6)"]


@WORKERS
@dispatched
def test_raised_errors_are_written_down(workers: int, dispatch: dict) -> None:
    loader = loader_of(Faulty([2, 9]), workers, dispatch)
    assert loader.failures() == []
    collect(iter(loader))
    failures = loader.failures()
    assert pick(failures, "epoch", "batch", "replaced_by") == [(0, 0, None), (0, 2, None)]
    for failure, i in zip(failures, (2, 9), strict=True):
        assert f"ValueError: sample {i} is bad" in failure["error"]
        assert "Traceback" in failure["error"]
    if not dispatch:
        assert pick(failures, "row", "index") == [(2, 2), (1, 9)]


def test_failures_are_a_copy() -> None:
    loader = loader_of(Faulty([2]), 2, {}, on_error="skip")
    list(loader)
    loader.failures().clear()
    assert len(loader.failures()) == 1


# --- skip -------------------------------------------------------------------------------------------

PATTERNS = {
    "one": [6],
    "first of a batch": [4],
    "last of a batch": [7],
    "first half of a batch": [4, 5],
    "second half of a batch": [6, 7],
    "all but one": [4, 5, 6],
    "every second": range(0, 12, 2),
    "first of all": [0],
    "most of the first batch": [0, 1, 2],
}


@pytest.mark.parametrize(
    ("workers", "dispatch"),
    [(1, {}), (2, {}), (4, {}), (2, {"dispatch": "batch"}), (2, {"collate_fn": listed})],
    ids=["rows-1", "rows-2", "rows-4", "batches", "function"],
)
@pytest.mark.parametrize("bad", PATTERNS.values(), ids=PATTERNS)
def test_samples_that_fail_are_skipped(bad: Any, workers: int, dispatch: dict) -> None:
    loader = loader_of(Faulty(bad), workers, dispatch, on_error="skip")
    batches = list(loader)
    assert indices(batches) == [
        [i for i in range(first, first + 4) if i not in bad] for first in range(0, 12, 4)
    ]
    assert_whole(batches)
    expected = [(0, i // 4, i % 4, i, None) for i in bad]
    assert pick(loader.failures(), "epoch", "batch", "row", "index", "replaced_by") == expected


@WORKERS
@dispatched
def test_a_batch_without_samples_is_left_out(workers: int, dispatch: dict) -> None:
    loader = loader_of(Faulty([4, 5, 6, 7, 9]), workers, dispatch, on_error="skip")
    batches = list(loader)
    assert indices(batches) == [[0, 1, 2, 3], [8, 10, 11]]
    assert_whole(batches)
    assert pick(loader.failures(), "batch", "index") == [(1, 4), (1, 5), (1, 6), (1, 7), (2, 9)]


@dispatched
def test_an_epoch_without_samples_is_empty(dispatch: dict) -> None:
    loader = loader_of(Faulty(range(12)), 2, dispatch, on_error="skip")
    assert list(loader) == []
    assert len(loader.failures()) == 12


@dispatched
@pytest.mark.parametrize("persistent", [False, True])
def test_failures_of_all_epochs_are_kept(dispatch: dict, persistent: bool) -> None:
    loader = loader_of(Faulty([6]), 2, dispatch, on_error="skip", persistent_workers=persistent)
    for _ in range(3):
        assert indices(list(loader)) == [[0, 1, 2, 3], [4, 5, 7], [8, 9, 10, 11]]
    assert pick(loader.failures(), "epoch", "index") == [(0, 6), (1, 6), (2, 6)]


def test_samples_without_batches_are_skipped() -> None:
    loader = Loader(Faulty([6]), batch_size=None, num_workers=2, on_error="skip")
    assert [sample["index"] for sample in loader] == [i for i in range(12) if i != 6]
    assert pick(loader.failures(), "batch", "index") == [(6, 6)]


def test_samples_are_skipped_without_workers() -> None:
    loader = Loader(Faulty([6]), batch_size=4, num_workers=0, on_error="skip")
    assert indices(list(loader)) == [[0, 1, 2, 3], [4, 5, 7], [8, 9, 10, 11]]
    assert pick(loader.failures(), "batch", "row", "index") == [(1, 2, 6)]


@dispatched
def test_what_fails_once_is_skipped_once(dispatch: dict) -> None:
    loader = loader_of(FaultyOnce([6]), 2, dispatch, on_error="skip")
    assert indices(list(loader))[1] == [4, 5, 7]
    assert indices(list(loader))[1] == [4, 5, 6, 7]
    assert len(loader.failures()) == 1


# --- replace ----------------------------------------------------------------------------------------


def replaced(dataset: Dataset, workers: int, dispatch: dict, **arguments: Any) -> tuple[list, list]:
    loader = loader_of(dataset, workers, dispatch, on_error="replace", **arguments)
    return list(loader), pick(loader.failures(), "epoch", "batch", "row", "index", "replaced_by")


@dispatched
@pytest.mark.parametrize("bad", [[6], [4, 5], [0, 6, 9]])
def test_a_sample_that_fails_is_replaced_by_another_of_its_batch(dispatch: dict, bad: list) -> None:
    batches, failures = replaced(Faulty(bad), 2, dispatch)
    assert_whole(batches)
    delivered = indices(batches)
    assert [row[:4] for row in failures] == [(0, i // 4, i % 4, i) for i in bad]
    for i in range(12):
        found = delivered[i // 4][i % 4]
        if i in bad:
            assert found == next(row[4] for row in failures if row[3] == i)
            assert found // 4 == i // 4
            assert found not in bad
        else:
            assert found == i


@dispatched
def test_replacements_do_not_depend_on_the_workers(dispatch: dict) -> None:
    torch.manual_seed(9)
    order = torch.randperm(60).tolist()
    reference = replaced(Faulty(range(0, 60, 3), n=60), 1, DISPATCH["rows"], sampler=order)
    for workers in (1, 2, 4):
        assert_same(replaced(Faulty(range(0, 60, 3), n=60), workers, dispatch, sampler=order), reference)


@dispatched
def test_a_batch_without_a_replacement_is_an_error(dispatch: dict) -> None:
    loader = loader_of(Faulty([4, 5, 6, 7]), 2, dispatch, on_error="replace")
    batches, errors = collect(iter(loader))
    assert indices(batches) == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert [type(error) for error in errors] == [ValueError]


def test_a_sample_that_occurs_twice_is_replaced_twice() -> None:
    loader = Loader(Faulty([6]), batch_size=4, sampler=[6, 1, 6, 2], num_workers=1, on_error="replace")
    (batch,) = loader
    assert_whole([batch])
    assert batch["index"].tolist()[1::2] == [1, 2]
    assert set(batch["index"].tolist()[::2]) <= {1, 2}
    assert pick(loader.failures(), "row", "index") == [(0, 6), (2, 6)]


# --- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("workers", ["process", "thread"]),
        ("dispatch", ["auto", "batch"]),
        ("rng", ["sample", "torch"]),
        ("on_error", ["raise", "skip", "replace"]),
    ],
)
@pytest.mark.parametrize("value", ["nonsense", "", None, 1])
def test_a_value_that_is_none_of_the_choices_is_refused(name: str, choices: list, value: Any) -> None:
    with pytest.raises(ValueError, match=name) as raised:
        Loader(Faulty(), **{name: value})
    for choice in [*choices, value]:
        assert repr(choice) in str(raised.value)


# --- samples that do not end --------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"batch_size": 4}, r"sample 5 \(row 1 of batch 1\)"),
        ({"batch_size": 4, "collate_fn": list}, r"batch 1 \(samples \[4, 5, 6, 7\]\)"),
        ({"batch_size": None}, r"batch 5 \(samples 5\)"),
        ({"batch_size": 4, "in_order": False}, r"sample 5 \(row 1 of batch 1\)"),
    ],
    ids=["rows", "function", "samples", "any order"],
)
def test_a_timeout_says_where_the_worker_is(arguments: dict, name: str, workers: int) -> None:
    dataset = Stuck()
    iterator = iter(Loader(dataset, num_workers=workers, timeout=0.4, **arguments))
    delivered = []
    with pytest.raises(RuntimeError) as raised:
        delivered.extend(iterator)
    assert str(raised.value) == "DataLoader timed out after 0.4 seconds"
    notes = "\n".join(raised.value.__notes__)
    assert re.search(rf"worker \d has been at {name} for \d+\.\d seconds", notes)
    assert "wait_at_the_gate" in notes
    assert "test_failures.py" in notes
    # It goes on where it was, and may time out again.
    with pytest.raises(RuntimeError) as raised:
        delivered.extend(iterator)
    assert str(raised.value) == "DataLoader timed out after 0.4 seconds"
    dataset.gate.set()
    delivered.extend(iterator)
    found = [i for batch in delivered for i in torch.as_tensor(batch).reshape(-1).tolist()]
    if not arguments.get("in_order", True):
        found.sort()
    assert found == list(range(12))


def test_a_timeout_in_whole_seconds_has_the_words_of_torch() -> None:
    dataset = Stuck()
    iterator = iter(Loader(dataset, batch_size=6, num_workers=1, timeout=1))
    with pytest.raises(RuntimeError) as raised:
        next(iterator)
    assert str(raised.value) == "DataLoader timed out after 1 seconds"
    dataset.gate.set()
    assert [batch.tolist() for batch in iterator] == [list(range(6)), list(range(6, 12))]


# --- batches that are kept ------------------------------------------------------------------------------


@dispatched
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_batches_that_are_kept_do_not_change(dispatch: dict, persistent: bool, on_error: str) -> None:
    loader = loader_of(
        Faulty([2, 30, 31], n=80), 2, dispatch, on_error=on_error, persistent_workers=persistent
    )
    kept = list(loader)
    copies = clone(kept)
    others = [list(loader) for _ in range(3)]
    assert_same(kept, copies)
    for epoch in others:
        assert_same(epoch, copies)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_of_a_subset_only_what_failed_is_left_out(workers: int) -> None:
    # It could load a whole batch at once, but does so one by one, as its dataset does.
    subset = Subset(Faulty(bad=[3, 8]), [1, 3, 5, 7, 8, 11])
    loader = Loader(subset, batch_size=3, num_workers=workers, on_error="skip")
    assert [batch["index"].tolist() for batch in loader] == [[1, 5], [7, 11]]
    assert [failure["index"] for failure in loader.failures()] == [1, 4]
    if workers:
        assert "share the rows of a batch" in loader.explain()
