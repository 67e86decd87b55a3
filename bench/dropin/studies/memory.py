"""Memory of the process tree at 8 workers, during the epoch of the delay study."""

from collections.abc import Iterator

from measure import Run
from reading import memory
from trial import Trial

from studies import delay

CASES = {"image": delay.CASES["image"]}


def trials(scale: str) -> Iterator[Trial]:
    """The proportional set size, sampled five times a second."""
    items = delay.BATCH * (16 if scale == "smoke" else 50)
    run = Run("memory", "image", items, 8, mode="memory")
    yield Trial((run,), run, (memory("peak", 1.0), memory("median", 1.0)))
