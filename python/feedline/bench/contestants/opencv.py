"""PyTorch's loader with OpenCV's reader of TIFF files, which knows several pages, but no five channels in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from feedline.bench.contestants.torch import options
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared
from feedline.bench.studies.images import Files

LABEL = "torch, OpenCV"
PACKAGES = ["opencv-python-headless", "torch"]
STUDIES = ["cells"]
WORKERS = "processes"


def read(path: Any) -> Any:
    """(5, 50, 50) of u16, as torch has it: the bits of i16."""
    import cv2
    import numpy as np
    import torch

    is_read, pages = cv2.imreadmulti(path, flags=cv2.IMREAD_UNCHANGED)
    if not is_read:
        raise ValueError(f"OpenCV does not read {path}")
    return torch.from_numpy(np.stack(pages).view(np.int16))


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """A new loader for every epoch."""
    import cv2
    import torch
    from torch.utils.data import DataLoader

    if prepared.variant != "pages":
        raise BadRequestError("OpenCV reads no more than four channels of a page; try the variant pages")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    # Workers share the processors already.
    cv2.setNumThreads(0)
    dataset: Any = Files(prepared.paths, prepared.labels, read)
    return lambda: DataLoader(dataset, **options(prepared, request))
