"""Simulated I/O: each sample waits 10 ms, so start-up and dispatch are all that can be lost."""

import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from case import Case, Made
from measure import Run
from reading import all_of_ideal, first_batch, speed_up, steady_of_ideal
from trial import Trial

WAIT_S = 0.01
BATCH = 64


def image(index: int) -> tuple[torch.Tensor, int]:
    """Wait, then allocate an image; its value tells the order."""
    time.sleep(WAIT_S)
    return torch.full((3, 224, 224), float(index)), index


def small(index: int) -> tuple[torch.Tensor, int]:
    """Wait, then return next to nothing."""
    time.sleep(WAIT_S)
    return torch.full((4,), float(index)), index


CASES = {
    "image": Case(lambda items, _: Made(items, image), BATCH),
    "small": Case(lambda items, _: Made(items, small), BATCH),
}


def trials(scale: str) -> Iterator[Trial]:
    """Processes with images; then 64 threads against the best that torch has."""
    items = BATCH * (8 if scale == "smoke" else 50)
    for workers in (1, 2, 4, 8):
        run = Run("delay", "image", items, workers, serial=50)
        first = first_batch(0.25 if workers == 8 else None)
        yield Trial((run,), run, (speed_up(1.0), all_of_ideal(), steady_of_ideal(0.95), first))
    run = Run("delay", "small", items, 64, threads=True)
    # More workers cannot hurt samples that only wait; fewer are here to show that they do not win.
    rivals = tuple(replace(run, workers=w, threads=False) for w in (0, 2, 4, 6, 8))
    yield Trial(rivals, run, (speed_up(4.0), first_batch()))
