"""Preprocessed tensors from files: reading is quick, so moving the bytes is what costs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import files
import numpy as np
import torch
from case import Case
from measure import Run
from reading import beside_inline, first_batch, speed_up, steady, taken_over
from torch.utils.data import Dataset
from trial import Trial

#: Batch size: batches of an epoch, and the speed-up wanted with workers.
GRID = {32: (200, 2.6), 256: (40, 2.2), 1024: (12, 2.0)}


class Arrays(Dataset):
    """`.npy` files and their numbers as labels, over and over until there are enough."""

    def __init__(self, items: int, cache: Path) -> None:
        """Write the files if they are missing."""
        self.items = items
        self.paths = files.arrays(cache)

    def __len__(self) -> int:
        """Count the samples."""
        return self.items

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Load one file."""
        return torch.from_numpy(np.load(self.paths[index % len(self.paths)])), index


CASES = {f"batch {batch}": Case(Arrays, batch) for batch in GRID}


def trials(scale: str) -> Iterator[Trial]:
    """Batches of 19, 154 and 617 MB; then the time to take over a finished one of 154 MB."""
    for batch, (batches, bound) in GRID.items():
        items = batch * (max(4, batches // 10) if scale == "smoke" else batches)
        for workers in (0, 2):
            run = Run("tensors", f"batch {batch}", items, workers)
            yield Trial((run,), run, (speed_up(bound if workers else 0.97), steady(), first_batch()))
        inline = replace(run, workers=0)
        yield Trial((inline,), run, (beside_inline(1.0),), rival="feedline")
    items = 256 * (4 if scale == "smoke" else 10)
    run = Run("tensors", "batch 256", items, 2, mode="hand-over")
    yield Trial((run,), run, (taken_over(0.5),))
