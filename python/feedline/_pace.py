"""How far ahead, and in how large pieces: what is decided from what was measured.

Splitting a batch among the workers brings it sooner; giving neighbours to one worker may be cheaper, if the
dataset keeps its last file open or its last volume decoded. Such a dataset gives itself away: the first row of a
run costs more than those after it. So the time of first rows is measured, and what runs of any length would cost
follows. Whole batches are made side by side and need as many times the memory; they are for those who gain by it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from feedline._machine import affinity
from feedline._structure import Structure

if TYPE_CHECKING:
    from feedline._engine import Board

#: Batches that wait to be delivered may take so many bytes, where no window was asked for.
DEPTH_BYTES = 192 << 20

#: The same, if threads make them without Python: they are woken at once, so that one batch ready is as good as many.
NATIVE_DEPTH_BYTES = 96 << 20

#: And so many while one of them is held up and the others run ahead of it.
AHEAD_BYTES = 1 << 30

#: Batches that are tiny together may be on their way in larger numbers: waking a worker costs more than a batch.
TINY_BYTES = 1 << 20
TINY_BATCHES = 64

#: Of batches that are tiny in every way so many go on one ticket, and for each worker and beyond so many of those.
SHEAF = 32
SHEAVES = 2

#: If the consumer sleeps for a larger share of the time, one worker is not enough for short batches; where there are
#: fewer processors than workers and consumer, for a larger one still, unless workers can do without Python.
CROWD = 0.1
CROWD_ON_FEW = 0.25

#: A batch that takes no longer than this is not worth sharing.
SHORT = 300e-6

#: A worker's share of the first batch is given out in so many pieces.
FIRST_PIECES = 4

#: How much cheaper rows must be on one worker to be kept together.
CHEAPER = 0.9

#: So many rows after the first of their run are enough to compare, and so many are enough for good.
ENOUGH = 32
FOR_GOOD = 16 * ENOUGH

#: After that, what a row takes is looked at with every so many tickets.
FOLLOW = 64


@dataclass
class Learned:
    """What is known of a dataset; kept by the loader from epoch to epoch."""

    structure: Structure | None = None
    schema: int = 0
    parcel_bytes: int = 0
    #: Whether samples have a structure that rows can be made of, and how often a batch had another.
    rows_fit: bool = True
    odd: int = 0
    #: Seconds per row, and whether rows are cheaper if a worker has all of a batch.
    row: float | None = None
    together: bool | None = None

    def learn(self, schema: int, board: Board) -> Structure:
        """The structure of that name."""
        if self.structure is None or schema != self.schema:
            described = board.schema(schema)
            if self.structure is None or described != self.structure.described:
                self.structure = Structure(described)
            self.schema = schema
        return self.structure

    def note_odd(self, odd: int) -> None:
        """A batch had another structure than its first sample (1), or samples have none (2)."""
        self.odd += 1
        if odd == 2 or self.odd >= 3:
            self.rows_fit = False
        # The next batch may follow the new shape.
        self.structure, self.schema = None, 0


class Pace:
    """The window and the runs of one iterator."""

    def __init__(
        self,
        workers: int,
        strict: bool,
        prefetch_factor: int,
        learned: Learned,
        *,
        native: bool = False,
        grouped: bool = False,
    ) -> None:
        self._native = native
        self._strict = strict
        # Samples of a group need the same large thing: who is far ahead has others loaded, for which it is dropped.
        self._grouped = grouped
        self._prefetch_factor = prefetch_factor
        self._learned = learned
        # What batches on their way may take; less, where memory is short.
        self._most_deep = NATIVE_DEPTH_BYTES if native else DEPTH_BYTES
        self._depth_bytes, self._ahead_bytes = self._most_deep, AHEAD_BYTES
        self.set_workers(workers)
        self._size = 0
        self.extra = 0
        self._before: tuple[float, ...] | None = None
        self._settled = False
        self._handed_over: float | None = None
        self.steps = 0.0
        self.rows = 0
        self._rows_each = 0
        # Whether several batches go on one ticket.
        self._binds = False
        # How often was looked since it was certain what rows cost; busy seconds and units, when last followed.
        self._visits, self._seen = 0, (0.0, 0)
        # When batches were last posted, how long the consumer had slept by then, and for which share of the time.
        self._posted, self._blocked, self._asleep = time.monotonic(), 0.0, 0.0

    def set_workers(self, workers: int, asked: int = 0) -> None:
        """There are so many from now on, of so many that were asked for if that is more."""
        self._workers = max(1, workers)
        # Who has said how far ahead has said it of all of them.
        self._prefetch = self._prefetch_factor * max(self._workers, asked if self._strict else 0)
        self._crowd = CROWD if self._native or self._workers < affinity() else CROWD_ON_FEW

    def set_memory(self, free: int) -> None:
        """So many bytes are left in all; batches that wait are not what should take them."""
        self._depth_bytes = min(self._most_deep, free // 8)
        self._ahead_bytes = min(AHEAD_BYTES, free // 4)

    def window(self, in_rows: bool) -> int:
        """How many batches may be on their way; tickets, if several are on each."""
        if self._strict or not self._rows_each:
            return self._prefetch
        # Batches that all workers share are done one after the other; whole ones, side by side.
        shared = in_rows and not self._learned.together
        least = 1 + -(-self._workers // self._rows_each) if shared else self._workers + 1
        if not self._size:
            return min(self._prefetch, least) if shared else self._prefetch
        if self._binds and in_rows:
            return SHEAVES * (self._workers + 1)
        if self._size * TINY_BATCHES <= TINY_BYTES and not self._grouped:
            return max(self._prefetch, TINY_BATCHES)
        return max(least, min(self._prefetch, self._depth_bytes // self._size))

    @property
    def is_large(self) -> bool:
        """Whether batches are so large that memory for one more matters."""
        return not self._strict and 2 * self._size > self._depth_bytes

    def is_low(self, on_their_way: int, window: int) -> bool:
        """Whether to begin more batches now: tiny ones many at a time, so that workers are woken seldom."""
        return on_their_way < (window if window < TINY_BATCHES else window // 2)

    def is_short(self, rows: int) -> bool:
        """Whether a batch of so many rows takes too little time to be shared."""
        return self._learned.row is not None and self._learned.row * rows < SHORT

    def on_a_ticket(self, rows: int, size: int) -> int:
        """How many batches of so many rows and bytes to post together: as many as are short together."""
        row = self._learned.row
        if row is None or self._strict or self._grouped:
            return 1
        most = min(SHEAF, TINY_BYTES // (SHEAF * max(1, size)), int(SHORT / max(1e-9, row * rows)))
        self._binds = most > 1
        return most

    def begin_posting(self, blocked: float) -> None:
        """Some batches are about to be posted; the consumer has slept so many seconds in all."""
        now = time.monotonic()
        share = (blocked - self._blocked) / max(1e-6, now - self._posted)
        self._asleep += (min(1.0, share) - self._asleep) / 8
        self._posted, self._blocked = now, blocked

    def may_be_quiet(self, rows: int) -> bool:
        """Whether to post a batch without waking more than one worker.

        If the consumer seldom sleeps, one is enough for short batches: more would only take the processor from each
        other, and from the consumer.
        """
        return self._asleep < self._crowd and self.is_short(rows)

    def may_run_ahead(self, bytes_ahead: int) -> bool:
        """Whether more may be begun while the next batch is held up."""
        return bool(self._size) and not self._grouped and bytes_ahead + self._size <= self._ahead_bytes

    def ran_ahead(self) -> None:
        """Workers ran ahead of a batch that was held up."""
        self.extra += 1

    def run(self, rows: int, number: int) -> int:
        """How many rows of a batch a worker takes at once."""
        self._rows_each = rows
        if self._workers == 1 or self.is_short(rows):
            return rows
        split = -(-rows // self._workers)
        if self._learned.together is None:
            # Runs of one row have no neighbours. Some batches after the first are not split, to see what those cost.
            whole = split == 1 and 0 < number <= self._workers
        else:
            whole = self._learned.together
        if number == 0 and not whole:
            # Workers come one after the other: those that are there take more than those that are not.
            return max(1, split // FIRST_PIECES)
        return rows if whole else split

    def asked(self, now: float) -> None:
        """The consumer wants a batch."""
        if self._handed_over is not None:
            self.steps += now - self._handed_over
            self._handed_over = None

    def handed_over(self, now: float) -> None:
        """The consumer has one."""
        self._handed_over = now

    def delivered(self, rows: int, size: int) -> None:
        """A batch has left the board."""
        self.rows += rows
        self._size = size

    def measure(self, board: Board, delivery: Any) -> None:
        """Look at what rows cost, until that is certain."""
        if self._settled:
            self._follow(board)
            return
        gauges = board.gauges()
        columns = list(zip(*gauges, strict=True))
        seen = tuple(float(sum(columns[place])) for place in (1, 3, 5, 6))
        if self._before is None:
            # The first batch is dear for other reasons: files and modules are opened, memory is new.
            self._before = seen
            if seen[1]:
                self._learned.row = seen[0] / seen[1]
            return
        busy, units, first, firsts = (now - then for now, then in zip(seen, self._before, strict=True))
        rest = units - firsts
        if units:
            self._learned.row = busy / units
        if rest < ENOUGH or firsts < 2 * self._workers:
            return
        if self._workers == 1:
            self._settled = rest >= FOR_GOOD
            return
        self._settled = rest >= FOR_GOOD
        first, later = first / firsts, max(0.0, busy - first) / rest
        rows = delivery.rows

        def cost(run: int) -> float:
            return (first + (run - 1) * later) / run

        self._learned.together = cost(rows) < CHEAPER * cost(-(-rows // self._workers))

    def _follow(self, board: Board) -> None:
        """See now and then what a row takes by now: what was measured first may have been a busy moment's."""
        self._visits += 1
        if self._visits % FOLLOW:
            return
        busy, units, _ = board.work()
        if units > self._seen[1]:
            self._learned.row = (busy - self._seen[0]) / (units - self._seen[1])
        self._seen = busy, units
