"""The workers of an iterator, as processes or threads: started, watched, replaced, dismissed, ended.

Each has a seat at the board, by whose number it is known. One that is dismissed leaves after what it is at; until it
has left, nobody else can have its seat.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from dataclasses import replace
from multiprocessing import connection
from pickle import PicklingError
from typing import Any

from feedline._worker import Setup, process_main, thread_main, use_thread_local_info

#: How long workers may take to finish the sample they are at before they are told to end, and then are made to.
GRACE = 0.5
INSISTENCE = 0.3

#: How long threads may take, who cannot be made to: one may be collecting the garbage of a large program.
PATIENCE = 5.0


class Processes:
    """Worker processes."""

    def __init__(self, context: Any, setup: Setup) -> None:
        self._context = context
        self._setup = setup
        self.members: dict[int, Any] = {}
        self.leaving: set[int] = set()
        self._owner = os.getpid()

    def hire(self, worker: int) -> None:
        """Start a worker at a seat that is free."""
        self.members[worker] = self._new(worker, self._setup)

    def _new(self, worker: int, setup: Setup) -> Any:
        process = self._context.Process(target=process_main, args=(setup, worker), daemon=True)
        try:
            process.start()
        except (TypeError, AttributeError, PicklingError):
            warnings.warn(
                "Got pickle error when attempting to start a worker Process. "
                "This might be because the worker Process arguments are not picklable. "
                "Python 3.14+ changed the multiprocessing start method in non-Mac POSIX platforms "
                "to 'forkserver', which requires the worker Process arguments to be picklable. "
                "You can also try multiprocessing.set_start_method('fork').",
                stacklevel=2,
            )
            raise
        return process

    def dead(self) -> list[int]:
        """The numbers of those that have ended."""
        sentinels = {process.sentinel: worker for worker, process in self.members.items()}
        return sorted(sentinels[sentinel] for sentinel in connection.wait(list(sentinels), timeout=0))

    def bury(self, worker: int) -> tuple[int, int]:
        """The process id of a dead worker, and the code it ended with."""
        process = self.members[worker]
        process.join()
        return process.pid, process.exitcode

    def forget(self, worker: int) -> None:
        """One that was dismissed has left."""
        del self.members[worker]
        self.leaving.discard(worker)

    def replace(self, worker: int, skip: tuple[Any, ...]) -> None:
        """Start another in place of a dead one."""
        self.members[worker] = self._new(worker, replace(self._setup, skip=skip))

    def end(self) -> None:
        """Wait for all to end, and make them."""
        if os.getpid() != self._owner:
            return  # they are not children of this process
        deadline = time.monotonic() + GRACE
        for process in self.members.values():
            process.join(max(0.0, deadline - time.monotonic()))
        for insist in ("terminate", "kill"):
            left = [process for process in self.members.values() if process.is_alive()]
            for process in left:
                getattr(process, insist)()
            deadline = time.monotonic() + INSISTENCE
            for process in left:
                process.join(max(0.0, deadline - time.monotonic()))

    @property
    def all_gone(self) -> bool:
        """Whether none is left that could touch shared memory."""
        return os.getpid() == self._owner and not any(process.is_alive() for process in self.members.values())


class Threads:
    """Worker threads. They end when the sample they are at is done, and cannot be made to."""

    def __init__(self, setup: Setup) -> None:
        setup.threads = True
        self._setup = setup
        self.members: dict[int, threading.Thread] = {}
        self.leaving: set[int] = set()

    def hire(self, worker: int) -> None:
        """Start a worker at a seat that is free."""
        use_thread_local_info()
        name = f"feedline-{worker}"
        thread = threading.Thread(target=thread_main, args=(self._setup, worker), name=name, daemon=True)
        thread.start()
        self.members[worker] = thread

    def dead(self) -> list[int]:
        """The numbers of those that have left; threads do not die."""
        return sorted(worker for worker in self.leaving if not self.members[worker].is_alive())

    def forget(self, worker: int) -> None:
        """One that was dismissed has left."""
        self.members.pop(worker).join()
        self.leaving.discard(worker)

    def end(self) -> None:
        """Wait for all to end, for a while."""
        deadline = time.monotonic() + PATIENCE
        for thread in self.members.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def all_gone(self) -> bool:
        """Whether none is left that could touch shared memory."""
        return not any(thread.is_alive() for thread in self.members.values())


def death(pid: int, code: int) -> str:
    """How a worker ended, in torch's words."""
    if code < 0:
        name = signal.strsignal(-code) or str(-code)
        text = f"DataLoader worker (pid {pid}) is killed by signal: {name}. "
        if -code == signal.SIGBUS:
            text += (
                "It is possible that dataloader's workers are out of shared memory. "
                "Please try to raise your shared memory limit. "
            )
        return text.rstrip(" ")
    return (
        f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. "
        "Details are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
    )
