"""Never below: datasets of every shape, end to end, where a drop-in must not cost anyone time.

The epochs are short, about a second under torch, so that start-up counts at least as it does in practice.
"""

import os
import random
import time
from collections import namedtuple
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import files
import numpy as np
import torch
from case import Case, Made
from measure import Run
from reading import speed_up
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, get_worker_info
from trial import Trial

from studies import tiny

Point = namedtuple("Point", ["x", "y", "label"])
#: Rounds of `spin` that take about a millisecond.
MILLISECOND = 20_000


def spin(rounds: int) -> int:
    """Keep the interpreter busy, without a call that would let others run."""
    value = 0
    for step in range(rounds):
        value = (value * 31 + step) & 0xFFFF
    return value


# --- samples, each a function of its index ---------------------------------------------------------------


def small_tensor(index: int) -> torch.Tensor:
    """16 floats."""
    return torch.full((16,), float(index))


def thumbnail(index: int) -> torch.Tensor:
    """A (3, 32, 32) u8 image."""
    return torch.full((3, 32, 32), index % 256, dtype=torch.uint8)


def picture(index: int) -> tuple[torch.Tensor, int]:
    """A (3, 224, 224) f32 image and its label."""
    return torch.full((3, 224, 224), float(index)), index


def array(index: int) -> np.ndarray:
    """A numpy array of 64 floats."""
    return np.full(64, index, np.float32)


def mixed(index: int) -> tuple[torch.Tensor, np.ndarray, float, int]:
    """A tuple of four kinds."""
    return small_tensor(index), array(index), index * 0.5, index


def nested(index: int) -> dict[str, Any]:
    """Dicts, lists and tuples in each other."""
    return {"in": {"a": small_tensor(index), "b": [index, index * 0.5]}, "out": (array(index), f"{index}")}


def text(index: int) -> str:
    """A string."""
    return f"sample number {index}"


def point(index: int) -> Point:
    """A named tuple."""
    return Point(small_tensor(index), index * 0.5, index)


def ragged(index: int) -> tuple[torch.Tensor, int]:
    """A sequence of 1 to 200 ids."""
    return torch.arange(1 + index * 37 % 200), index


def large(index: int) -> torch.Tensor:
    """20 MB."""
    return torch.full((5, 1000, 1000), float(index))


def waits(index: int) -> int:
    """2 ms of waiting."""
    time.sleep(0.002)
    return index


def computes(index: int) -> int:
    """1 ms of pure Python."""
    return index + spin(MILLISECOND) * 0


def uneven(index: int) -> int:
    """0.1 ms of pure Python, or 10 ms for every tenth sample."""
    return index + spin(MILLISECOND * 10 if index % 10 == 9 else MILLISECOND // 10) * 0


def augmented(index: int) -> dict[str, Any]:
    """A small image with noise, flip and gain from the three usual generators."""
    image = torch.full((3, 32, 32), float(index)) + torch.randn(3, 32, 32)
    if random.random() < 0.5:
        image = image.flip(-1)
    return {"image": image * float(np.random.uniform(0.8, 1.2)), "label": index}


# --- collate functions -----------------------------------------------------------------------------------


def stacked(samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Stack, and add a mean."""
    batch = torch.stack(samples)
    return {"x": batch, "mean": batch.mean(dim=1)}


def padded(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad to the longest of the batch."""
    return pad_sequence([ids for ids, _ in samples], batch_first=True), torch.tensor([n for _, n in samples])


# --- datasets that are more than a function --------------------------------------------------------------


class AtOnce(tiny.Rows):
    """A dataset that gives a whole batch of samples when asked for many."""

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        """Return many rows with one call of numpy."""
        return list(self.rows[indices])


class Stream(IterableDataset):
    """An iterable dataset that the workers share out among themselves."""

    def __init__(self, items: int, _cache: Path) -> None:
        """Keep the length."""
        self.items = items

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Yield this worker's share."""
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return map(small_tensor, range(first, self.items, step))


class Grouped(Dataset):
    """15 neighbouring samples per file; each copy of the dataset keeps the last file it has opened."""

    def __init__(self, items: int, cache: Path) -> None:
        """Write the files if they are missing."""
        self.items = items
        self.paths = files.groups(cache)
        self.opened: tuple[int, np.ndarray] | None = None

    def __len__(self) -> int:
        """Count the samples."""
        return self.items

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        """Open the file unless it is the last one, and cut out a sample."""
        group, plane = divmod(index, 15)
        if self.opened is None or self.opened[0] != group:
            self.opened = group, np.load(self.paths[group % len(self.paths)])
        return self.opened[1][plane, :64, :64], index


class Chunked(Dataset):
    """Rows of an HDF5 file, which each process opens for itself."""

    def __init__(self, items: int, cache: Path) -> None:
        """Write the file if it is missing; it is not opened here."""
        self.items = items
        self.path = files.chunks(cache)
        self.opened: tuple[int, Any] | None = None

    def __len__(self) -> int:
        """Count the samples."""
        return self.items

    def __getitem__(self, index: int) -> np.ndarray:
        """Read one row; the library keeps the last chunks unpacked."""
        if self.opened is None or self.opened[0] != os.getpid():
            import h5py

            self.opened = os.getpid(), h5py.File(self.path, "r")["rows"]
        return self.opened[1][index % len(self.opened[1])]


def made(sample: Any, batch: int | None = 64, **options: Any) -> Case:
    """Make a case of a function of an index."""
    return Case(lambda items, _: Made(items, sample), batch, options)


def joined(items: int, _cache: Path) -> ConcatDataset:
    """Three datasets, one after the other."""
    third = items // 3
    return ConcatDataset([Made(n, mixed) for n in (third, third, items - 2 * third)])


CASES = {
    "ints": Case(tiny.Ints),
    "floats": Case(tiny.Floats),
    "small tensors": made(small_tensor),
    "u8 (3,32,32)": made(thumbnail),
    "f32 (3,224,224)": made(picture, 32),
    "numpy arrays": made(array),
    "tuples": made(mixed),
    "nested dicts": made(nested),
    "strings": made(text),
    "namedtuple": made(point),
    "custom collate": made(small_tensor, collate_fn=stacked),
    "__getitems__": Case(AtOnce),
    "iterable": Case(Stream),
    "ragged": made(ragged, collate_fn=padded),
    "TensorDataset": Case(tiny.table),
    "Subset": Case(tiny.every_second),
    "large 20 MB": made(large, 2),
    "waits 2 ms": made(waits, 32),
    "computes 1 ms": made(computes, 32),
    "file of 15": Case(Grouped, 30),
    "HDF5 chunks": Case(Chunked),
    "uneven 100x": made(uneven, 20),
    # Random values follow the worker that makes a sample, so only the labels must agree.
    "augmentation": Case(lambda items, _: Made(items, augmented), 64, {}, itemgetter("label")),
    "batch_size=1": made(mixed, 1),
    "batch_size=None": made(mixed, None),
    "ConcatDataset": Case(joined),
    "shuffle=True": made(mixed, shuffle=True),
}


def trials(scale: str) -> Iterator[Trial]:
    """Every shape with every number of workers; `fill` chooses the items."""
    for case in CASES:
        for workers in (0, 1, 2, 4):
            run = Run("table", case, 0, workers)
            yield Trial((run,), run, (speed_up(0.97),), fill=0.3 if scale == "smoke" else 1.0)
