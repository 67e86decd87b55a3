"""``num_workers="auto"``: how many workers there are follows from what is seen while training runs.

    gauges of the board ─► Watch: is there enough to judge by? ─► Tuning: how many ─► the iterator hires or dismisses

It happens in the thread that iterates, a few times a second, between two batches. How many workers there should be
is decided by the tuner of the engine, which knows no clock and no system and is tested by simulation; here is what it
is told, and the one thing that it does not know: that the consumer can do without any. Where samples take
microseconds, handing them over costs more than making them.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from feedline._engine import Tuner
from feedline._machine import Machine

#: So many workers there may be at least; more, on a machine with more processors.
MOST = 64

#: How long to look before deciding, in seconds: while numbers are tried, and when one has been found.
SOON = 0.1
LATER = 0.5

#: When to look again if there was too little to judge by.
AGAIN = 0.02

#: How long new workers may take to begin: those that are forked, or are threads, and those that are started afresh.
BEGIN = 0.1
BEGIN_AFRESH = 2.0

#: The consumer tries to make batches itself if samples take less than this, and batches of them, and no more than
#: twice what it spends on having them made: a worker's samples seem dearer, by what it takes to come by them.
SAMPLE = 50e-6
BATCH = 1e-3
TWICE = 2.0
#: It has them made again if that takes so much less time.
DEARER = 1.25

#: If it turns out dearer, so many decisions pass before that is tried again; twice as many each time.
COOLDOWN = 16

#: Fewer workers are being tried because the consumer did not wait: if it does now, for so many seconds and for such a
#: share of the time, that is the answer.
SIGN = 0.01
SIGN_SHARE = 0.03

#: How often to read what the machine has, in seconds.
READ = 1.0

#: This share of the memory that workers hold or could stays free; where less is, some of them leave.
RESERVE = 0.2

#: If less is free than this share of what workers hold, half of them leave.
FULL = 0.05

#: How many decisions are remembered.
REMEMBERED = 4096


class Auto(int):
    """A ``num_workers`` that is chosen while training runs, also when a trainer hands it to a new loader.

    As a number it is how many there are to begin with.
    """


@dataclass(frozen=True)
class Totals:
    """What the iterator and its workers have done so far."""

    now: float
    batches: int
    samples: int
    #: Units (samples, or batches where those are made whole) that were handed over, and that workers have made.
    taken: int
    made: int
    #: Seconds: in which the consumer had no batch; in which it slept; in which workers were busy; had a processor.
    waited: float
    blocked: float
    busy: float
    processor: float
    #: And seconds of processors that the rest of this process has used, the training step for one.
    rest: float = 0.0

    def since(self, before: Totals) -> Totals:
        """What has been done since then; `now` is how long that was."""
        return Totals(
            self.now - before.now,
            self.batches - before.batches,
            self.samples - before.samples,
            self.taken - before.taken,
            self.made - before.made,
            self.waited - before.waited,
            self.blocked - before.blocked,
            self.busy - before.busy,
            self.processor - before.processor,
            self.rest - before.rest,
        )


class Tuning:
    """What has been decided so far. The loader keeps it from epoch to epoch."""

    def __init__(
        self, machine: Machine | None = None, on_stats: Callable[[dict[str, float]], object] | None = None
    ) -> None:
        self._machine = machine or Machine()
        self._on_stats = on_stats
        self.processors = self._machine.processors()
        self.free = self._machine.memory()
        self._read_at: float | None = None
        #: Bytes that workers may hold; `None` if what is free was read since that was decided.
        self._allowed: int | None = None
        #: How many there may be, whatever happens.
        self.most = max(MOST, 2 * math.ceil(self.processors))
        self.workers = max(1, min(int(self.processors), self.most))
        self.tuner = Tuner(self.workers)
        #: Whether the consumer makes batches itself, and whether that has proved right.
        self.inline = False
        self.is_sure = False
        #: Seconds of the consumer's time that a batch of the workers' takes.
        self._hand_over = math.inf
        self._wait_for = 0
        self._cooldown = COOLDOWN
        self._began: float | None = None
        self.series: deque[dict[str, float]] = deque(maxlen=REMEMBERED)
        self.changes = 0
        #: Why the number does not change in the middle of an epoch, if it does not.
        self.fixed = ""
        #: Bytes that a worker holds.
        self.worker_bytes = 0

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being tried."""
        return self.is_sure if self.inline else self.tuner.is_settled

    @property
    def now(self) -> int:
        """How many workers there should be; 0 if the consumer makes batches itself."""
        return 0 if self.inline else self.workers

    @property
    def has_left_more(self) -> bool:
        """Whether there were more workers than now, and processors for them."""
        return self.changes > 0 and self.now < int(self.processors)

    def read_machine(self, now: float) -> bool:
        """Look at what there is, now and then. Whether that was now."""
        if self._read_at is not None and now - self._read_at < READ:
            return False
        self._read_at = now
        self.processors, self.free = self._machine.processors(), self._machine.memory()
        self._allowed = None
        return True

    def decide(self, now: float, seen: Totals, may_be_inline: bool) -> int:
        """How many workers there should be after this was seen; 0 if the consumer is to make batches itself."""
        before = self.now
        row = seen.busy / seen.made if seen.made else 0.0
        processor = min(row, seen.processor / seen.made) if seen.made else 0.0
        if self.inline:
            self._look_at_inline(seen, may_be_inline)
        elif not self._go_inline(seen, row, processor, may_be_inline):
            if self._allowed is None:
                self._allowed = self._may_hold(self.worker_bytes * self.workers)
            self.workers = self.tuner.decide(
                elapsed=seen.now,
                rows=float(seen.taken or seen.made),
                waited=seen.blocked,
                row=row,
                processor=processor,
                bytes_per_worker=self.worker_bytes,
                processors=self._left_by(seen),
                bytes=self._allowed,
                workers=self.most,
            )
        self.changes += self.now != before
        self._record(now, seen, row, processor)
        return self.now

    def _may_hold(self, held: int) -> int:
        """Bytes that workers may hold, which hold so many now."""
        if self.free > FULL * held:
            return int((1.0 - RESERVE) * (held + self.free))
        # Hardly any is left, and it is not known how much is missing. Whether half was enough, the next reading says.
        return held // 2

    def _left_by(self, seen: Totals) -> float:
        """Processors that the training loop leaves: half of them at least, or there would be nothing to train on."""
        used = seen.rest / seen.now if seen.now > 0 else 0.0
        return max(self.processors / 2, self.processors - used)

    def _go_inline(self, seen: Totals, row: float, processor: float, may_be_inline: bool) -> bool:
        """Whether the consumer should try to make batches itself."""
        if not seen.batches or not seen.made:
            return False
        self._hand_over = seen.waited / seen.batches
        self._wait_for = max(0, self._wait_for - 1)
        # Of samples that compute, what others take of the processors makes no difference to how long they would take.
        cost = processor if processor > 0.6 * row else row
        load = cost * seen.taken / seen.batches
        tiny = (
            0.0 < load < min(BATCH, TWICE * self._hand_over) and load < SAMPLE * seen.samples / seen.batches
        )
        if not may_be_inline or self._wait_for or not tiny:
            return False
        self.inline, self.is_sure = True, False
        return True

    def _look_at_inline(self, seen: Totals, may_be_inline: bool) -> None:
        """Whether it was right that the consumer makes batches itself."""
        load = seen.waited / max(1, seen.batches)
        if may_be_inline and load < (DEARER if self.is_sure else 1.0) * self._hand_over:
            self.is_sure = True
            return
        if not self.is_sure:
            self._wait_for, self._cooldown = self._cooldown, 2 * self._cooldown
        self.inline = self.is_sure = False

    def could_not_start(self, workers: int) -> None:
        """The system refuses to start more than so many."""
        self.most = self.workers = max(1, workers)
        self.tuner = Tuner(self.workers)

    def _record(self, now: float, seen: Totals, row: float, processor: float) -> None:
        if self._began is None:
            self._began = now
        step = {
            "seconds": now - self._began,
            "workers": float(self.now),
            "wait_share": min(1.0, max(seen.waited, seen.blocked) / seen.now) if seen.now > 0 else 0.0,
            "samples_per_second": seen.samples / seen.now if seen.now > 0 else 0.0,
            "sample_seconds": row,
            "sample_processor_seconds": processor,
            "processors": self.processors,
            "free_bytes": float(self.free),
        }
        self.series.append(step)
        if self._on_stats is not None:
            try:
                self._on_stats(dict(step))
            except Exception as error:
                # A batch is on its way to the training loop, which must not lose it.
                warnings.warn(f"on_stats failed: {error!r}", RuntimeWarning, stacklevel=2)


class Watch:
    """Says when there is enough to judge by. One for each iterator."""

    def __init__(self, tuning: Tuning, afresh: bool) -> None:
        self.tuning = tuning
        self._begin = BEGIN_AFRESH if afresh else BEGIN
        self._before: Totals | None = None
        self._next = 0.0
        self._decided = False
        # After a change: what was ready before it must be gone, or so much time have passed.
        self._until = (0.0, 0)
        # What had been done when fewer workers than were enough began to be tried.
        self._tried: Totals | None = None

    def pause(self) -> None:
        """What comes next has nothing to do with what was before: another epoch."""
        self._before, self._decided, self._tried = None, False, None

    def is_due(self, now: float) -> bool:
        """Whether to look at all; asked with every batch."""
        return now >= self._next

    def look(self, total: Totals, workers: int, window: int, may_be_inline: bool) -> int | None:
        """How many workers there should be, if that is decided now; there are so many, and so large a window."""
        now, tuning = total.now, self.tuning
        self._next = now + AGAIN
        if self._tried is not None and (seen := self._sign(total)) is not None:
            return self._decide(total, seen, window, may_be_inline)
        if now < self._until[0] and total.batches < self._until[1]:
            return None
        if self._before is None:
            # The first samples are dear for other reasons: files and modules are opened, memory is new.
            if total.made >= workers or tuning.inline or self._decided:
                self._before = total
            return None
        seen = total.since(self._before)
        if seen.now < (LATER if tuning.is_settled else SOON) or not self._is_enough(seen, workers):
            return None
        return self._decide(total, seen, window, may_be_inline)

    def _decide(self, total: Totals, seen: Totals, window: int, may_be_inline: bool) -> int:
        now, before, waited = total.now, self.tuning.now, seen.blocked > SIGN_SHARE * seen.now
        self._decided, self._tried = True, None
        decided = self.tuning.decide(now, seen, may_be_inline)
        self._before = total
        if decided != before:
            self._before = None
            ready = window if decided < before else 0
            self._until = (now + (1.0 if ready else self._begin), total.batches + ready if ready else 1 << 62)
            if 0 < decided < before and not waited:
                self._tried = total
        return decided

    def _sign(self, total: Totals) -> Totals | None:
        """What was seen of fewer workers, as soon as it shows that they are too few."""
        assert self._tried is not None
        seen = total.since(self._tried)
        waits = seen.blocked > max(SIGN, SIGN_SHARE * seen.now)
        return seen if waits and seen.made > 0 and seen.taken > 0 else None

    def _is_enough(self, seen: Totals, workers: int) -> bool:
        if self.tuning.inline:
            return seen.batches >= 2
        if seen.blocked > 0.9 * seen.now and seen.made >= 2 * workers:
            return True  # the consumer does nothing but wait
        return seen.batches >= (3 if seen.now < 2 * LATER else 1) and seen.made > 0

    def end(self, now: float, epoch: Totals, may_be_inline: bool) -> None:
        """An epoch is over. One that was too short to judge by parts is judged as a whole."""
        if not self._decided and epoch.batches and (epoch.made or self.tuning.inline):
            self.tuning.decide(now, epoch, may_be_inline)
