"""Tiny batches that share a ticket: delivered as if each had its own."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from feedline import DataLoader
from feedline._iterator import WorkerIter
from feedline._sheaf import Sheaf

ITEMS, BATCH = 8 * 1200 + 3, 8


class Numbers:
    """Samples that cost nothing, except where it is said."""

    def __init__(self, special: int = -1, what: str = "", mark: Path | None = None) -> None:
        self.special, self.what, self.mark = special, what, mark

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> Any:
        if index == self.special:
            if self.what == "raise":
                raise KeyError(f"no sample {index}")
            if self.what == "float":
                return 0.5
            if self.what == "die":
                os._exit(7)
            assert self.mark is not None
            if not self.mark.exists():
                self.mark.touch()
                os._exit(7)
        return index


@pytest.fixture
def sheaves(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """The batches of every ticket that had several; however long a busy machine takes for a row, they are short."""
    monkeypatch.setattr("feedline._pace.SHORT", 60.0)
    seen: list[range] = []
    make = Sheaf.__init__

    def watched(
        self: Sheaf, structure: Any, collected: Any, first: int, rows: int, count: int, *more: Any
    ) -> None:
        seen.append(range(first, first + count))
        make(self, structure, collected, first, rows, count, *more)

    monkeypatch.setattr(Sheaf, "__init__", watched)
    return seen


def expected(shuffle: bool) -> list[list[int]]:
    """What torch delivers."""
    torch.manual_seed(0)
    return [batch.tolist() for batch in torch.utils.data.DataLoader(Numbers(), BATCH, shuffle)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_are_torchs(workers: int, kind: str, shuffle: bool, sheaves: list[range]) -> None:
    want = expected(shuffle)
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), BATCH, shuffle, num_workers=workers, workers=kind)
    assert [batch.tolist() for batch in loader] == want
    assert sheaves
    assert all(len(one) > 1 for one in sheaves)


def test_a_kept_batch_is_never_overwritten(sheaves: list[range]) -> None:
    want = expected(False)
    loader = DataLoader(Numbers(), BATCH, num_workers=2)
    kept = [(number, batch) for number, batch in enumerate(loader) if number % 7 == 0]
    assert sheaves
    assert all(batch.tolist() == want[number] for number, batch in kept)


def test_what_happens_to_one_batch_does_not_happen_to_its_neighbours(sheaves: list[range]) -> None:
    iterator = iter(DataLoader(Numbers(), BATCH, num_workers=1))
    want = expected(False)
    for number, batch in enumerate(iterator):
        assert batch.tolist() == want[number]
        batch.fill_(-1)
    assert sheaves


def special_in(sheaves: list[range]) -> int:
    """A sample in the middle of a ticket that had several batches."""
    middle = sheaves[len(sheaves) // 2]
    return BATCH * (middle[0] + 1) + 3


@pytest.fixture
def special(sheaves: list[range]) -> int:
    """The same in every epoch, as nearly as timing lets it be: tests look at what became of it."""
    for _ in DataLoader(Numbers(), BATCH, num_workers=2):
        pass
    found = special_in(sheaves)
    sheaves.clear()
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sample_that_fails_is_raised_at_its_batch(workers: int, special: int, sheaves: list[range]) -> None:
    want, number = expected(False), special // BATCH
    loader = DataLoader(Numbers(special, "raise"), BATCH, num_workers=workers)
    iterator = iter(loader)
    assert [batch.tolist() for batch in itertools.islice(iterator, number)] == want[:number]
    assert loader.failures() == []
    with pytest.raises(KeyError, match=f"no sample {special}"):
        next(iterator)
    (failure,) = loader.failures()
    assert (failure["batch"], failure["row"], failure["index"]) == (number, special % BATCH, special)
    assert [batch.tolist() for batch in iterator] == want[number + 1 :]
    assert sheaves


def test_a_sample_that_fails_is_left_out_of_its_batch(special: int, sheaves: list[range]) -> None:
    want, number = expected(False), special // BATCH
    loader = DataLoader(Numbers(special, "raise"), BATCH, num_workers=2, on_error="skip")
    want[number].remove(special)
    assert [batch.tolist() for batch in loader] == want
    assert [failure["index"] for failure in loader.failures()] == [special]
    assert sheaves


def test_a_batch_of_another_structure_is_collated_by_torch(special: int, sheaves: list[range]) -> None:
    dataset = Numbers(special, "float")
    want = [batch.tolist() for batch in torch.utils.data.DataLoader(dataset, BATCH)]
    assert [batch.tolist() for batch in DataLoader(dataset, BATCH, num_workers=2)] == want
    assert sheaves


def test_a_worker_that_dies_once_is_replaced(special: int, sheaves: list[range], tmp_path: Path) -> None:
    dataset = Numbers(special, "die once", tmp_path / "died")
    where = f"sample {special} .row {special % BATCH} of batch {special // BATCH}."
    with pytest.warns(RuntimeWarning, match=where):
        found = [batch.tolist() for batch in DataLoader(dataset, BATCH, num_workers=2)]
    assert found == expected(False)
    assert sheaves


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_sample_that_kills_is_named_at_its_batch(special: int, sheaves: list[range]) -> None:
    iterator = iter(DataLoader(Numbers(special, "die"), BATCH, num_workers=2))
    want, number = expected(False), special // BATCH
    assert [batch.tolist() for batch in itertools.islice(iterator, number)] == want[:number]
    with pytest.raises(RuntimeError, match=f"sample {special} .row {special % BATCH} of batch {number}"):
        next(iterator)
    assert [batch.tolist() for batch in iterator] == want[number + 1 :]
    assert sheaves


@pytest.mark.parametrize("shuffle", [False, True])
def test_every_place_within_a_ticket_can_be_gone_on_from(shuffle: bool, sheaves: list[range]) -> None:
    want = expected(shuffle)
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), BATCH, shuffle, num_workers=2)
    iterator, states = iter(loader), []
    for number, _ in enumerate(iterator, 1):
        if any(number in one for one in sheaves[:2]):
            states.append((number, loader.state_dict()))
        if len(sheaves) > 2:
            break
    del iterator
    assert states
    for number, state in states:
        again = DataLoader(Numbers(), BATCH, shuffle, num_workers=number % 3)
        again.load_state_dict(state)
        rest = iter(again)
        assert [batch.tolist() for batch in itertools.islice(rest, 40)] == want[number : number + 40]


def test_an_epoch_that_is_left_in_the_middle_leaves_nothing_to_the_next(sheaves: list[range]) -> None:
    loader = DataLoader(Numbers(), BATCH, num_workers=2, persistent_workers=True)
    want = expected(False)
    for epoch in range(5):
        for number, batch in enumerate(loader):
            assert batch.tolist() == want[number]
            if number == 100 + 37 * epoch:
                break
    assert sheaves
    loader._iterator._shutdown_workers()


@pytest.mark.parametrize(
    "arguments",
    [
        {"prefetch_factor": 2},
        {"worker_init_fn": int},
        {"on_error": "replace"},
        {"dispatch": "batch"},
        {"rng": "torch"},
        {"sampler": list(range(ITEMS))},
    ],
    ids=lambda one: next(iter(one)),
)
def test_where_each_batch_needs_its_own_ticket_it_has_one(
    arguments: dict[str, Any], sheaves: list[range]
) -> None:
    loader = DataLoader(Numbers(), BATCH, num_workers=2, **arguments)
    assert [batch.tolist() for batch in loader] == expected(False)
    assert not sheaves


def test_strings_come_alone(sheaves: list[range]) -> None:
    loader = DataLoader([str(number) for number in range(400)], 4, num_workers=1)
    assert list(itertools.chain(*loader)) == [str(number) for number in range(400)]
    assert not sheaves


def test_batches_that_come_as_they_are_ready_come_once(sheaves: list[range]) -> None:
    loader = DataLoader(Numbers(), BATCH, num_workers=3, in_order=False)
    assert isinstance(iter(loader), WorkerIter)
    assert sorted(itertools.chain(*(batch.tolist() for batch in loader))) == list(range(ITEMS))
    assert sheaves
