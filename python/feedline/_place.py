"""A place in a run: what ``state_dict()`` saves and ``load_state_dict()`` goes back to.

A place says where the order comes from (the state of the generator when the epoch began), how many batches of it
were delivered, and, for streams, how far each worker had read. It describes what was delivered; what was being
loaded then is loaded again. Except for streams, the number of workers is no part of it.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import torch
from torch._C._autograd import _profiler_enabled

if TYPE_CHECKING:
    from feedline._loader import DataLoader

VERSION = 1


@dataclass
class Place:
    """A saved place; plain data that can be written as JSON (if the states of the user's own classes can)."""

    #: The generator's state when the epoch began; if none has, or it is over, its state when this was saved.
    generator: str
    #: Whether an epoch was under way.
    under_way: bool = False
    #: Whether the next epoch keeps the seed of this one, because its workers persist.
    keeps_seed: bool = False
    #: The seed of the samples' random numbers, and the epoch they are addressed with.
    seed: int = 0
    generation: int = 0
    #: Batches drawn and delivered; then those delivered after a gap, because order was not kept.
    delivered: int = 0
    beyond: list[int] = field(default_factory=list)
    #: The state of a sampler that has one.
    sampler: Any = None
    #: For a stream, each worker's: batches delivered, whether it has ended, and the dataset's own state.
    streams: list[dict[str, Any]] | None = None
    next_worker: int = 0
    version: int = VERSION

    def as_dict(self) -> dict[str, Any]:
        """A copy as plain data."""
        return copy.deepcopy(asdict(self))

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Place:
        """Back from plain data."""
        try:
            found = state["version"]
            if found != VERSION:
                raise ValueError(f"the state has version {found}; this version of feedline reads {VERSION}")
            # Trainers add entries of their own.
            known = {entry.name for entry in fields(cls)}
            place = cls(**{name: copy.deepcopy(value) for name, value in state.items() if name in known})
        except (TypeError, KeyError) as error:
            raise ValueError("this is not a state that feedline.DataLoader saved") from error
        _decode(place.generator)
        return place


def is_stateful(thing: Any) -> bool:
    """Whether it can save and load a state of its own."""
    return hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")


def generator_of(loader: DataLoader[Any]) -> torch.Generator:
    """The generator that the order comes from."""
    return loader.generator if loader.generator is not None else torch.default_generator


def encode(generator: torch.Generator) -> str:
    """A generator's state as text."""
    return base64.b64encode(bytes(generator.get_state().numpy())).decode()


def set_generator(generator: torch.Generator, place: Place) -> None:
    """Put a generator where it was."""
    generator.set_state(_decode(place.generator))


def _decode(text: str) -> torch.Tensor:
    try:
        return torch.frombuffer(bytearray(base64.b64decode(text, validate=True)), dtype=torch.uint8)
    except (ValueError, TypeError) as error:
        raise ValueError("the state's generator is damaged") from error


def state_of(thing: Any) -> Any:
    """The state of something that has one."""
    return None if thing is None else copy.deepcopy(thing.state_dict())


def stateful_sampler_of(loader: DataLoader[Any]) -> Any:
    """The sampler that has a state, if there is one."""
    samplers: tuple[Any, ...] = (loader.batch_sampler, loader.sampler)
    return next((sampler for sampler in samplers if is_stateful(sampler)), None)


def load_sampler(loader: DataLoader[Any], place: Place) -> bool:
    """Put a sampler that has a state where it was. Whether there is one."""
    sampler = stateful_sampler_of(loader)
    if sampler is None or place.sampler is None:
        return False
    sampler.load_state_dict(copy.deepcopy(place.sampler))
    return True


class Progress:
    """How far an epoch has got. The loader keeps it when the iterator is gone."""

    def __init__(
        self, generator: torch.Generator, seed: int, generation: int, persists: bool, place: Place | None
    ) -> None:
        self._generator = generator
        self._persists = persists
        self._began_with = encode(generator) if place is None else place.generator
        self.seed = seed
        self.generation = generation
        self.delivered = 0
        self.beyond: set[int] = set()
        self.under_way = True
        self.sampler: Any = None
        self.stateful_sampler: Any = None
        #: For a stream: what gives each worker's part of the place.
        self.streams: Callable[[], list[dict[str, Any]]] | None = None
        self.next_worker = 0
        if place is not None and (place.under_way or place.keeps_seed):
            self.seed, self.generation = place.seed, place.generation
        if place is not None and place.under_way:
            self.delivered, self.beyond = place.delivered, set(place.beyond)
            self.sampler, self.next_worker = place.sampler, place.next_worker

    def note(self, number: int, sampler: Any = None) -> None:
        """A batch (by its number in the order) has been handed over, or has failed, or was left out."""
        if number == self.delivered:
            self.delivered += 1
        else:
            self.beyond.add(number)
        while self.beyond and self.delivered in self.beyond:
            self.beyond.remove(self.delivered)
            self.delivered += 1
        self.sampler = sampler

    def place(self) -> Place:
        """The place that this is."""
        if not self.under_way and self._persists:
            now, generation = encode(self._generator), self.generation + 1
            return Place(now, False, True, self.seed, generation, sampler=state_of(self.stateful_sampler))
        if not self.under_way:
            return Place(encode(self._generator), sampler=state_of(self.stateful_sampler))
        return Place(
            generator=self._began_with,
            under_way=True,
            seed=self.seed,
            generation=self.generation,
            delivered=self.delivered,
            beyond=sorted(self.beyond),
            sampler=self.sampler,
            streams=None if self.streams is None else self.streams(),
            next_worker=self.next_worker,
        )


class Placed:
    """What iterators share: they know their place, and can begin at one.

    It stands before torch's iterator among the base classes.
    """

    _sampler_iter: Iterator[Any]
    _index_sampler: Any
    _base_seed: Any
    _num_yielded: int
    _IterableDataset_len_called: Any
    #: Whether the dataset is one.
    _streams = False

    def __next__(self) -> Any:
        """The next batch."""
        # Saying so to a profiler takes as long as a small batch, so it is done where there is one. And torch warns of
        # streams that are longer than they said.
        if _profiler_enabled() or (self._streams and self._IterableDataset_len_called is not None):
            return super().__next__()  # type: ignore[misc]
        data = self._next_data()  # type: ignore[attr-defined]
        self._num_yielded += 1
        return data

    def _begin(self, loader: DataLoader[Any], generation: int) -> Place | None:
        """An epoch begins: where, if not at the beginning. Nothing has been drawn from the sampler yet."""
        self._stateful_sampler = stateful_sampler_of(loader)
        self._epoch, loader._epochs = loader._epochs, loader._epochs + 1
        place, loader._resume = loader._resume, None
        generator = generator_of(loader)
        if place is not None:
            set_generator(generator, place)
        persists = loader.persistent_workers and loader.num_workers > 0
        self._progress = loader._progress = Progress(
            generator, int(self._base_seed), generation, persists, place
        )
        self._progress.stateful_sampler = self._stateful_sampler
        self._base_seed = self._progress.seed
        loaded = place is not None and load_sampler(loader, place)
        if place is None or not place.under_way:
            self._progress.sampler = self._sampler_state()
            return None
        if loaded:
            self._sampler_iter = iter(self._index_sampler)
            # With its last batch a sampler may have gone on to the next epoch; this one is over all the same.
            with suppress(TypeError, NotImplementedError):
                if place.delivered >= len(self._index_sampler):
                    self._sampler_iter = iter(())
        elif place.streams is None:
            for _ in range(place.delivered):
                next(self._sampler_iter, None)
        return place

    def _sampler_state(self) -> Any:
        """The state of the sampler after what it gave last."""
        return state_of(self._stateful_sampler)


class StreamState:
    """The state of an iterable dataset or of its iterator, if either has one."""

    @staticmethod
    def of(dataset: Any, iterator: Any) -> dict[str, Any] | None:
        """The states there are; `None` if there are none."""
        state = {}
        if is_stateful(iterator):
            state["iterator"] = copy.deepcopy(iterator.state_dict())
        if is_stateful(dataset) and dataset is not iterator:
            state["dataset"] = copy.deepcopy(dataset.state_dict())
        return state or None

    @staticmethod
    def load_dataset(dataset: Any, state: dict[str, Any] | None) -> None:
        """Before an iterator is made."""
        if state and "dataset" in state:
            dataset.load_state_dict(state["dataset"])

    @staticmethod
    def load_iterator(iterator: Any, state: dict[str, Any] | None) -> None:
        """After it has been made."""
        if state and "iterator" in state:
            iterator.load_state_dict(state["iterator"])
