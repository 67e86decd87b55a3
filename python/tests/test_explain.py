"""What a loader says of what limits it, for runs whose cause is known."""

import os

import pytest
from feedline._machine import Machine
from feedline._report import Report

#: Seconds of a run, on a machine of two processors that nobody else uses.
SECONDS = 10.0


@pytest.fixture(autouse=True)
def _two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "processors", lambda _: 2.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))


def run(
    workers: int, busy: float, processor: float, waited: float = 0.9, *, under_gil: bool = False
) -> Report:
    """A run in which each worker was busy, and had a processor, for such shares of the time."""
    gauge = {
        "busy_s": busy * SECONDS,
        "waiting_s": (1 - busy) * SECONDS,
        "units": 100.0,
        "runs": 10.0,
        "processor_s": processor * SECONDS,
    }
    report = Report("made by workers", "of the test", workers=workers, batches=50, rows=100 * workers)
    report.waiting, report.stepping = waited * SECONDS, (1 - waited) * SECONDS
    report.elapsed, report.under_gil, report.gauges = SECONDS, under_gil, [gauge] * workers
    return report


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (run(2, 0.5, 0.5, waited=0.01), "The consumer limits"),
        (run(2, 0.3, 0.3), "the hand-over or the consumer"),
        (run(4, 1.0, 0.05), "waiting, for a disk or the network. More workers can wait"),
        (run(2, 1.0, 0.98), "computing: samples need all of the 2 processors"),
        # Eight share two processors: each has one for a quarter of the time, and waits for nothing else.
        (run(8, 1.0, 0.25), "computing: samples need all of the 2 processors"),
        (run(1, 1.0, 1.0), "2 processors may be used and there are 1 workers"),
        (run(4, 1.0, 0.25, under_gil=True), "What limits is Python"),
    ],
    ids=["consumer", "hand-over", "disk", "computing", "oversubscribed", "few workers", "GIL"],
)
def test_what_limits_is_said(report: Report, said: str) -> None:
    assert said in report.explain()


def test_processors_that_others_use_are_thought_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 6.0, 6.0))
    text = run(3, 1.0, 0.3).explain()
    assert "processors that others use too" in text
    assert "set num_workers" not in text
