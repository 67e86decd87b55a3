"""The batches of torch's own samplers, as numbers in memory.

Torch makes a list of Python's numbers of every batch, and before a shuffled epoch one of all samples. With tiny
samples that takes as long as loading them, and with many it takes their memory several times. Here a batch is a view
of an array, which goes to the workers as it is; of tiny batches, several at once. The order is torch's to the bit,
and so is what is drawn from generators, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

try:
    import numpy as np
except ImportError:  # torch works without it, and so do we
    np = None  # type: ignore[assignment]

#: Batches whose numbers are made at once, where they follow each other.
TOGETHER = 256

#: The classes as they came: who changes how one of them iterates wants to be asked.
_AS_THEY_CAME = {kind: kind.__iter__ for kind in (BatchSampler, RandomSampler, SequentialSampler)}


def views(batches: Any) -> Order | None:
    """What a sampler of batches would give, as arrays of 64-bit numbers; ``None`` if it is not one of torch's."""
    if np is None or not _is_plain(batches, BatchSampler):
        return None
    make: Callable[[Any, int, bool], Iterator[memoryview]]
    sampler = batches.sampler
    if _is_plain(sampler, SequentialSampler):
        make = _sequential
    elif _is_plain(sampler, RandomSampler) and not sampler.replacement and sampler._num_samples is None:
        make = _shuffled
    else:
        return None
    return Order(make(sampler, batches.batch_size, batches.drop_last), batches.batch_size)


class Order:
    """The batches of an epoch, one after the other or several at once."""

    def __init__(self, stretches: Iterator[memoryview], size: int) -> None:
        #: How many samples a whole batch has.
        self.size = size
        self._stretches = stretches
        self._stretch = memoryview(b"")
        self._place = 0

    def __iter__(self) -> Order:
        """It is its own iterator."""
        return self

    def __next__(self) -> memoryview:
        """The next batch."""
        place = self._place
        while place >= len(self._stretch):
            self._stretch, place = next(self._stretches), 0
        self._place = end = place + self.size
        return self._stretch[place:end]

    def several(self, most: int) -> memoryview:
        """As many of the next batches as follow each other in memory, whole ones, as one array; maybe none.

        The generator is not asked for more, so nothing is drawn before its time.
        """
        begin, whole = self._place, max(0, len(self._stretch) - self._place) // self.size
        self._place += min(most, whole) * self.size
        return self._stretch[begin : self._place]


def _is_plain(sampler: Any, kind: type) -> bool:
    return type(sampler) is kind and kind.__iter__ is _AS_THEY_CAME[kind]


def _sequential(sampler: SequentialSampler, size: int, drop_last: bool) -> Iterator[memoryview]:
    count = len(sampler.data_source)
    if drop_last:
        count -= count % size
    for begin in range(0, count, TOGETHER * size):
        yield np.arange(begin, min(count, begin + TOGETHER * size), dtype=np.int64).data


def _shuffled(sampler: RandomSampler, size: int, drop_last: bool) -> Iterator[memoryview]:
    count = len(sampler.data_source)
    generator = sampler.generator
    if generator is None:
        generator = torch.Generator()
        generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
    order = torch.randperm(count, generator=generator).numpy().data
    whole = count - count % size
    yield order[:whole]
    if sampler.generator is not None:
        # Torch draws another order when it finds the end of this one, of which it takes nothing.
        torch.randperm(count, generator=generator)
    if whole < count and not drop_last:
        yield order[whole:]
