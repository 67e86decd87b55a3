"""Random numbers addressed by sample: the same augmentations whoever loads a sample.

Before each sample a worker seeds those of ``random``, ``numpy.random`` and ``torch`` that the dataset uses, by
(seed, epoch, index). Seeding takes microseconds, and most datasets use one of the three or none, so a worker
watches instead: the first run of samples is seeded in all of them; after that, only sources that were used are
seeded. If a source is used for the first time later, the run in which that happened is loaded again, seeded.
"""

from __future__ import annotations

import _random
import ctypes
import hashlib
import random
import sys
from typing import Any, Protocol

import torch

from feedline._engine import sample_seed


class _Source(Protocol):
    def seed(self, seed: int) -> None: ...

    def trace(self) -> object:
        """Something that changes whenever a number is drawn."""


class _PythonRandom:
    """``random``, whose state Python copies into a tuple of 625 numbers when asked; so it is read in place."""

    def __init__(self) -> None:
        self._instance = random._inst
        self._address = id(self._instance) + object.__basicsize__
        self._in_place = self._is_as_expected()

    def _is_as_expected(self) -> bool:
        """Whether the state lies where CPython keeps it: an index, then 624 words."""
        if sys.implementation.name != "cpython" or _random.Random.__basicsize__ < 2516:
            return False
        *words, index = self._instance.getstate()[1]
        found = (ctypes.c_uint32 * 625).from_address(self._address)
        return list(found) == [index, *words]

    def seed(self, seed: int) -> None:
        random.seed(seed)

    def trace(self) -> object:
        # The index, which every number moves, and a word that changes when it begins anew.
        return ctypes.string_at(self._address, 8) if self._in_place else self._instance.getstate()


class _NumpyRandom:
    """``numpy.random``'s global state."""

    def seed(self, seed: int) -> None:
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed & 0xFFFFFFFF)

    def trace(self) -> object:
        if (numpy := sys.modules.get("numpy")) is None:
            return None
        generator = numpy.random.mtrand._rand._bit_generator
        if type(generator).__name__ != "MT19937":
            return repr(generator.state)
        # 624 words, then the position among them: as above.
        return ctypes.string_at(generator.ctypes.state_address + 623 * 4, 8)


class _TorchRandom:
    """torch's generator on the CPU."""

    def seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)

    def trace(self) -> object:
        state = torch.default_generator.get_state()
        # After the seed: how many numbers are left, which is next, and some of them.
        return ctypes.string_at(state.data_ptr() + 8, 32)


class Seeds:
    """Seeds what a dataset uses, and finds out what that is."""

    def __init__(self, seed: int) -> None:
        self._seed = seed & 0xFFFF_FFFF_FFFF_FFFF
        self._epoch = 0
        self._used: list[_Source] = [_PythonRandom(), _NumpyRandom(), _TorchRandom()]
        self._unused: list[_Source] = []
        self._traces: list[object] | None = None
        self._first = True

    def epoch(self, epoch: int) -> None:
        """Samples are of this epoch from now on."""
        self._epoch = epoch

    @property
    def active(self) -> bool:
        """Whether samples must be seeded at all."""
        return bool(self._used)

    def seed(self, index: Any) -> None:
        """Seed what is used, for a sample."""
        seed = sample_seed(self._seed, self._epoch, number_of(index))
        for source in self._used:
            source.seed(seed)
        if self._first:
            self._traces = [source.trace() for source in self._used]

    def begin(self) -> None:
        """A run of samples begins."""
        # Nobody draws between the runs of a worker process, so the traces at the end of one serve the next.
        if not self._first and self._traces is None:
            self._traces = [source.trace() for source in self._unused]

    def must_repeat(self) -> bool:
        """The run is over; whether it must be done again because it used something that was not seeded."""
        if self._first:
            self._first = False
            sources = self._used
            self._used = [
                s for s, trace in zip(sources, self._traces or [], strict=False) if s.trace() != trace
            ]
            self._unused = [source for source in sources if source not in self._used]
            self._traces = None
            return False
        traces = [source.trace() for source in self._unused]
        if traces == self._traces:
            return False
        before = self._traces or traces
        touched = [s for s, old, new in zip(self._unused, before, traces, strict=True) if old != new]
        self._used += touched
        self._unused = [source for source in self._unused if source not in touched]
        self._traces = None
        return True


def number_of(index: Any) -> int:
    """A number for an index of any type, the same in every process."""
    if type(index) is int:
        return index & 0xFFFF_FFFF_FFFF_FFFF
    return int.from_bytes(hashlib.blake2b(repr(index).encode(), digest_size=8).digest(), "little")
