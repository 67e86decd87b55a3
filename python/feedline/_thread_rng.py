"""Random numbers by sample in worker threads, for code that draws from the global generators.

Threads share ``random``, ``numpy.random`` and torch's default generator with the training loop, which must not
notice. So while worker threads run, the global functions ask which thread is calling: a worker gets the numbers of
a generator of its own, seeded for the sample it is at when it first draws; everybody else gets what they always got.
The numbers are those that a worker process draws for the same sample.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data._utils import worker as torch_worker

from feedline._engine import sample_seed
from feedline._seeds import number_of

#: torch's functions that draw, and take a generator.
_DRAWING = {
    *(torch.rand, torch.randn, torch.randint, torch.randperm, torch.bernoulli, torch.multinomial),
    *(torch.normal, torch.poisson),
    *(torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.random_, torch.Tensor.bernoulli_),
    *(torch.Tensor.exponential_, torch.Tensor.geometric_, torch.Tensor.cauchy_, torch.Tensor.log_normal_),
    *(torch.Tensor.multinomial, torch.Tensor.bernoulli),
}


class Local(threading.local):
    """A worker thread's generators; none in other threads."""

    own: ThreadSeeds | None = None


_local = Local()
_lock = threading.Lock()
_patched = False


class ThreadSeeds(TorchFunctionMode):
    """The generators of a worker thread. As a context, torch draws from them too."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        _patch()
        self._seed = seed & 0xFFFF_FFFF_FFFF_FFFF
        self._epoch = 0
        self._sample = 0
        self._random = random.Random()
        self._torch = torch.Generator()
        self._numpy: Any = None
        self._seeded: dict[str, int | None] = {"random": None, "torch": None, "numpy": None}

    def __enter__(self) -> ThreadSeeds:
        _local.own = self
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _local.own = None

    # What the worker says

    active = True

    def epoch(self, epoch: int) -> None:
        """Samples are of this epoch from now on."""
        self._epoch = epoch

    def seed(self, index: Any) -> None:
        """A sample begins. Nothing is seeded before it is used."""
        self._sample = sample_seed(self._seed, self._epoch, number_of(index))
        self._seeded = {"random": None, "torch": None, "numpy": None}

    def begin(self) -> None:
        """A run of samples begins."""

    def must_repeat(self) -> bool:
        """Never: every source is seeded in time."""
        return False

    # What the sample's code draws from

    def _is_new(self, source: str) -> bool:
        new = self._seeded[source] is None
        self._seeded[source] = self._sample
        return new

    @property
    def random(self) -> random.Random:
        """In place of ``random``."""
        if self._is_new("random"):
            self._random.seed(self._sample)
        return self._random

    @property
    def numpy(self) -> Any:
        """In place of ``numpy.random``."""
        if self._is_new("numpy"):
            self._numpy = sys.modules["numpy"].random.RandomState(self._sample & 0xFFFFFFFF)
        return self._numpy

    @property
    def torch(self) -> torch.Generator:
        """In place of torch's default generator."""
        if self._is_new("torch"):
            self._torch.manual_seed(self._sample & 0x7FFF_FFFF_FFFF_FFFF)
        return self._torch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _DRAWING and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.torch}
        return func(*args, **kwargs)


def _patch() -> None:
    """Let the global functions ask who is calling; once, for good."""
    global _patched
    with _lock:
        if _patched:
            return
        _patched = True
        instance = random._inst
        for name in ("random", "getrandbits"):
            # Functions imported by name are bound to the instance, and draw through these two.
            setattr(instance, name, _for_thread(getattr(instance, name), "random", name))
        for name in random.__all__:
            if getattr(getattr(random, name), "__self__", None) is instance:
                setattr(random, name, _for_thread(getattr(random, name), "random", name))
        seed: Any = _seed_torch(torch.manual_seed)
        torch.manual_seed = torch.random.manual_seed = seed
        if (numpy := sys.modules.get("numpy")) is not None:
            for name in numpy.random.__all__:
                if type(getattr(numpy.random, name)).__name__ in ("method", "builtin_function_or_method"):
                    function = getattr(numpy.random, name)
                    if isinstance(getattr(function, "__self__", None), numpy.random.RandomState):
                        setattr(numpy.random, name, _for_thread(function, "numpy", name))


def _for_thread(function: Callable[..., Any], source: str, name: str) -> Callable[..., Any]:
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        own = _local.own
        if own is None:
            return function(*args, **kwargs)
        return getattr(getattr(own, source), name)(*args, **kwargs)

    dispatch.__name__ = name
    dispatch.__doc__ = function.__doc__
    return dispatch


def _seed_torch(function: Callable[[Any], torch.Generator]) -> Callable[[Any], torch.Generator]:
    def manual_seed(seed: Any) -> torch.Generator:
        own = _local.own
        return function(seed) if own is None else own.torch.manual_seed(int(seed))

    manual_seed.__doc__ = function.__doc__
    return manual_seed


def info_rng(seeds: ThreadSeeds) -> Any:
    """What torch has foreseen for the worker's info: the generators themselves."""
    return torch_worker._RNG(random_generator=seeds._random, torch_generator=seeds._torch)
