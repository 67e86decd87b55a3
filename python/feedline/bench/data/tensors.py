"""Preprocessed samples: one (3, 224, 224) f32 array in each file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from feedline.bench.data import Told, generated

COUNTS = {"smoke": 128, "default": 1024, "full": 10_240}
SHAPE = (3, 224, 224)
FORMATS = ("npy", "pt")


def folder(cache: Path, scale: str, form: str, told: Told) -> Path:
    """A folder of files of a form."""
    return generated(cache, f"tensors-{form}-{scale}", range(COUNTS[scale]), partial(_write, form=form), told)


def _write(root: Path, index: int, form: str) -> None:
    array = np.random.default_rng([2018, index]).standard_normal(SHAPE, dtype=np.float32)
    path = root / f"{index:06}.{form}"
    if form == "npy":
        np.save(path, array)
    else:
        import torch

        torch.save(torch.from_numpy(array), path)
