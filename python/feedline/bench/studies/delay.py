"""Simulated reading: every sample waits 10 ms, then makes a random image of (3, 224, 224)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from feedline.bench.request import Request
from feedline.bench.studies import Prepared, Told, variant_of

VARIANTS = ("image", "small")
WAIT_S = 0.01
ITEMS = 10_000
SHAPES = {"image": (3, 224, 224), "small": (4,)}


class Delay:
    """Waits, then makes an image that only depends on its number."""

    def __init__(self, items: int, shape: tuple[int, ...]) -> None:
        self.items = items
        self.shape = shape

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[Any, int]:
        time.sleep(WAIT_S)
        image = np.random.Generator(np.random.SFC64(index)).random(self.shape, dtype=np.float32)
        return torch.from_numpy(image), index % 10


def prepare(request: Request, _told: Told) -> Prepared:
    """Make the dataset."""
    variant = variant_of(request, VARIANTS)
    items = ITEMS if request.batches is None else request.batches * request.batch
    return Prepared(Delay(items, SHAPES[variant]), variant)
