"""What a loader did and why: ``stats()`` and ``explain()``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from feedline._machine import Machine

if TYPE_CHECKING:
    from feedline._auto import Tuning

#: A consumer that waits for a smaller share of its time is not held up.
ENOUGH = 0.05

#: Workers that are busy for a smaller share of theirs are enough.
BUSY = 0.7

#: Samples that have a processor for a smaller share of their time mostly wait.
WAITS = 0.5

#: Processors that are used for a larger share of the time are all in use.
ALL_USED = 0.8


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
    #: Whether workers are threads that run Python.
    under_gil: bool = False
    #: Since when, in seconds.
    elapsed: float = 0.0
    #: What chooses the number of workers, if something does.
    tuning: Tuning | None = None
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
            "series": [] if self.tuning is None else [dict(step) for step in self.tuning.series],
        }

    def summary(self) -> str:
        """The same in a line."""
        self._refresh()
        total = self.waiting + self.stepping
        if self.batches < 1 or total <= 0:
            return f"Batches are {self.path}; nothing has been measured yet."
        workers = f"{self.workers} workers{' (auto)' if self.tuning is not None else ''}"
        return (
            f"{self.rows} samples in {self.batches} batches, {self.rows / total:.0f} samples/s, "
            f"the consumer waited {self.waiting / total:.1%} of the time; {workers}"
        )

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
        processor = sum(gauge.get("processor_s", 0.0) for gauge in self.gauges)
        rows = sum(gauge["units"] for gauge in self.gauges)
        if rows and alive > 0:
            sentence = (
                f"Workers were busy {busy / alive:.0%} of theirs, {1e3 * busy / rows:.3f} ms for each piece"
            )
            if processor:
                sentence += f", for {1e3 * processor / rows:.3f} ms of which it had a processor"
            sentences.append(sentence + ".")
        if self.together is not None:
            how = (
                "are cheaper on one worker, so it gets whole batches"
                if self.together
                else "cost the same alone"
            )
            sentences.append(f"Neighbouring rows {how}.")
        sentences.append(self._limit(share, busy, alive, processor))
        if share >= ENOUGH:
            gain = 1 / max(0.01, 1 - share)
            sentences.append(f"Without that wait, training would be up to {gain:.1f} times as fast.")
        if self.tuning is not None:
            sentences.append(self._tuned(self.tuning))
        return " ".join(sentences)

    def is_held_by_python(self) -> bool:
        """Whether worker threads waited for each other, because one can run Python at a time."""
        self._refresh()
        busy = sum(gauge["busy_s"] for gauge in self.gauges)
        processor = sum(gauge.get("processor_s", 0.0) for gauge in self.gauges)
        # All together had about one processor,
        one = 0.7 * self.elapsed < processor < 1.3 * self.elapsed
        # while they were busy for longer than that; or because auto has found that more of them bring nothing.
        crowd = self.workers > 1 and busy > 1.3 * self.elapsed
        alone = self.workers == 1 and self.tuning is not None and self.tuning.has_left_more
        return self.under_gil and one and (crowd or (alone and self.waiting > 0.5 * self.elapsed))

    def _limit(self, share: float, busy: float, alive: float, processor: float) -> str:
        """What limits, and what could be changed."""
        if share < ENOUGH:
            return "The consumer limits: data is there before it is needed."
        if not self.workers:
            if "memory" in self.path:
                return "That time is the gathering itself."
            if self.tuning is not None:
                return "What limits is making the samples; handing them over by workers took longer still."
            return "Workers would load beside the training step: set num_workers."
        if alive <= 0 or busy < BUSY * alive:
            return (
                "Workers wait as well: what limits is the hand-over or the consumer, not their number. "
                "Larger batches, or smaller samples, are handed over at less cost."
            )
        has = Machine().processors()
        if self.is_held_by_python():
            return (
                "What limits is Python: threads wait for each other, because one of them can run it at a time. "
                "workers='process' would use the other processors."
            )
        # Samples also wait for a processor, if workers or others use them all.
        computes = processor > ALL_USED * has * self.elapsed
        if processor and processor < WAITS * busy and not computes:
            if os.getloadavg()[0] > has + 1:
                return (
                    "What limits is waiting: for a disk or the network, or for processors that others use too, "
                    "which this machine has too few of at the moment."
                )
            more = (
                "" if self.tuning is not None else " More workers can wait at the same time: set num_workers."
            )
            return f"What limits is waiting, for a disk or the network.{more} A cache would spare it."
        if self.workers < int(has):
            return f"Loading limits; {has:g} processors may be used and there are {self.workers} workers."
        return (
            f"What limits is computing: samples need all of the {has:g} processors that may be used. "
            "Cheaper steps, smaller files or a native dataset would help; more workers would not."
        )

    @staticmethod
    def _tuned(tuning: Tuning) -> str:
        """What auto did."""
        if not tuning.series:
            return f"auto has decided nothing yet; it begins with {tuning.now or 'no'} workers."
        first, now = int(tuning.series[0]["workers"]), tuning.now
        text = (
            f"auto has looked {len(tuning.series)} times and changed the number of workers {tuning.changes} times; "
            f"it was {first} first and is {now or 'none'} now"
        )
        if tuning.inline:
            text += ", because the consumer makes batches in less time than it takes to hand them over"
        elif now >= tuning.most:
            text += ", which is the most there may be"
        if tuning.fixed:
            text += f". {tuning.fixed}"
        return text + "."
