"""Microscopy: small images of five channels in one file each, opened, read, or resized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from feedline.bench.data import cells
from feedline.bench.request import Request
from feedline.bench.studies import Prepared, Told, cycled, files_of, variant_of
from feedline.bench.studies.images import Files

#: The last has every channel in a page of its own, which is the only form that OpenCV reads.
VARIANTS = ("read", "open", "resize", "pages")


def opened(path: str) -> torch.Tensor:
    """The file is parsed, and nothing of it is kept."""
    import tifffile

    with tifffile.TiffFile(path) as file:
        shape = file.pages.first.shape
    return torch.tensor(shape)


def read(path: str) -> torch.Tensor:
    """(5, 50, 50) of u16, as torch has it: the bits of i16."""
    import tifffile

    pixels = tifffile.imread(path)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)).view(np.int16))


def read_pages(path: str) -> torch.Tensor:
    """The same of a file of pages."""
    import tifffile

    return torch.from_numpy(tifffile.imread(path).view(np.int16))


def resized(path: str) -> torch.Tensor:
    """Resized to (220, 224), and its middle of 220 x 220, as f32."""
    import tifffile
    from torchvision.transforms import v2

    pixels = torch.from_numpy(tifffile.imread(path).astype(np.float32)).permute(2, 0, 1)
    cut: torch.Tensor = v2.functional.center_crop(
        v2.functional.resize(pixels, [220, 224], antialias=True), [220]
    )
    return cut


LOADERS: dict[str, Any] = {"read": read, "open": opened, "resize": resized, "pages": read_pages}


def prepare(request: Request, told: Told) -> Prepared:
    """Write the files if they are missing, and list them."""
    variant = variant_of(request, VARIANTS)
    if request.data:
        folder = Path(request.data)
    else:
        folder = cells.folder(request.cache_folder, request.scale, told, variant == "pages")
    paths, labels = files_of(folder, (".tif", ".tiff"))
    paths, labels = cycled(paths, request), cycled(labels, request)
    load = LOADERS[variant]
    return Prepared(Files(paths, labels, load), variant, None, paths, labels, load)
