"""How many threads can work at the same time, of those that may.

A thread that unpacks and computes wants a processor all the time. More of these than there are processors make
nothing sooner, and each has a large sample under way. A thread that waits, for a disk or for whatever a function of
the user's waits for, leaves its processor to others: then more of them are worth their memory. Which it is, the
system knows: it counts how long a thread had a processor, and how long it stood in line for one.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from feedline._machine import Machine

#: What a sample leaves of those before it, so that the last dozen or so count.
MEMORY = 0.9

#: Samples that have been under way for longer count before they are done: they may wait for what others would make.
LONG = 0.05

#: Nobody wants a processor for less of the time than this.
LEAST = 1 / 256


class Thread:
    """What is known of a thread while it makes a sample."""

    def __init__(self) -> None:
        """Of the thread that calls."""
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
        self._began = self._before = self._excused = 0.0
        # Since when it waits for what another is doing.
        self._since: float | None = None

    def begin(self) -> None:
        """A sample begins."""
        self._began, self._before, self._excused = time.monotonic(), self._counted(), 0.0

    def wait(self) -> None:
        """From now on it waits, while another is at work for it: a third would wait as well."""
        self._since = time.monotonic()

    def work(self) -> None:
        """It waits no longer."""
        if self._since is not None:
            self._excused += time.monotonic() - self._since
            self._since = None

    def so_far(self) -> tuple[float, float]:
        """Seconds since the sample began, and those of them in which a processor was wanted. Anybody may ask."""
        now, since = time.monotonic(), self._since
        excused = self._excused + (now - since if since is not None else 0.0)
        return max(0.0, now - self._began - excused), self._counted() - self._before

    def _counted(self) -> float:
        """For how many seconds the thread has had a processor or stood in line; 0 where nobody counts."""
        if self._file < 0:
            return 0.0
        had, stood = os.pread(self._file, 64, 0).split()[:2]
        return 1e-9 * (int(had) + int(stood))

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


class _Self(threading.local):
    """What a thread knows of itself."""

    thread: Thread | None = None


_self = _Self()


def waits() -> None:
    """This thread waits from now on, for what another is loading."""
    if _self.thread is not None:
        _self.thread.wait()


def works() -> None:
    """It waits no longer."""
    if _self.thread is not None:
        _self.thread.work()


class Demand:
    """Watches the threads of a loader while they make samples."""

    def __init__(self, most: int, machine: Machine | None = None) -> None:
        """Of at most so many threads."""
        self._most = most
        self._machine = machine or Machine()
        self._lock = threading.Lock()
        # Seconds of late in which samples were made, and those in which a processor was wanted.
        self._spent = self._wanted = 0.0
        self._under_way: set[Thread] = set()

    def workers(self) -> int:
        """How many threads can work now; before anything is known, as many as there are processors."""
        with self._lock:
            spent, wanted = self._spent, self._wanted
            now = [thread.so_far() for thread in self._under_way]
        for seconds, of_these in now:
            if seconds > LONG:
                spent, wanted = spent + seconds, wanted + min(seconds, of_these)
        share = wanted / spent if spent > 0 else 1.0
        processors = math.ceil(self._machine.processors())
        # Half a thread is none: what is measured is never quite the whole time.
        return max(1, min(self._most, math.ceil(processors / max(LEAST, share) - 0.5)))

    def watched(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time counts."""

        def watched(*arguments: Any) -> Any:
            if (thread := _self.thread) is None:
                thread = _self.thread = Thread()
            thread.begin()
            with self._lock:
                self._under_way.add(thread)
            try:
                return make(*arguments)
            finally:
                with self._lock:
                    self._under_way.discard(thread)
                thread.work()
                self.note(*thread.so_far())

        return watched

    def note(self, spent: float, wanted: float) -> None:
        """A sample took so many seconds, for so many of which a processor was wanted."""
        with self._lock:
            self._spent = MEMORY * self._spent + spent
            self._wanted = MEMORY * self._wanted + min(spent, wanted)
