"""A cache that all workers of a loader share.

>>> import numpy as np
>>> cache = SharedCache(64 << 20)
>>> volume = cache.get("patient 7", lambda: np.zeros((32, 32, 32)))
>>> cache.get("patient 7", lambda: None) is not None  # it is there already
True
>>> volume.flags.writeable
False
"""

from __future__ import annotations

import os
import pickle
import threading
import weakref
from collections.abc import Callable
from multiprocessing import context, reduction
from operator import index
from typing import Any, TypeVar

from feedline import _engine
from feedline._key import digest
from feedline._shared_value import pack, unpack, unpack_kept

T = TypeVar("T")


class SharedCache:
    """A bounded cache of arrays in memory that worker processes, and threads, share.

    A dataset makes one, and asks it for what several samples need. It is loaded once for all workers: who comes
    while another loads it, waits for it.

    >>> class Patients:
    ...     def __init__(self, folders):
    ...         self.folders = folders
    ...         self.cache = SharedCache(1 << 30)
    ...     def __getitem__(self, at):
    ...         folder, view = self.folders[at // 3], at % 3
    ...         volume = self.cache.get(folder, lambda: load(folder))
    ...         return volume.sum(axis=view)

    What is given back has the structure that ``load`` gave: arrays and tensors, in any dicts, lists, tuples or
    other classes that can be pickled. Arrays and tensors lie in the shared memory, without a copy; all else should be
    small, because it is made anew each time. Arrays cannot be written to. Torch has no such tensors: **whoever writes
    to a tensor from the cache ends its process** (a segmentation fault), because it would change the sample for
    everybody; ``clone()`` it before. Tensors must be plain: dense, on the CPU, without history of gradients. Where
    tensors are needed, ``load`` had better give tensors: torch warns when it is given an array that is read-only.

    An entry stays while any array or tensor of it is in use anywhere. When there is no room, those that nobody
    uses are dropped, the least recently used first. What does not fit, because it is larger than the cache or because
    everything is in use, is loaded and given to the caller alone; nobody waits for room.

    Processes that are forked, and those that ``multiprocessing`` starts in any other way with the cache among
    their arguments, share it. Pickled anywhere else, it becomes a new and empty one of the same size. A process may
    be killed at any moment: what it was loading another loads, and what it used is in use no more. At most 128
    processes share a cache; the next ones load for themselves.
    """

    def __init__(self, max_bytes: int) -> None:
        """Of at most so many bytes, all bookkeeping included, of which entries use whole pages of 4096."""
        max_bytes = index(max_bytes)
        if max_bytes <= 0:
            raise ValueError(f"max_bytes is {max_bytes}; a cache needs memory")
        self._use(_engine.SharedCache(max_bytes))

    def _use(self, engine: _engine.SharedCache) -> None:
        self._engine = engine
        self._loading = _Loading()
        _caches[_name(engine.fd)] = self

    @property
    def max_bytes(self) -> int:
        """The most memory it uses."""
        return self._engine.max_bytes

    def get(self, key: Any, load: Callable[[], T]) -> T:
        """What is kept for a key; if nothing is, it is loaded and kept.

        Args:
            key: A ``str``, ``bytes``, an integer, ``float``, ``bool``, ``None``, a path, or a tuple of these. Keys of
                different types are different: ``1``, ``True`` and ``"1"`` are three.
            load: What gives the value. If it fails, its caller gets the exception, and whoever waited for
                it tries in turn. It may ask for other keys, but not, by any detour, for its own.
        """
        name, loading = digest(key), self._loading.turns
        try:
            found = self._engine.find(name, loading[-1] if loading else None)
        except RecursionError:
            raise RecursionError(
                f"to load {key!r} would wait for itself: its load asks for the same key, or for one whose load does"
            ) from None
        if isinstance(found, _engine.Kept):
            return unpack_kept(found)
        return self._load(key, load, found)

    def _load(self, key: Any, load: Callable[[], T], turn: _engine.Turn) -> T:
        """Load a value, and keep it if there is room."""
        loading = [] if turn.is_alone else self._loading.turns
        loading.append(turn)
        try:
            parts = _packed(key, load())
            kept = turn.keep(parts)
        finally:
            loading.pop()
            turn.give_up()
        return unpack(parts) if kept is None else unpack_kept(kept)

    def __contains__(self, key: Any) -> bool:
        """Whether something is kept for a key; it may be dropped the next moment."""
        return self._engine.contains(digest(key))

    def __len__(self) -> int:
        """How many keys something is kept for."""
        return self.stats()["entries"]

    def clear(self) -> None:
        """Drop everything. What is in use stays with those who use it; what is being loaded is not kept."""
        self._engine.clear()

    def stats(self) -> dict[str, int]:
        """What happened so far in all processes, and what is kept now.

        ``loads`` that ended well, among them ``too_large`` for the cache and ``private``, for which there was no
        room; ``hits``, of which some are ``waits`` for a load of another's; ``evictions`` to make room; the
        ``bytes`` of all ``entries``.
        """
        names = ("loads", "hits", "waits", "evictions", "too_large", "private", "bytes", "entries")
        return dict(zip(names, self._engine.stats(), strict=True))

    def __repr__(self) -> str:
        """How full it is."""
        stats = self.stats()
        return f"SharedCache({self.max_bytes}): {stats['entries']} entries, {stats['bytes']} bytes"

    def __reduce__(self) -> Any:
        """For a process that is being started, the same; for anything else, a new one."""
        if context.get_spawning_popen() is None:
            return type(self), (self.max_bytes,)
        return _attach, (type(self), reduction.DupFd(self._engine.fd))

    def __copy__(self) -> SharedCache:
        """A copy of a dataset shares its cache."""
        return self

    def __deepcopy__(self, memo: Any) -> SharedCache:
        """As a shallow one."""
        return self


class _Loading(threading.local):
    """The loads that this thread is in, the outermost first."""

    def __init__(self) -> None:
        self.turns: list[_engine.Turn] = []


def _packed(key: Any, value: Any) -> list[Any]:
    try:
        return pack(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(f"what was loaded for {key!r} cannot be shared: {error}") from error


# --- processes ----------------------------------------------------------------------------------------

#: The caches of this process by the number of their file, which is the same in all processes.
_caches: weakref.WeakValueDictionary[int, SharedCache] = weakref.WeakValueDictionary()


def _name(fd: int) -> int:
    return os.fstat(fd).st_ino


def _attach(kind: type[SharedCache], descriptor: Any) -> SharedCache:
    fd = descriptor.detach()
    if (known := _caches.get(_name(fd))) is not None:
        os.close(fd)
        return known
    cache = kind.__new__(kind)
    cache._use(_engine.SharedCache.attach(fd))
    return cache


class _Forking(threading.local):
    """The caches whose locks the thread that forks has taken."""

    def __init__(self) -> None:
        self.caches: list[SharedCache] = []


_forking = _Forking()


def _before_fork() -> None:
    # In the same order everywhere, or two who fork would wait for each other.
    _forking.caches = [cache for _, cache in sorted(_caches.items())]
    for cache in _forking.caches:
        cache._engine.before_fork()


def _after_fork_in_parent() -> None:
    while _forking.caches:
        _forking.caches.pop()._engine.after_fork_in_parent()


def _after_fork_in_child() -> None:
    while _forking.caches:
        _forking.caches.pop()._engine.after_fork_in_child()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
