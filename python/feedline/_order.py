"""The batches of torch's own samplers, as numbers in memory.

Torch makes a list of Python's numbers of every batch, and before a shuffled epoch one of all samples. With tiny
samples that takes as long as loading them, and with many it takes their memory several times. Here a batch is a view
of an array, which goes to the workers as it is. The order is torch's to the bit, and so is what is drawn from
generators, and when.
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
TOGETHER = 64

#: The classes as they came: who changes how one of them iterates wants to be asked.
_AS_THEY_CAME = {kind: kind.__iter__ for kind in (BatchSampler, RandomSampler, SequentialSampler)}


def views(batches: Any) -> Iterator[memoryview] | None:
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
    return make(sampler, batches.batch_size, batches.drop_last)


def _is_plain(sampler: Any, kind: type) -> bool:
    return type(sampler) is kind and kind.__iter__ is _AS_THEY_CAME[kind]


def _sequential(sampler: SequentialSampler, size: int, drop_last: bool) -> Iterator[memoryview]:
    count = len(sampler.data_source)
    if drop_last:
        count -= count % size
    for begin in range(0, count, TOGETHER * size):
        numbers = np.arange(begin, min(count, begin + TOGETHER * size), dtype=np.int64).data
        for place in range(0, len(numbers), size):
            yield numbers[place : place + size]


def _shuffled(sampler: RandomSampler, size: int, drop_last: bool) -> Iterator[memoryview]:
    count = len(sampler.data_source)
    generator = sampler.generator
    if generator is None:
        generator = torch.Generator()
        generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
    order = torch.randperm(count, generator=generator).numpy().data
    whole = count - count % size
    for place in range(0, whole, size):
        yield order[place : place + size]
    if sampler.generator is not None:
        # Torch draws another order when it finds the end of this one, of which it takes nothing.
        torch.randperm(count, generator=generator)
    if whole < count and not drop_last:
        yield order[whole:]
