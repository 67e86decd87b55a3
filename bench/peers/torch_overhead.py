"""How many rows per second PyTorch's data loader moves when the rows cost nothing.

The rival's side of `feedline bench overhead`. Two datasets over the same int32 rows in memory: a class whose
`__getitem__` indexes a numpy array, as most people write it, and torch's own `TensorDataset`. Both go through
the default collate. One loader lives through all repeats with persistent workers, so the best repeat holds no
process start. Prints one JSON line for each dataset and number of workers.
"""

import json
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

ROWS = 200_000
BATCH = 64
WORKERS = (0, 1, 2)
REPEATS = 3


class Rows(Dataset):
    """A map-style dataset that does nothing but index."""

    def __init__(self, rows: np.ndarray) -> None:
        """Keep the rows; nothing is copied."""
        self.rows = rows

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.rows)

    def __getitem__(self, index: int) -> np.int32:
        """Return one row."""
        return self.rows[index]


def epoch(loader: DataLoader) -> float:
    """Read one epoch and return its seconds; a loader that loses rows is refused."""
    start = time.perf_counter()
    rows = 0
    for batch in loader:
        column = batch if isinstance(batch, torch.Tensor) else batch[0]
        rows += len(column)
    seconds = time.perf_counter() - start
    if rows != ROWS:
        raise AssertionError(f"torch delivered {rows} rows of {ROWS}")
    return seconds


def measurements() -> Iterator[dict]:
    """Measure every dataset with every number of workers."""
    rows = np.arange(ROWS, dtype=np.int32)
    datasets = {"torch": Rows(rows), "torch-tensordataset": TensorDataset(torch.from_numpy(rows))}
    for name, dataset in datasets.items():
        for workers in WORKERS:
            loader = DataLoader(dataset, BATCH, num_workers=workers, persistent_workers=workers > 0)
            seconds = [epoch(loader) for _ in range(REPEATS)]
            yield {
                "loader": name,
                "version": torch.__version__,
                "workers": workers,
                "rows": ROWS,
                "batch": BATCH,
                "rows_per_s": round(ROWS / min(seconds)),
                "seconds": round(min(seconds), 4),
                "repeats": [round(s, 4) for s in seconds],
            }


if __name__ == "__main__":
    for line in measurements():
        print(json.dumps(line, separators=(",", ":")), flush=True)
