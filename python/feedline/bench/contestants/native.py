"""Feedline without Python: images and tensors are made into rows in Rust, by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from feedline.bench.contestants.torch import options
from feedline.bench.request import Request
from feedline.bench.studies import Prepared
from feedline.bench.studies.images import MEAN, STD

LABEL = "feedline, native"
PACKAGES = ["feedline", "torch"]
STUDIES = ["images"]
WORKERS = "threads"


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """A new loader for every epoch, as for torch."""
    import torch

    from feedline import DataLoader, Files, Tensors

    torch.set_num_threads(1)
    torch.manual_seed(0)
    files = Files(prepared.paths, prepared.labels)
    dataset: Any = Tensors(prepared.paths, prepared.labels)
    if prepared.variant == "jpeg":
        dataset = files.resize(256).center_crop(224).normalize(MEAN, STD)
    elif prepared.variant == "train":
        dataset = files.random_resized_crop(224).random_horizontal_flip().normalize(MEAN, STD)
    return lambda: DataLoader(dataset, native="require", **options(prepared, request))
