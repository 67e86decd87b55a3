"""Feedline's drop-in over an unchanged torchvision dataset, whose steps it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from feedline.bench.contestants.torch import options
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared

LABEL = "feedline, torchvision's dataset"
PACKAGES = ["feedline", "torch", "torchvision"]
STUDIES = ["images"]
WORKERS = "threads"


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """A new loader for every epoch, as for torch."""
    import torch
    from torchvision.datasets import ImageFolder

    from feedline import DataLoader

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if prepared.variant not in ("jpeg", "train"):
        raise BadRequestError("torchvision has no dataset of tensors")
    transform: Any = prepared.load
    dataset = ImageFolder(Path(prepared.paths[0]).parents[1], transform.transform)
    # As many as the study asks for, in its order.
    dataset.samples = list(zip(prepared.paths, prepared.labels, strict=True))
    return lambda: DataLoader(dataset, native="require", **options(prepared, request))
