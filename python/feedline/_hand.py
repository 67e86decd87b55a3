"""The consumer makes a batch itself, as a worker would: the same seeds, the same failures.

For samples that take microseconds, handing them over costs more than making them. The training loop shares its random
generators with what happens here, and must not notice: they are put back as they were.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol

import torch

from feedline import _structure
from feedline._engine import Places, sample_seed
from feedline._failure import Failed
from feedline._seeds import _NumpyRandom, _PythonRandom, _TorchRandom, number_of
from feedline._worker import FAILED, MADE, Parcel, Setup, Worker, getter

#: What keeps a place in memory, its address, its bytes.
_Place = tuple[object, int, int]


class _Kept(Protocol):
    def seed(self, seed: int) -> None: ...

    def places(self) -> list[_Place]:
        """Where in memory something changes whenever a number is drawn; none, if nobody knows."""

    def trace(self) -> object:
        """Something that changes whenever a number is drawn."""

    def save(self) -> Any:
        """The whole state."""

    def restore(self, saved: Any) -> None: ...


class _KeptPython(_PythonRandom):
    """``random``."""

    def places(self) -> list[_Place]:
        # The index, which every number moves, and a word that changes when it begins anew.
        return [(self._instance, self._address, 8)] if self._in_place else []

    @property
    def second(self) -> object:
        """Of two numbers with a normal distribution that are drawn together, the second, until it is given out."""
        return self._instance.gauss_next  # type: ignore[attr-defined]

    def trace(self) -> object:
        return super().trace(), self.second

    def save(self) -> Any:
        return self._instance.getstate()

    def restore(self, saved: Any) -> None:
        self._instance.setstate(saved)


class _KeptNumpy(_NumpyRandom):
    """``numpy.random``."""

    def __init__(self) -> None:
        self._numpy: Any = sys.modules.get("numpy")
        self._generator: Any = None

    @property
    def has_another_generator(self) -> bool:
        """Whether it was given one since its places were asked for."""
        return (
            self._numpy is not None and self._numpy.random.mtrand._rand._bit_generator is not self._generator
        )

    def places(self) -> list[_Place]:
        if self._numpy is None:
            return []
        whole = self._numpy.random.mtrand._rand
        generator = self._generator = whole._bit_generator
        if sys.implementation.name != "cpython" or type(generator).__name__ != "MT19937":
            return []
        # Of the object, all but its head: which generator it has, and the second of two normal numbers.
        head = object.__basicsize__
        return [
            (generator, generator.ctypes.state_address + 623 * 4, 8),
            (whole, id(whole) + head, (type(whole).__basicsize__ - head) // 4 * 4),
        ]

    def trace(self) -> object:
        return None if self._numpy is None else repr(self._numpy.random.get_state(legacy=False))

    def save(self) -> Any:
        return None if self._numpy is None else self._numpy.random.get_state(legacy=False)

    def restore(self, saved: Any) -> None:
        if saved is not None:
            self._numpy.random.set_state(saved)


class _KeptTorch(_TorchRandom):
    """torch's generator on the CPU."""

    #: Where its numbers lie in it: found once, with a generator that nobody else has.
    _at: ClassVar[int | None] = None

    def places(self) -> list[_Place]:
        if _KeptTorch._at is None:
            _KeptTorch._at = _find_in(torch.Generator())
        generator, at = torch.default_generator, _KeptTorch._at
        if at == 0:
            return []
        start = int(generator._cdata) + at  # type: ignore[attr-defined]
        return [
            (generator, start, _TORCH_HEAD + 4),
            (generator, start + _TORCH_HEAD + 624 * 4, _TORCH_SECOND),
        ]

    def trace(self) -> object:
        # All of it: it, too, keeps one of two normal numbers.
        state = torch.default_generator.get_state()
        return ctypes.string_at(state.data_ptr(), state.numel())

    def save(self) -> Any:
        return torch.default_generator.get_state()

    def restore(self, saved: Any) -> None:
        torch.default_generator.set_state(saved)


#: Bytes before torch's 624 words (the seed, how many are left, whether there are any, which is next), and after them
#: (a second normal number of each of two precisions, and whether there is one).
_TORCH_HEAD = 20
_TORCH_SECOND = 28


def _find_in(generator: torch.Generator) -> int:
    """How far into torch's object the seed and the numbers lie; 0 if they do not lie as expected."""
    address = getattr(generator, "_cdata", 0)
    if not address or sys.byteorder != "little":
        return 0
    torch.rand(1, generator=generator)
    # As torch writes it down: seed, left, whether there are any, next, in 8, 4, 4 and 8 bytes; then words in 8 each.
    written = bytes(generator.get_state().numpy())
    seed, left, _, following, *words = struct.unpack_from("<Qiiq624Q", written)
    parts = struct.pack("<Qi", seed, left), struct.pack("<I624I", following, *words)
    for at in range(0, 256, 8):
        if ctypes.string_at(address + at, 12) != parts[0]:
            continue
        if ctypes.string_at(address + at + 16, len(parts[1])) == parts[1] and _keeps_second(generator, at):
            return at
    return 0


def _keeps_second(generator: torch.Generator, at: int) -> bool:
    """Whether it shows behind the words that the second of two normal numbers is given out."""
    place = int(generator._cdata) + at + _TORCH_HEAD + 624 * 4  # type: ignore[attr-defined]
    seen = []
    for _ in range(3):
        seen.append(ctypes.string_at(place, _TORCH_SECOND))
        torch.randn(1, generator=generator)
    return seen[0] != seen[1] and seen[1] != seen[2]


class OwnSeeds:
    """Seeds what a dataset uses, as `Seeds` does, and puts back what was there before."""

    def __init__(self, seed: int, epoch: int) -> None:
        self._seed, self._epoch = seed & 0xFFFF_FFFF_FFFF_FFFF, epoch
        self._python, self._numpy = _KeptPython(), _KeptNumpy()
        self._instance: Any = random._inst
        self._sources: tuple[_Kept, ...] = (self._python, self._numpy, _KeptTorch())
        self._used: list[_Kept] = []
        self._saved: dict[_Kept, Any] = {}

    @property
    def active(self) -> bool:
        """Whether samples must be seeded at all."""
        return bool(self._used)

    def seed(self, index: Any) -> None:
        """Seed what is used, for a sample."""
        seed = sample_seed(self._seed, self._epoch, number_of(index))
        for source in self._used:
            source.seed(seed)

    def _watch(self) -> None:
        """Look from now on: in memory, at a hundredth of the cost, or else at traces."""
        places = [(source, place) for source in self._sources for place in source.places()]
        self._of = [source for source, _ in places]
        self._places = Places([place for _, place in places])
        self._second = self._python.second
        self._traces = {source: source.trace() for source in self._sources if source not in self._of}

    def _drawn_from(self, bits: int) -> Sequence[_Kept]:
        """The sources from which somebody has drawn since this was last asked; in these places it shows."""
        second = self._python.second
        drawn = {source for number, source in enumerate(self._of) if bits >> number & 1}
        if second is not self._second:
            self._second = second
            drawn.add(self._python)
        for source, before in self._traces.items():
            if (trace := source.trace()) != before:
                self._traces[source] = trace
                drawn.add(source)
        if self._numpy in drawn and self._numpy.has_another_generator:
            self._watch()
        return tuple(drawn)

    def begin(self) -> None:
        """A batch begins."""
        if not self._saved:
            self._watch()
            self._saved = {source: source.save() for source in self._sources}
            return
        bits = self._places.changed()
        if bits or self._traces or self._instance.gauss_next is not self._second:
            for source in self._drawn_from(bits):
                self._saved[source] = source.save()

    def must_repeat(self) -> bool:
        """The batch is made: put everything back. Whether to make it again, as what it used was not seeded."""
        bits = self._places.changed()
        if not (bits or self._used or self._traces) and self._instance.gauss_next is self._second:
            return False
        drawn = self._drawn_from(bits)
        for source in {*drawn, *self._used}:
            source.restore(self._saved[source])
        self._drawn_from(self._places.changed())  # that was not somebody
        new = [source for source in self._sources if source in drawn and source not in self._used]
        self._used += new
        return bool(new)


#: In place of a batch of which there is more to say than what it is.
NOT_MADE = object()


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

    @property
    def is_plain(self) -> bool:
        """Whether batches are rows that Python makes and that draw no random numbers, as far as is known."""
        return self._stack is not None and self._setup.native is None and not self._seeds.active

    def rows(self, index: list[Any]) -> Any:
        """The batch alone, if it is as plain as the last one; or else `NOT_MADE`, and nothing has happened."""
        assert self._stack is not None
        if not self._draws:
            try:
                return self._stack.batch(self._plain, index)
            except Exception:
                return NOT_MADE
        self._seeds.begin()
        made = NOT_MADE
        try:
            made = self._stack.batch(self._plain, index)
        except Exception:
            pass
        except BaseException:
            self._seeds.must_repeat()
            raise
        return NOT_MADE if self._seeds.must_repeat() else made

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
