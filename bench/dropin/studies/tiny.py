"""Samples that cost nothing: what is measured is the loader itself."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from case import Case, Made
from measure import Run
from reading import beside_inline, speed_up, steady
from torch.utils.data import Dataset, Subset, TensorDataset
from trial import Trial

BATCH = 128


class Ints(Dataset):
    """The plainest dataset there is, without even a call to a function of a sample."""

    def __init__(self, items: int, _cache: Path | None = None) -> None:
        """Keep the length."""
        self.items = items

    def __len__(self) -> int:
        """Count the samples."""
        return self.items

    def __getitem__(self, index: int) -> Any:
        """Return the index."""
        return index


class Floats(Ints):
    """The same with floats."""

    def __getitem__(self, index: int) -> float:
        """Return a float."""
        return index * 0.5


class Pairs(Ints):
    """A feature and a label."""

    def __getitem__(self, index: int) -> tuple[float, int]:
        """Return both."""
        return index * 0.5, index


def record(index: int) -> dict[str, Any]:
    """Return a sample with named parts, one of them text."""
    return {"id": index, "x": np.full(16, index, np.float32), "name": f"sample {index}"}


def table(items: int, _cache: Path | None = None) -> TensorDataset:
    """Rows of 16 floats and a label, in memory."""
    return TensorDataset(torch.arange(items * 16, dtype=torch.float32).view(items, 16), torch.arange(items))


def every_second(items: int, _cache: Path) -> Subset:
    """Half of a table twice as long."""
    return Subset(table(2 * items), range(0, 2 * items, 2))


class Rows(Dataset):
    """Rows of a numpy array and their labels."""

    def __init__(self, items: int, _cache: Path | None = None) -> None:
        """Make the array."""
        self.rows = np.arange(items * 16, dtype=np.float32).reshape(items, 16)

    def __len__(self) -> int:
        """Count the samples."""
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        """Return a view of a row."""
        return self.rows[index], index


CASES = {
    "ints": Case(Ints, BATCH),
    "floats": Case(Floats, BATCH),
    "pairs": Case(Pairs, BATCH),
    "dicts": Case(lambda items, _: Made(items, record), BATCH),
    "TensorDataset": Case(table, BATCH),
    "Subset": Case(every_second, BATCH),
    "numpy rows": Case(Rows, BATCH),
}
#: Case: batches of an epoch with workers and without, and the speed-up wanted with workers.
GRID = {
    "ints": (2000, 40_000, 8.0),
    "floats": (2000, 40_000, 8.0),
    "pairs": (2000, 20_000, 8.0),
    "dicts": (1000, 2000, 2.0),
    "TensorDataset": (782, 3000, 5.0),
    "Subset": (782, 3000, 5.0),
    "numpy rows": (782, 3000, 5.0),
}


def trials(scale: str) -> Iterator[Trial]:
    """Workers against workers, none against none; for numbers, workers against none, torch's and feedline's own."""
    for case, (with_workers, without, bound) in GRID.items():
        cut = 10 if scale == "smoke" else 1
        run = Run("tiny", case, BATCH * with_workers // cut, 2)
        yield Trial((run,), run, (speed_up(bound), steady()))
        inline = Run("tiny", case, BATCH * without // cut, 0)
        yield Trial((inline,), inline, (speed_up(0.97),))
        if case in ("ints", "floats"):
            with_two = replace(inline, workers=2)
            yield Trial((inline,), with_two, (speed_up(1.3),))
            yield Trial((inline,), with_two, (beside_inline(1.0),), rival="feedline")
