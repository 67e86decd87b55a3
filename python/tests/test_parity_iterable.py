"""Streams: the same sequence of batches from the same workers as with torch's loader.

A stream belongs to its worker, so here the number of the worker that failed is compared too.
"""

# The names of the tests say the behaviour.

from collections.abc import Callable
from typing import Any

import pytest
import torch
import zoo
from compare import Failure, assert_same, assert_same_journal, journal, multiset, steps, with_warnings
from conftest import Loader
from torch.utils.data import ChainDataset
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.map import SequenceWrapper

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

BOTH = pytest.mark.parametrize("loader_class", [TorchLoader, Loader], ids=["reference", "subject"])
WORKERS = pytest.mark.parametrize("workers", [0, 1, 2, 3])

BATCHING = [
    {"batch_size": 1},
    {"batch_size": 4},
    {"batch_size": 4, "drop_last": True},
    {"batch_size": 100},
    {"batch_size": 100, "drop_last": True},
    {"batch_size": None},
]


def assert_parity(make: Callable[[], Any], **arguments: Any) -> list:
    """The subject's journal, after comparing it with torch's; each has a dataset of its own."""
    reference = journal(TorchLoader(make(), **arguments))
    subject = journal(Loader(make(), **arguments))
    assert_same_journal(subject, reference, worker_known=True)
    return subject


def numbers(batches: list) -> list[int]:
    """All samples of a journal of ints."""
    return [i for batch in batches for i in torch.as_tensor(batch).reshape(-1).tolist()]


# --- sequence -----------------------------------------------------------------------------------


@WORKERS
@pytest.mark.parametrize("arguments", BATCHING, ids=str)
def test_a_sharded_stream(arguments: dict, workers: int) -> None:
    subject = assert_parity(lambda: zoo.Stream(23), num_workers=workers, **arguments)
    if not arguments.get("drop_last"):
        assert sorted(numbers(subject)) == list(range(23))


@WORKERS
def test_a_stream_that_is_not_sharded_comes_once_from_each_worker(workers: int) -> None:
    subject = assert_parity(lambda: zoo.Stream(7, shard=False), num_workers=workers, batch_size=3)
    assert sorted(numbers(subject)) == sorted(list(range(7)) * max(workers, 1))


@WORKERS
@pytest.mark.parametrize("arguments", BATCHING, ids=str)
@pytest.mark.parametrize("lengths", [(11, 2, 6), (0, 9, 1), (5, 0, 0), (0, 0, 0), (1, 12, 12)], ids=str)
def test_shards_of_unequal_length(lengths: tuple, arguments: dict, workers: int) -> None:
    subject = assert_parity(lambda: zoo.Shards(lengths), num_workers=workers, **arguments)
    expected = sum(lengths[:workers] if workers else lengths)
    dropped = arguments.get("drop_last")
    assert len(numbers(subject)) <= expected if dropped else len(numbers(subject)) == expected


@WORKERS
@pytest.mark.parametrize(
    "make",
    [zoo.nested_dict, zoo.point, zoo.tensor_and_label, zoo.text, zoo.track, zoo.costly, zoo.two_kinds],
    ids=lambda make: make.__name__,
)
def test_samples_of_many_kinds(make: Callable, workers: int) -> None:
    entries = assert_parity(lambda: zoo.Shards((8, 4, 12), make), num_workers=workers, batch_size=4)
    assert not any(isinstance(entry, Failure) for entry in entries)


@WORKERS
@pytest.mark.parametrize("make", [zoo.nested_dict, zoo.nested_tuple, zoo.text, zoo.a_float])
def test_samples_without_auto_batching(make: Callable, workers: int) -> None:
    subject = assert_parity(lambda: zoo.Shards((5, 1, 3), make), num_workers=workers, batch_size=None)
    assert len(subject) == (9 if workers == 0 else sum((5, 1, 3)[:workers]))


@WORKERS
def test_a_custom_collate_function(workers: int) -> None:
    make = lambda: zoo.Shards((7, 3, 9), zoo.ragged)  # noqa: E731
    subject = assert_parity(make, num_workers=workers, batch_size=3, collate_fn=zoo.padded)
    assert subject[0]["lengths"] == [1, 2, 3]


@WORKERS
@pytest.mark.parametrize("factor", [1, 5])
def test_prefetching_does_not_change_the_sequence(factor: int, workers: int) -> None:
    prefetch = {"prefetch_factor": factor} if workers else {}
    subject = assert_parity(lambda: zoo.Shards((11, 2, 6)), num_workers=workers, batch_size=2, **prefetch)
    assert subject


@WORKERS
def test_chained_streams(workers: int) -> None:
    def chained() -> ChainDataset:
        return zoo.Stream(5) + zoo.Shards((3, 2, 1)) + zoo.Stream(4)

    assert isinstance(chained(), ChainDataset)
    assert assert_parity(chained, num_workers=workers, batch_size=3)


@BOTH
@WORKERS
def test_a_list_of_streams_is_no_stream(loader_class: type, workers: int) -> None:
    # What decides is the class IterableDataset, nothing else.
    class Both(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> int:
            return i * 10

        def __iter__(self) -> Any:
            raise AssertionError("iterated")

    loader = loader_class(Both(), batch_size=3, num_workers=workers)
    assert [batch.tolist() for batch in loader] == [[0, 10, 20]]


@WORKERS
def test_out_of_order_the_batches_are_the_same(workers: int) -> None:
    def batches(loader_class: type) -> list:
        loader = loader_class(zoo.Shards((13, 4, 8)), batch_size=3, num_workers=workers, in_order=False)
        return multiset(list(loader))

    subject = batches(Loader)
    assert subject == batches(TorchLoader)
    assert sum(len(batch) for batch in subject) == sum((13, 4, 8)[: workers or 3])


@BOTH
def test_out_of_order_each_worker_keeps_its_own_order(loader_class: type) -> None:
    loader = loader_class(zoo.Shards((13, 4, 8), int), batch_size=3, num_workers=3, in_order=False)
    seen: dict[int, list] = {0: [], 1: [], 2: []}
    for batch in loader:
        seen[batch[0].item() // 100].extend(batch.tolist())
    assert seen == {shard: [100 * shard + i for i in range(n)] for shard, n in enumerate((13, 4, 8))}


# --- epochs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "persistent"), [(0, False), (1, False), (3, False), (1, True), (3, True)]
)
def test_copies_of_the_stream_live_as_long_as_their_worker(persistent: bool, workers: int) -> None:

    def epochs(loader_class: type) -> list:
        loader = loader_class(zoo.Epochs(), batch_size=2, num_workers=workers, persistent_workers=persistent)
        return [list(loader) for _ in range(3)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    kept = persistent or not workers
    assert [set(numbers(epoch)) for epoch in subject] == ([{1}, {2}, {3}] if kept else [{1}, {1}, {1}])


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("in_order", [True, False])
def test_persistent_workers_start_the_stream_again(in_order: bool, workers: int) -> None:
    def epochs(loader_class: type) -> list:
        loader = loader_class(
            zoo.Shards((7, 0, 10)),
            batch_size=3,
            num_workers=workers,
            persistent_workers=True,
            in_order=in_order,
        )
        return [list(loader) if in_order else multiset(list(loader)) for _ in range(3)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert_same(subject[2], subject[0])


@WORKERS
def test_a_stream_that_is_its_own_iterator(workers: int) -> None:
    def epochs(loader_class: type) -> list:
        loader = loader_class(zoo.OneShot(5), batch_size=2, num_workers=workers)
        return [list(loader) for _ in range(2)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert bool(subject[1]) == bool(workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_persistent_stream_left_early_starts_again(workers: int) -> None:
    def epochs(loader_class: type) -> list:
        loader = loader_class(zoo.Shards((9, 5)), batch_size=2, num_workers=workers, persistent_workers=True)
        first = [batch for batch, _ in zip(loader, range(2), strict=False)]
        return [first, list(loader), list(loader)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert_same(subject[1], subject[2])


@BOTH
@WORKERS
def test_the_end_stays_the_end(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(zoo.Shards((3, 1, 2)), batch_size=2, num_workers=workers))
    assert steps(iterator)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


# --- announced lengths --------------------------------------------------------------------------


def length_warnings(action: Callable[[], Any]) -> list:
    _, warnings = with_warnings(action)
    return [warning for warning in warnings if warning[1].startswith("Length of")]


def too_long(announced: int, fetched: int, n: int, workers: int) -> str:
    text = (
        f"Length of IterableDataset SizedStream({n}, {announced}) was reported to be {announced}"
        f"(when accessing len(dataloader)), but {fetched} samples have been fetched. "
    )
    if workers:
        text += (
            "For multiprocessing data-loading, this could be caused by not properly configuring the "
            "IterableDataset replica at each worker. Please see "
            "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
        )
    return text


@BOTH
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_batch_beyond_the_announced_length_is_warned_of(loader_class: type, workers: int) -> None:
    loader = loader_class(zoo.SizedStream(8, 5), num_workers=workers)
    assert length_warnings(lambda: list(loader)) == []
    assert len(loader) == 5
    for _ in range(2):
        warned = length_warnings(lambda: list(loader))
        assert warned == [(UserWarning, too_long(5, fetched, 8, workers)) for fetched in (6, 7, 8)]


@BOTH
@pytest.mark.parametrize("workers", [0, 2])
def test_the_length_is_asked_before_iter_or_not_at_all(loader_class: type, workers: int) -> None:
    loader = loader_class(zoo.SizedStream(4, 2), num_workers=workers)
    iterator = iter(loader)
    assert len(loader) == 2
    assert length_warnings(lambda: steps(iterator)) == []
    assert loader._IterableDataset_len_called == 2


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("arguments", BATCHING, ids=str)
@pytest.mark.parametrize("announced", [0, 6, 12])
def test_length_warnings_count_batches(announced: int, arguments: dict, workers: int) -> None:
    def warned(loader_class: type) -> list:
        loader = loader_class(zoo.SizedStream(12, announced, shard=False), num_workers=workers, **arguments)
        return [len(loader), length_warnings(lambda: list(loader))]

    assert warned(Loader) == warned(TorchLoader)


# --- errors -------------------------------------------------------------------------------------


@WORKERS
@pytest.mark.parametrize("arguments", BATCHING[:4], ids=str)
def test_a_stream_that_breaks(arguments: dict, workers: int) -> None:
    subject = assert_parity(lambda: zoo.BreakingStream(9, 6), num_workers=workers, **arguments)
    failures = [entry for entry in subject if isinstance(entry, Failure)]
    assert len(failures) == max(workers, 1)
    for failure in failures:
        assert failure.type is ValueError
        assert failure.last_line.endswith("broken at 6")


@pytest.mark.parametrize("workers", [2, 3])
def test_one_stream_that_breaks_does_not_end_the_others(workers: int) -> None:
    subject = assert_parity(lambda: zoo.BreakingStream(9, 3, worker=1), num_workers=workers, batch_size=2)
    (failure,) = [entry for entry in subject if isinstance(entry, Failure)]
    assert failure.worker == 1
    whole = [entry for entry in subject if not isinstance(entry, Failure)]
    assert sorted(numbers(whole)) == sorted([0, 1] + list(range(9)) * (workers - 1))


@WORKERS
@pytest.mark.parametrize("arguments", [*BATCHING[:2], {"batch_size": None}], ids=str)
def test_a_stream_that_stumbles_goes_on(arguments: dict, workers: int) -> None:
    subject = assert_parity(lambda: zoo.StumblingStream(9, 5), num_workers=workers, **arguments)
    whole = [entry for entry in subject if not isinstance(entry, Failure)]
    assert len(subject) - len(whole) == max(workers, 1)
    assert 8 in numbers(whole)


@pytest.mark.parametrize("workers", [1, 2])
def test_after_an_error_a_persistent_stream_starts_again(workers: int) -> None:
    def epochs(loader_class: type) -> list:
        loader = loader_class(
            zoo.BreakingStream(5, 3), batch_size=2, num_workers=workers, persistent_workers=True
        )
        return [journal(loader) for _ in range(3)]

    for subject, reference in zip(epochs(Loader), epochs(TorchLoader), strict=True):
        assert_same_journal(subject, reference, worker_known=True)
        assert any(isinstance(entry, Failure) for entry in subject)


@WORKERS
def test_samples_of_a_stream_that_cannot_be_collated(workers: int) -> None:
    subject = assert_parity(lambda: zoo.Shards((6, 6, 6), zoo.none_later), num_workers=workers, batch_size=2)
    assert sum(isinstance(entry, Failure) for entry in subject) == (workers or 3)


# --- data pipes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("shuffle", [None, False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_iterable_data_pipes_are_wrapped_shuffled_and_sharded(shuffle: bool | None, workers: int) -> None:
    def epochs(loader_class: type, persistent: bool) -> list:
        torch.manual_seed(7)
        pipe = IterableWrapper(list(range(20))).shuffle().sharding_filter()
        loader = loader_class(
            pipe, batch_size=3, shuffle=shuffle, num_workers=workers, persistent_workers=persistent
        )
        assert loader.dataset is not pipe
        return [[numbers(list(loader)), torch.get_rng_state()] for _ in range(2)]

    for persistent in (False, True) if workers else (False,):
        subject = epochs(Loader, persistent)
        assert_same(subject, epochs(TorchLoader, persistent))
        for epoch, _ in subject:
            assert sorted(epoch) == list(range(20))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_map_data_pipes_are_wrapped(workers: int) -> None:
    def epoch(loader_class: type) -> list:
        pipe = SequenceWrapper(list(range(9))).map(zoo.an_int)
        loader = loader_class(pipe, batch_size=4, num_workers=workers)
        assert loader.dataset is not pipe
        return list(loader)

    subject = epoch(Loader)
    assert_same(subject, epoch(TorchLoader))
    assert numbers(subject) == [zoo.an_int(i) for i in range(9)]
