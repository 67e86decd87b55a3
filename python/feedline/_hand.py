"""The consumer makes a batch itself, as a worker would: the same seeds, the same failures.

For samples that take microseconds, handing them over costs more than making them. The training loop shares its random
generators with what happens here, and must not notice: they are put back as they were.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Any, Protocol

import torch

from feedline import _structure
from feedline._engine import sample_seed
from feedline._failure import Failed
from feedline._seeds import _NumpyRandom, _PythonRandom, _TorchRandom, number_of
from feedline._worker import FAILED, MADE, Parcel, Setup, Worker, getter


class _Kept(Protocol):
    def seed(self, seed: int) -> None: ...

    def save(self) -> Any:
        """The whole state; another one after a number was drawn."""

    def restore(self, saved: Any) -> None: ...


class _KeptPython(_PythonRandom):
    """``random``."""

    def save(self) -> Any:
        if not self._in_place:
            return self._instance.getstate()
        return ctypes.string_at(self._address, 2500), getattr(self._instance, "gauss_next", None)

    def restore(self, saved: Any) -> None:
        if not self._in_place:
            self._instance.setstate(saved)
            return
        ctypes.memmove(self._address, saved[0], 2500)
        self._instance.__dict__["gauss_next"] = saved[1]


class _KeptNumpy(_NumpyRandom):
    """``numpy.random``."""

    def save(self) -> Any:
        if (numpy := sys.modules.get("numpy")) is None:
            return None
        state = numpy.random.get_state(legacy=False)
        words = state["state"]
        if "key" not in words:
            return repr(state), state
        return words["key"].tobytes(), words["pos"], state["has_gauss"], state["gauss"], _Unseen(state)

    def restore(self, saved: Any) -> None:
        if saved is not None and (numpy := sys.modules.get("numpy")) is not None:
            state = saved[-1].value if isinstance(saved[-1], _Unseen) else saved[-1]
            numpy.random.set_state(state)


class _KeptTorch(_TorchRandom):
    """torch's generator on the CPU."""

    def save(self) -> Any:
        state = torch.default_generator.get_state()
        return ctypes.string_at(state.data_ptr(), state.numel())

    def restore(self, saved: Any) -> None:
        torch.default_generator.set_state(torch.frombuffer(bytearray(saved), dtype=torch.uint8))


class _Unseen:
    """A value that comparisons pass over."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unseen)

    __hash__ = None  # type: ignore[assignment]


class OwnSeeds:
    """Seeds what a dataset uses, as `Seeds` does, and puts back what was there before."""

    def __init__(self, seed: int, epoch: int) -> None:
        self._seed, self._epoch = seed & 0xFFFF_FFFF_FFFF_FFFF, epoch
        self._sources: list[_Kept] = [_KeptPython(), _KeptNumpy(), _KeptTorch()]
        self._used: list[_Kept] = []
        self._saved: list[Any] = []

    @property
    def active(self) -> bool:
        """Whether samples must be seeded at all."""
        return bool(self._used)

    def seed(self, index: Any) -> None:
        """Seed what is used, for a sample."""
        seed = sample_seed(self._seed, self._epoch, number_of(index))
        for source in self._used:
            source.seed(seed)

    def epoch(self, epoch: int) -> None:
        """Samples are of this epoch from now on."""
        self._epoch = epoch

    def begin(self) -> None:
        """A batch begins."""
        self._saved = [source.save() for source in self._sources]

    def must_repeat(self) -> bool:
        """The batch is made: put everything back. Whether to make it again, as what it used was not seeded."""
        repeat = False
        for source, saved in zip(self._sources, self._saved, strict=True):
            if source.save() != saved:
                source.restore(saved)
                if source not in self._used:
                    self._used.append(source)
                    repeat = True
        return repeat


class Hand:
    """Makes batches where it is called."""

    def __init__(self, setup: Setup, stack: _structure.Stack | None) -> None:
        self._setup = setup
        self._worker = Worker(setup, 0, None, OwnSeeds(setup.base_seed, setup.generation))
        self._seeds = self._worker.seeds
        #: Where rows are put, if default collation applies and samples have a structure.
        self._stack = stack if setup.on_error == "raise" else None
        self._plain = getter(setup.dataset)
        self._address = setup.base_seed, setup.generation
        if setup.native is not None:
            self._plain = self._natively

    def make(self, index: Any) -> Parcel:
        """A batch: what it is, the batch, and the samples that failed, as a worker says it."""
        while True:
            self._seeds.begin()
            try:
                made = self._make(index)
            except Exception as error:
                made = FAILED, self._failed(index, error), [], None
            except BaseException:
                self._seeds.must_repeat()
                raise
            if not self._seeds.must_repeat():
                return made

    def _make(self, index: Any) -> Parcel:
        native = self._setup.native
        if self._stack is None or type(index) is not list or not index:
            return self._worker.fetch(index)
        if native is not None:
            with suppress(TypeError, OverflowError):  # for indices that are not plain numbers
                made = self._stack.native(native.files, native.prototype, index, self._address)
                if made is not None:
                    return MADE, made, [], None
        return MADE, self._stack.batch(self._seeded if self._seeds.active else self._plain, index), [], None

    def _seeded(self, index: Any) -> Any:
        self._seeds.seed(index)
        return self._plain(index)

    def _natively(self, index: Any) -> Any:
        try:
            return self._setup.native.get(index, *self._address)
        except (OSError, ValueError, TypeError, IndexError, OverflowError):
            return self._setup.dataset[index]  # as the dataset has it, its error included

    def _failed(self, index: Any, error: Exception) -> Failed:
        """What a batch has failed at: the sample, if it is one."""
        for unit, one in enumerate(index) if self._stack is not None and type(index) is list else ():
            try:
                self._seeded(one)
            except Exception as again:
                return self._worker.failed(unit, one, again)
        return self._worker.failed(0, index, error)
