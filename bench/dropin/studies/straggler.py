"""One sample in 400 takes 500 times as long: what the others' workers do meanwhile."""

import time
from collections.abc import Iterator

from case import Case, Made
from measure import Run
from reading import speed_up, steady
from trial import Trial


def sample(index: int) -> int:
    """Wait, sometimes long."""
    time.sleep(0.5 if index % 400 == 0 else 0.001)
    return index


CASES = {"one in 400": Case(lambda items, _: Made(items, sample), 32)}


def trials(scale: str) -> Iterator[Trial]:
    """Four workers."""
    run = Run("straggler", "one in 400", 1600 if scale == "smoke" else 3200, 4)
    yield Trial((run,), run, (speed_up(1.8), steady()))
