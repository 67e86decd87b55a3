"""What a loader did and why: ``stats()`` and ``explain()``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from feedline._pace import processors


@dataclass
class Report:
    """The figures of an iterator; the loader keeps it when the iterator is gone."""

    path: str
    why: str
    workers: int = 0
    batches: int = 0
    rows: int = 0
    waiting: float = 0.0
    stepping: float = 0.0
    ran_ahead: int = 0
    replaced_workers: int = 0
    #: How rows are given out: by measurement, in pieces or in whole batches.
    together: bool | None = None
    bytes_per_batch: int = 0
    gauges: list[dict[str, float]] = field(default_factory=list)
    #: Reads the workers' figures while they live.
    refresh: Callable[[Report], None] | None = None

    def stats(self) -> dict[str, Any]:
        """The figures as plain data."""
        self._refresh()
        return {
            "path": self.path,
            "batches": self.batches,
            "rows": self.rows,
            "bytes_per_batch": self.bytes_per_batch,
            "consumer": {"waiting_s": self.waiting, "busy_s": self.stepping},
            "ran_ahead": self.ran_ahead,
            "replaced_workers": self.replaced_workers,
            "workers": [dict(gauge) for gauge in self.gauges],
        }

    def _refresh(self) -> None:
        if self.refresh is not None:
            self.refresh(self)

    def explain(self) -> str:
        """The same in sentences: which way batches are made, what limits, what could be changed."""
        self._refresh()
        sentences = [f"Batches are {self.path}: {self.why}."]
        total = self.waiting + self.stepping
        if self.batches < 2 or total <= 0:
            sentences.append("Nothing has been measured yet.")
            return " ".join(sentences)
        share = self.waiting / total
        sentences.append(
            f"In {self.batches} batches the consumer waited {share:.0%} of the time "
            f"({1e3 * self.waiting / self.batches:.2f} ms a batch)."
        )
        busy = sum(gauge["busy_s"] for gauge in self.gauges)
        alive = busy + sum(gauge["waiting_s"] for gauge in self.gauges)
        rows = sum(gauge["units"] for gauge in self.gauges)
        if rows and alive > 0:
            sentences.append(
                f"Workers were busy {busy / alive:.0%} of theirs, {1e3 * busy / rows:.3f} ms for each piece of work."
            )
        if self.together is not None:
            how = (
                "are cheaper on one worker, so it gets whole batches"
                if self.together
                else "cost the same alone"
            )
            sentences.append(f"Neighbouring rows {how}.")
        sentences.append(self._advice(share, busy / alive if alive > 0 else 0.0))
        return " ".join(sentences)

    def _advice(self, share: float, busy: float) -> str:
        if share < 0.05:
            return "Data is there before it is needed: loading does not limit."
        if not self.workers:
            if "memory" in self.path:
                return "That time is the gathering itself."
            return "Workers would load beside the training step: set num_workers."
        if busy < 0.7:
            return "Workers wait as well: what limits is the hand-over or the consumer, not their number."
        if self.workers < (count := processors()):
            return f"Loading limits; {count} processors may be used and there are {self.workers} workers."
        return "Loading limits, and there are as many workers as processors: make samples cheaper, unless they wait."
