"""A trace of a run: what each worker loaded when, and when the consumer waited for it.

The file is a list of events as Chrome and Perfetto (ui.perfetto.dev) read them, and whole JSON after every write: it
can be opened while the run goes on, and after one that was killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feedline._engine import Board

#: Entries of each worker's journal between two batches; those beyond are counted, not kept.
JOURNAL = 4096

#: Write when there are so many events, or after so many nanoseconds.
EVENTS = 4096
PAUSE = 1_000_000_000

#: A file does not grow beyond this.
LARGEST = 1 << 30

_END = b"\n]\n"

#: The consumer's lane; that of worker n is n + 1.
CONSUMER = 0


class TraceFile:
    """The trace of a loader, over all of its epochs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._pid = os.getpid()
        self._began = self._written = time.monotonic_ns()
        self._events: list[dict[str, Any]] = []
        self._lanes: set[int] = set()
        self._open = True
        with open(self._path, "wb") as file:
            file.write(b"[" + _END)
        self._size = 1
        self._event("M", "process_name", CONSUMER, args={"name": "feedline"})
        self.lane(CONSUMER, "consumer")

    def _event(self, phase: str, name: str, lane: int, **fields: Any) -> None:
        self._events.append({"ph": phase, "name": name, "pid": self._pid, "tid": lane, **fields})

    def lane(self, lane: int, name: str) -> None:
        """Give a lane its name, once."""
        if lane not in self._lanes:
            self._lanes.add(lane)
            self._event("M", "thread_name", lane, args={"name": name})
            self._event("M", "thread_sort_index", lane, args={"sort_index": lane})

    def stretch(self, lane: int, name: str, began: int, ended: int, **details: Any) -> None:
        """Something went on from then to then, in nanoseconds of the monotonic clock."""
        begin, length = (began - self._began) / 1e3, max(0, ended - began) / 1e3
        self._event("X", name, lane, ts=begin, dur=length, args=details)
        if len(self._events) >= EVENTS or ended - self._written > PAUSE:
            self.write()

    def happened(self, what: str, lane: int = CONSUMER) -> None:
        """Something took place just now."""
        self._event("i", what, lane, ts=(time.monotonic_ns() - self._began) / 1e3, s="t")

    def write(self) -> None:
        """Bring the file up to date. If that fails, the trace ends; the run does not."""
        self._written = time.monotonic_ns()
        events, self._events = self._events, []
        # A forked process has the events as well, but they are not its own.
        if not events or not self._open or os.getpid() != self._pid or sys.is_finalizing():
            return
        text = ",\n".join(json.dumps(event) for event in events)
        data = f"{',' if self._size > 1 else ''}\n{text}".encode()
        try:
            with open(self._path, "r+b") as file:
                file.seek(self._size)
                file.write(data + _END)
        except OSError as error:
            self._stop(f"the trace {self._path} ends here: {error}")
            return
        self._size += len(data)
        if self._size > LARGEST:
            self._stop(f"the trace {self._path} ends here: it has reached {self._size >> 20} MiB")

    def _stop(self, why: str) -> None:
        self._open = False
        warnings.warn(why, RuntimeWarning, stacklevel=2)


class Trace:
    """The part of an iterator in it."""

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        # The epoch and number of the batches on the board, by their ticket.
        self._posted: dict[int, tuple[int, int]] = {}
        self._handed_over: int | None = None
        self.happened = file.happened

    def begin(self, epoch: int) -> None:
        """An epoch begins."""
        self._handed_over = None
        self.happened(f"epoch {epoch}")

    def waited(self, epoch: int, batch: int, began: int, what: str = "wait") -> None:
        """The consumer has waited for a batch, or made it, since then. Before that, it did a step."""
        now = time.monotonic_ns()
        if self._handed_over is not None:
            self._file.stretch(CONSUMER, "step", self._handed_over, began)
        self._handed_over = now
        self._file.stretch(CONSUMER, what, began, now, epoch=epoch, batch=batch)

    def posted(self, ticket: int, epoch: int, batch: int) -> None:
        """A batch is on the board."""
        self._posted[ticket] = epoch, batch

    def collected(self, ticket: int, board: Board) -> None:
        """A batch has left the board: what workers did for it is in their journals by now."""
        self.read(board)
        self._posted.pop(ticket, None)

    def read(self, board: Board) -> None:
        """Take over what is in the workers' journals."""
        entries, missed = board.journal()
        for worker, ticket, first, count, began, ended in entries:
            epoch, batch = self._posted.get(ticket, (None, None))
            self._file.lane(1 + worker, f"worker {worker}")
            details = {"epoch": epoch, "batch": batch, "first": first, "rows": count}
            self._file.stretch(1 + worker, f"batch {batch}", began, ended, **details)
        if missed:
            self.happened(f"{missed} stretches of workers are missing")

    def end(self) -> None:
        """The epoch has come to its end, or was left."""
        self._handed_over = None
        self._file.write()


class Traced:
    """In front of an iterator without workers: a batch is a stretch of the consumer's time."""

    def __init__(self, loader: Any, *others: Any) -> None:
        self._trace = Trace(loader._trace_file())
        super().__init__(loader, *others)  # type: ignore[call-arg]

    def __next__(self) -> Any:
        """The next batch."""
        began = time.monotonic_ns()
        try:
            batch = super().__next__()  # type: ignore[misc]
        except StopIteration:
            self._trace.end()
            raise
        epoch, number = self._epoch, self._num_yielded - 1  # type: ignore[attr-defined]
        self._trace.waited(epoch, number, began, "load")
        return batch

    def __del__(self) -> None:
        """What was noted is written, also where the epoch was left."""
        if trace := self.__dict__.get("_trace"):
            trace.end()
