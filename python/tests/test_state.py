"""A state saved at any batch goes on with exactly the rest, in a new loader and with other workers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from feedline import DataLoader
from torch.utils.data import Dataset, IterableDataset, Sampler, TensorDataset, get_worker_info

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

END = "end of epoch"


class Augmented(Dataset):
    """Samples with a random number in them."""

    def __len__(self) -> int:
        return 22

    def __getitem__(self, i: int) -> tuple[int, float]:
        return i, random.random()


def share() -> tuple[int, int]:
    info = get_worker_info()
    return (info.id, info.num_workers) if info else (0, 1)


class Numbers(IterableDataset):
    """A stream without a state."""

    def __iter__(self) -> Iterator[int]:
        worker, workers = share()
        return iter(range(worker, 21, workers))


class Counter(IterableDataset):
    """A stream that knows how far it has been read."""

    def __init__(self) -> None:
        self.at = 0
        self.reads = 0

    def __iter__(self) -> Iterator[int]:
        worker, workers = share()
        while self.at < 9:
            self.at += 1
            self.reads += 1
            assert self.reads <= 12, "a stream with a state must not be read again"
            yield self.at * workers + worker
        self.at = self.reads = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Rotating(Sampler):
    """A sampler with a state: every epoch begins one further."""

    def __init__(self, length: int) -> None:
        self.length, self.first, self.at = length, 0, 0

    def __iter__(self) -> Iterator[int]:
        while self.at < self.length:
            self.at += 1
            yield (self.first + self.at - 1) % self.length
        self.at = 0
        self.first += 1

    def __len__(self) -> int:
        return self.length

    def state_dict(self) -> dict[str, int]:
        return {"first": self.first, "at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.first, self.at = state["first"], state["at"]


def as_text(batch: Any) -> str:
    return json.dumps(batch, default=lambda tensor: tensor.tolist())


def two_epochs(loader: DataLoader) -> list[str]:
    return [as_text(batch) for batch in loader] + [END] + [as_text(batch) for batch in loader] + [END]


def check_every_place(
    make: Callable[[], DataLoader], make_again: Callable[[], DataLoader] | None = None
) -> None:
    """From every place in two epochs, a state goes on with the rest."""
    torch.manual_seed(5)
    whole = two_epochs(make())
    for stop in range(len(whole)):
        torch.manual_seed(5)
        loader = make()
        iterator, seen = None, []
        while len(seen) < stop:
            iterator = iter(loader) if iterator is None else iterator
            try:
                seen.append(as_text(next(iterator)))
            except StopIteration:
                seen.append(END)
                iterator = None
        state = json.loads(json.dumps(loader.state_dict()))
        del iterator
        torch.manual_seed(99)
        again = (make_again or make)()
        again.load_state_dict(state)
        assert again.state_dict() == state
        rest = []
        while len(seen) + len(rest) < len(whole):
            rest += [*(as_text(batch) for batch in again), END]
        assert seen + rest == whole, f"after {stop} steps"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_map_style_with_augmentation(workers: int, persistent: bool) -> None:
    check_every_place(
        lambda: DataLoader(Augmented(), 4, shuffle=True, num_workers=workers, persistent_workers=persistent)
    )


def test_another_number_and_kind_of_workers() -> None:
    check_every_place(
        lambda: DataLoader(Augmented(), 4, shuffle=True, num_workers=2),
        lambda: DataLoader(Augmented(), 4, shuffle=True, num_workers=3, workers="thread"),
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_without_workers_and_a_generator_of_its_own(workers: int) -> None:
    def make() -> DataLoader:
        generator = torch.Generator().manual_seed(3)
        return DataLoader(list(range(22)), 4, shuffle=True, generator=generator, num_workers=workers)

    check_every_place(make)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_in_memory(workers: int) -> None:
    check_every_place(
        lambda: DataLoader(TensorDataset(torch.arange(22)), 4, shuffle=True, num_workers=workers)
    )


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("stream", [Numbers, Counter])
def test_streams(workers: int, stream: type) -> None:
    check_every_place(lambda: DataLoader(stream(), 3, num_workers=workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_samplers_with_a_state(workers: int) -> None:
    check_every_place(lambda: DataLoader(list(range(10)), 3, sampler=Rotating(10), num_workers=workers))


def test_out_of_order_everything_is_delivered_once() -> None:
    torch.manual_seed(5)
    for stop in range(7):
        loader = DataLoader(Augmented(), 4, num_workers=3, in_order=False, workers="thread")
        iterator = iter(loader)
        seen = [as_text(next(iterator)[0]) for _ in range(stop)] if stop < 7 else []
        state = loader.state_dict()
        del iterator
        again = DataLoader(Augmented(), 4, num_workers=2, in_order=False)
        again.load_state_dict(state)
        seen += [as_text(batch[0]) for batch in again]
        expected = [as_text(batch) for batch in DataLoader(list(range(22)), 4)]
        assert sorted(seen) == sorted(expected)


def test_breaking_out_of_a_loop_leaves_a_place() -> None:
    loader = DataLoader(list(range(20)), 4, num_workers=2)
    for step, _ in enumerate(loader):
        if step == 1:
            break
    again = DataLoader(list(range(20)), 4, num_workers=1)
    again.load_state_dict(loader.state_dict())
    assert next(iter(again)).tolist() == [8, 9, 10, 11]


def test_what_is_not_a_state_is_refused() -> None:
    loader = DataLoader(list(range(8)), 2)
    state = loader.state_dict()
    with pytest.raises(ValueError, match="not a state"):
        loader.load_state_dict({"epoch": 3})
    with pytest.raises(ValueError, match="version 99"):
        loader.load_state_dict({**state, "version": 99})
    with pytest.raises(ValueError, match="damaged"):
        loader.load_state_dict({**state, "generator": "?"})
    streams = DataLoader(Numbers(), 2, num_workers=2)
    next(iterator := iter(streams))
    other = DataLoader(Numbers(), 2, num_workers=1)
    other.load_state_dict(streams.state_dict())
    del iterator
    with pytest.raises(ValueError, match="saved with 2 workers"):
        iter(other)
    loader.load_state_dict({})
    assert next(iter(loader)).tolist() == [0, 1]
