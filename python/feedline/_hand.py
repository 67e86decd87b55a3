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

    def trace(self) -> object:
        """Something that changes whenever a number is drawn, and is there at once."""

    def save(self) -> Any:
        """The whole state."""

    def restore(self, saved: Any) -> None: ...


class _KeptPython(_PythonRandom):
    """``random``."""

    def __init__(self) -> None:
        super().__init__()
        # The same eight bytes, read in a tenth of the time.
        self._word = ctypes.c_uint64.from_address(self._address) if self._in_place else None

    def trace(self) -> object:
        # Of two numbers with a normal distribution that are drawn together, it keeps the second.
        word = super().trace() if self._word is None else self._word.value
        return word, getattr(self._instance, "gauss_next", None)

    def save(self) -> Any:
        return self._instance.getstate()

    def restore(self, saved: Any) -> None:
        self._instance.setstate(saved)


class _KeptNumpy(_NumpyRandom):
    """``numpy.random``."""

    _generator: Any = None
    _word: Any = None

    def trace(self) -> object:
        if (numpy := sys.modules.get("numpy")) is None:
            return None
        generator = numpy.random.mtrand._rand._bit_generator
        if generator is not self._generator:
            self._generator, self._word = generator, None
            if type(generator).__name__ == "MT19937":
                self._word = ctypes.c_uint64.from_address(generator.ctypes.state_address + 623 * 4)
        return super().trace() if self._word is None else self._word.value

    def save(self) -> Any:
        numpy = sys.modules.get("numpy")
        return None if numpy is None else numpy.random.get_state(legacy=False)

    def restore(self, saved: Any) -> None:
        if saved is not None and (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.set_state(saved)


class _KeptTorch(_TorchRandom):
    """torch's generator on the CPU."""

    def trace(self) -> object:
        # All of it: it, too, keeps one of two normal numbers.
        state = torch.default_generator.get_state()
        return ctypes.string_at(state.data_ptr(), state.numel())

    def save(self) -> Any:
        return torch.default_generator.get_state()

    def restore(self, saved: Any) -> None:
        torch.default_generator.set_state(saved)


class OwnSeeds:
    """Seeds what a dataset uses, as `Seeds` does, and puts back what was there before."""

    def __init__(self, seed: int, epoch: int) -> None:
        self._seed, self._epoch = seed & 0xFFFF_FFFF_FFFF_FFFF, epoch
        self._sources: tuple[_Kept, _Kept, _Kept] = (_KeptPython(), _KeptNumpy(), _KeptTorch())
        self._used: list[_Kept] = []
        self._traces: tuple[object, ...] = ()
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

    def _trace(self) -> tuple[object, ...]:
        one, two, three = self._sources
        return one.trace(), two.trace(), three.trace()

    def begin(self) -> None:
        """A batch begins."""
        traces = self._trace()
        if traces != self._traces:
            # Somebody has drawn since the last batch.
            self._traces, self._saved = traces, [source.save() for source in self._sources]

    def must_repeat(self) -> bool:
        """The batch is made: put everything back. Whether to make it again, as what it used was not seeded."""
        traces, repeat = self._trace(), False
        if traces == self._traces and not self._used:
            return False
        for source, before, after, saved in zip(
            self._sources, self._traces, traces, self._saved, strict=True
        ):
            if before != after or source in self._used:
                source.restore(saved)
            if before != after and source not in self._used:
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
        #: Whether samples may draw random numbers; what lies in a list does not.
        self._draws = type(setup.dataset) not in (list, tuple, range)
        if setup.native is not None:
            self._plain = self._natively

    def make(self, index: Any) -> Parcel:
        """A batch: what it is, the batch, and the samples that failed, as a worker says it."""
        if not self._draws and self._stack is not None and type(index) is list and index:
            with suppress(Exception):  # it is said below what is wrong
                return MADE, self._stack.batch(self._plain, index), [], None
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
