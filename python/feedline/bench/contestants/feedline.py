"""Feedline's drop-in with worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from feedline.bench.contestants import ALL
from feedline.bench.contestants.torch import options
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "feedline"
PACKAGES = ["feedline", "torch"]
STUDIES = ALL
WORKERS = "processes"


def open(prepared: Prepared, request: Request, workers: str = "process") -> Callable[[], Iterable[Any]]:
    """A new loader for every epoch, as for torch."""
    import torch

    from feedline import DataLoader

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return lambda: DataLoader(prepared.dataset, workers=workers, **options(prepared, request))
