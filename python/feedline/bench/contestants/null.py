"""No loader at all: one finished batch, over and over. What is measured is the instrument."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from feedline.bench.contestants import ALL
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "nothing"
PACKAGES = ["feedline", "torch"]
STUDIES = ALL
WORKERS = "threads"
DIFFERS = "loads nothing: it hands out one finished batch again and again"


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """The first batch, as often as an epoch has batches."""
    from torch.utils.data import default_collate

    collate = prepared.collate or default_collate
    batch = collate([prepared.dataset[index] for index in range(request.batch)])
    batches = request.batches or max(1, len(prepared.dataset) // request.batch)
    return lambda: repeat(batch, batches)
