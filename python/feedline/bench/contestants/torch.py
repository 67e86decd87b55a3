"""PyTorch's own data loader: the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from feedline.bench.contestants import ALL
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "torch"
PACKAGES = ["torch"]
STUDIES = ALL
WORKERS = "processes"


def options(prepared: Prepared, request: Request) -> dict[str, Any]:
    """The arguments of the loader, the same for torch's and ours."""
    chosen: dict[str, Any] = {
        "batch_size": request.batch,
        "shuffle": request.shuffle,
        "num_workers": request.workers,
        "collate_fn": prepared.collate,
        "pin_memory": request.pin,
    }
    if request.prefetch is not None and request.workers:
        chosen["prefetch_factor"] = request.prefetch
    return chosen


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """A new loader for every epoch: starting its workers is part of what is measured."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return lambda: DataLoader(prepared.dataset, **options(prepared, request))
