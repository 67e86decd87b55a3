"""The consumer: takes batches, does a step with each, and notes how long it waited.

Nothing else happens between two batches: the figures go into lists, and are looked at afterwards. The clock stands
still while somebody looks at the memory of the loader, when it has given its last batch and has not been let go.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from feedline.bench.request import Request, seconds_of

#: How often to say how far one is.
SAY_EVERY = 0.25


@dataclass
class Taken:
    """What was seen of an epoch, in seconds."""

    #: When it began, by the monotonic clock.
    began: float = 0.0
    #: From asking for the loader to its iterator, and to the first batch.
    started: float = 0.0
    first: float = 0.0
    total: float = 0.0
    #: For which the clock stood still.
    paused: float = 0.0
    waits: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    items: int = 0
    bytes: int = 0


def take(
    open_loader: Callable[[], Iterable[Any]],
    request: Request,
    say: Callable[[int], None],
    look: Callable[[], None] | None = None,
    last: int | None = None,
) -> Taken:
    """Open a loader and take an epoch from it; the end of its workers is inside the clock, as in a loop.

    `look` is called once, after batch number `last`: a loader that is asked for one more has let its workers go.
    Where that number is not known, it is called when the epoch is over.
    """
    step = _step(request.step)
    clock = time.monotonic
    taken = Taken()
    most = sys.maxsize if request.batches is None else request.batches
    waits, steps = taken.waits, taken.steps
    limit = float("inf") if request.seconds is None else request.seconds
    start = taken.began = clock()
    batches = iter(open_loader())
    taken.started = clock() - start
    batch = None
    count, before, said = 0, start, start
    while count < most:
        try:
            batch = next(batches)
        except StopIteration:
            break
        now = clock()
        waits.append(now - before)
        count += 1
        if count == 1:
            taken.first = now - start
        if step is not None:
            step(batch)
            stepped = clock()
            steps.append(stepped - now)
            now = stepped
        if now - said > SAY_EVERY:
            say(count)
            said = now
        if look is not None and count == last:
            taken.paused = _timed(look, clock)
            now += taken.paused
            look = None
        before = now
        if now - start > limit and count > 1:
            break
    if look is not None:
        taken.paused = _timed(look, clock)
    sizes = None if batch is None else measure_batch(batch)
    del batches
    taken.total = clock() - start - taken.paused
    if sizes is not None:
        last_rows, last_bytes = sizes
        taken.items = (count - 1) * request.batch + last_rows
        taken.bytes = round(last_bytes / max(1, last_rows) * taken.items)
    return taken


def _timed(look: Callable[[], None], clock: Callable[[], float]) -> float:
    began = clock()
    look()
    return clock() - began


def _step(text: str) -> Callable[[Any], None] | None:
    computes, seconds = seconds_of(text)
    if seconds == 0:
        return None
    if not computes:
        return lambda _batch: time.sleep(seconds)

    def compute(_batch: Any) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(2000))

    return compute


def measure_batch(batch: Any) -> tuple[int, int]:
    """The rows of a batch, and its bytes."""
    arrays = list(leaves(batch))
    rows = next((len(array) for array in arrays if getattr(array, "ndim", 1) > 0), 1)
    return rows, sum(getattr(array, "nbytes", 0) for array in arrays)


def leaves(batch: Any) -> Iterable[Any]:
    """Arrays and tensors of a batch, and lists of text, in order."""
    if isinstance(batch, dict):
        for value in batch.values():
            yield from leaves(value)
    elif isinstance(batch, (tuple, list)) and not (batch and isinstance(batch[0], str)):
        for value in batch:
            yield from leaves(value)
    else:
        yield batch
