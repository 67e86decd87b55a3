"""Processes or threads, for ``workers="auto"``: the first samples tell.

Threads cost less, and any number of them can wait; but Python code runs in one of them at a time. So some samples
are loaded in a thread of a process of their own, beside a second thread that wants to run every fifth of a
millisecond and measures how much later it may than it could before: that is the share of the time in which Python was
held. What comes late on a busy machine does so before as well.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

#: How many samples to load at most, and for how long.
SAMPLES = 16
SECONDS = 0.25

#: How long to wait for an answer: the first sample may take its time.
PATIENCE = 20.0

#: Threads are taken if Python is held for less than this share of the time.
MOST_HELD = 0.3

_NAP = 0.0002
#: How many naps show how late a thread comes that nobody holds up.
_NAPS = 32


def choose(dataset: Any, context: Any) -> tuple[str, str]:
    """The kind of workers for a map-style dataset, and why."""
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_probe, args=(dataset, sender), daemon=True)
    process.start()
    sender.close()
    try:
        held = receiver.recv() if receiver.poll(PATIENCE) else None
    except EOFError:
        held = None
    process.kill()
    process.join()
    receiver.close()
    if held is None:
        return "process", "the first samples could not be measured"
    text = f"Python is held {held:.0%} of the time in which a sample is loaded"
    return ("thread" if held < MOST_HELD else "process"), text


def _probe(dataset: Any, sender: Any) -> None:
    seconds: list[float] = []

    def load() -> None:
        start = time.monotonic()
        for index in range(min(SAMPLES, len(dataset))):
            dataset[index]
            seconds.append(time.monotonic() - start)
            if seconds[-1] > SECONDS:
                return

    usual = 2 * max(_NAP, statistics.median(_nap() for _ in range(_NAPS)))
    thread = threading.Thread(target=load, daemon=True)
    naps: list[float] = []
    thread.start()
    while thread.is_alive():
        naps.append(_nap())
    # Samples that take no time are Python and nothing else.
    sender.send(None if not seconds else 1.0 if seconds[-1] < 1e-3 else _held(naps, usual))


def _held(naps: list[float], usual: float) -> float:
    """The share of the time for which naps were longer than usual, without the two longest: a machine hiccups."""
    if not naps:
        return 1.0
    if len(naps) > 4:
        naps = sorted(naps)[:-2]
    return sum(max(0.0, nap - usual) for nap in naps) / sum(naps)


def _nap() -> float:
    """How long it took."""
    before = time.monotonic()
    time.sleep(_NAP)
    return time.monotonic() - before
