"""Readings: what is read off the outcome of a trial, each with its target.

A reading makes one line: both contestants' medians, and the figure that the target speaks of. A figure that
compares is the median of one for each repeat: the two measurements of a repeat were made one after the other,
and what slows the machine for minutes slows both.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from trial import Outcome


@dataclass(frozen=True)
class Target:
    """A bound on a figure: at least by default."""

    bound: float
    at_most: bool = False

    def met(self, figure: float) -> bool:
        """Say whether a figure keeps the bound; NaN keeps none."""
        return figure <= self.bound if self.at_most else figure >= self.bound

    def __str__(self) -> str:
        """Write the bound as the report shows it."""
        return f"{'≤' if self.at_most else '≥'} {self.bound:.2f}"


@dataclass(frozen=True)
class Line:
    """One line of the report."""

    measure: str
    torch: float
    feedline: float
    #: One for each repeat.
    figures: list[float]
    target: Target | None

    @property
    def figure(self) -> float:
        """The median; NaN if an epoch was too short to have it."""
        return statistics.median(self.figures)

    @property
    def spread(self) -> float:
        """(Maximum - minimum) / median."""
        return (max(self.figures) - min(self.figures)) / self.figure if self.figure else 0.0

    @property
    def verdict(self) -> str:
        """`ok`, `MISSED`, or nothing where there is no target or nothing to compare with it."""
        if self.target is None or math.isnan(self.figure):
            return ""
        return "ok" if self.target.met(self.figure) else "MISSED"

    @property
    def is_open(self) -> bool:
        """Whether some repeats keep the target and others do not."""
        return self.target is not None and len({self.target.met(figure) for figure in self.figures}) > 1


Reading = Callable[[Outcome], Line]


def line(
    outcome: Outcome, key: str, measure: str, target: Target | None, figure: Callable[[float, float], float]
) -> Line:
    """Make a line of one measure; `figure` gets torch's value and feedline's."""
    torch, feedline = outcome.values("torch", key), outcome.values("feedline", key)
    figures = [figure(*pair) for pair in zip(torch, feedline, strict=True)]
    return Line(measure, statistics.median(torch), statistics.median(feedline), figures, target)


def speed_up(bound: float | None = None) -> Reading:
    """From making the loader to the end of the epoch, start-up included: torch's time ÷ feedline's."""
    target = None if bound is None else Target(bound)
    return lambda o: line(o, "seconds_total", "end to end s, speed-up", target, lambda t, f: t / f)


def beside_inline(bound: float) -> Reading:
    """Feedline's own time without workers ÷ that with them, where its own runs stand in torch's place."""
    label = "end to end s, x own none"
    return lambda o: line(o, "seconds_total", label, Target(bound), lambda t, f: t / f)


def steady(bound: float | None = None) -> Reading:
    """From the first batch to the last: feedline's rate ÷ torch's.

    Whole batches made side by side arrive together with the first one, outside of this clock; in an
    epoch of few batches that flatters the loader that makes them so.
    """
    target = None if bound is None else Target(bound)
    return lambda o: line(o, "steady_items_per_s", "steady items/s, speed-up", target, lambda t, f: f / t)


def ideal(o: Outcome) -> float:
    """Workers x the rate of the samples alone, in items/s."""
    return o.feedline_run.workers / statistics.median(report["item_s"] for report in o.torch + o.feedline)


def steady_of_ideal(bound: float) -> Reading:
    """Feedline's steady rate ÷ ideal; see `steady` for what flatters it."""
    key, label = "steady_items_per_s", "steady items/s, of ideal"
    return lambda o: line(o, key, label, Target(bound), lambda _, f: f / ideal(o))


def all_of_ideal() -> Reading:
    """The ideal time ÷ feedline's from end to end: start-up costs, but nothing flatters."""
    key, label = "seconds_total", "end to end s, of ideal"
    return lambda o: line(o, key, label, None, lambda _, f: o.feedline_run.items / f / ideal(o))


def first_batch(bound: float | None = None) -> Reading:
    """Time to the first batch: feedline's share of torch's."""
    target = None if bound is None else Target(bound, at_most=True)
    return lambda o: line(o, "first_batch_s", "first batch s, share", target, lambda t, f: f / t)


def taken_over(bound_ms: float) -> Reading:
    """The median time of `next()` for a finished batch, in milliseconds."""

    def read(o: Outcome) -> Line:
        torch, feedline = (
            [statistics.median(report["waits_ms"]) for report in reports] for reports in (o.torch, o.feedline)
        )
        target = Target(bound_ms, at_most=True)
        return Line("hand-over ms", statistics.median(torch), statistics.median(feedline), feedline, target)

    return read


def memory(which: str, bound: float) -> Reading:
    """`peak` or `median` memory of the process tree during the epoch: feedline's share of torch's."""
    target = Target(bound, at_most=True)
    return lambda o: line(o, f"{which}_pss_mb", f"{which} PSS MB, share", target, lambda t, f: f / t)
