"""A stretch of batches at which nobody looks.

Where a batch takes microseconds, a clock, some counters and a look at the gauges cost as much as its samples. So of
tiny batches that the consumer makes itself only some are timed, and each stands for those before it. A stretch is
short by the clock as well: what it may be wrong by is less than what a worker takes to come.
"""

from __future__ import annotations

#: The most batches in a stretch, and the most seconds, steps of the training loop included.
BATCHES = 15
SECONDS = 250e-6


class Stretch:
    """How many batches may go unseen, and how many have since they were last counted."""

    __slots__ = ("_since", "batches", "left", "rows")

    def __init__(self) -> None:
        self.left = self.batches = self.rows = 0
        #: When a batch was last looked at.
        self._since: float | None = None

    def counted(self) -> tuple[int, int]:
        """Batches and rows that went unseen; from here they are counted anew, and the next is looked at."""
        batches, rows = self.batches, self.rows
        self.left = self.batches = self.rows = 0
        return batches, rows

    def hidden(self, batches: int, began: float, now: float) -> float:
        """Seconds for which the consumer has waited for so many, if each took what the one that was seen did."""
        between = 0.0 if self._since is None else began - self._since
        return max(0.0, min(batches * (now - began), between))

    def begin(self, batches: int, now: float, may: bool) -> None:
        """A batch was seen, after so many that were not. If it may be, the next go unseen."""
        since, self._since = self._since, now
        if may and since is not None:
            self.left = min(BATCHES, int(SECONDS * (batches + 1) / max(1e-9, now - since)))

    def forget(self) -> None:
        """Another epoch: what was between has nothing to do with batches."""
        self.left, self._since = 0, None
