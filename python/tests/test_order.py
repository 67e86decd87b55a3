"""Batches of torch's own samplers as arrays: the same numbers, and the same draws at the same moments."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from feedline._order import TOGETHER, views
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler


def story(batches: Iterator[Any], generator: torch.Generator | None) -> list[tuple[list[int], bytes]]:
    """Each batch with the state of the generator after it was given, and that after the end."""
    drawn_from = torch.default_generator if generator is None else generator
    told = []
    for batch in batches:
        told.append((list(batch), drawn_from.get_state().numpy().tobytes()))
    return [*told, ([], drawn_from.get_state().numpy().tobytes())]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("own_generator", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4, 20])
@pytest.mark.parametrize("count", [1, 4, 12, 13, 4 * TOGETHER + 1])
def test_shuffled_batches_and_draws_are_torchs(
    count: int, size: int, own_generator: bool, drop_last: bool
) -> None:
    told = []
    for make in (iter, views):
        torch.manual_seed(3)
        generator = torch.Generator().manual_seed(5) if own_generator else None
        sampler = BatchSampler(RandomSampler(range(count), generator=generator), size, drop_last)
        batches: Any = make(sampler)
        told.append(story(batches, generator))
    assert told[0] == told[1]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [0, 1, 4, 13, 4 * TOGETHER, 4 * TOGETHER + 1, 9 * TOGETHER])
def test_batches_in_order_are_torchs(count: int, drop_last: bool) -> None:
    sampler = BatchSampler(SequentialSampler(range(count)), 4, drop_last)
    found = views(sampler)
    assert found is not None
    assert [list(batch) for batch in found] == list(sampler)


def test_a_dataset_may_grow_until_the_first_batch_is_drawn() -> None:
    data = list(range(3))
    found = views(BatchSampler(SequentialSampler(data), 2, False))
    data.append(3)
    assert found is not None
    assert [list(batch) for batch in found] == [[0, 1], [2, 3]]


class Backwards(SequentialSampler):
    """Another order."""

    def __iter__(self) -> Iterator[int]:
        """From the end."""
        return iter(range(len(self.data_source) - 1, -1, -1))


@pytest.mark.parametrize(
    "sampler",
    [
        BatchSampler(Backwards(range(4)), 2, False),
        BatchSampler([3, 1], 2, False),
        BatchSampler(RandomSampler(range(4), replacement=True), 2, False),
        BatchSampler(RandomSampler(range(4), num_samples=3), 2, False),
        [[0, 1], [2]],
    ],
    ids=["subclass", "list", "replacement", "number", "batches"],
)
def test_other_samplers_are_asked_themselves(sampler: Any) -> None:
    assert views(sampler) is None


def test_a_sampler_that_was_changed_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequentialSampler, "__iter__", Backwards.__iter__)
    assert views(BatchSampler(SequentialSampler(range(4)), 2, False)) is None
