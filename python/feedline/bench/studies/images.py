"""Photographs, decoded and resized or already preprocessed, as an image classifier is trained with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feedline.bench.data import images, tensors
from feedline.bench.request import Request
from feedline.bench.studies import Prepared, Told, cycled, files_of, variant_of

VARIANTS = ("jpeg", "train", "tensors", "tensors-pt")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


class Files:
    """Files and labels; a function of a path makes the sample."""

    def __init__(self, paths: list[str], labels: list[int], load: Callable[[Any], Any]) -> None:
        self.paths = paths
        self.labels = labels
        self.load = load

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.load(self.paths[index]), self.labels[index]


class Photograph:
    """Decoded by Pillow, changed by torchvision, as most people do it."""

    def __init__(self, train: bool) -> None:
        self.train = train
        self.transform: Any = None

    def import_all(self) -> None:
        """Before workers are started: each would do it again for itself."""
        from PIL import Image
        from torchvision import transforms

        cut = (
            [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
            if self.train
            else [transforms.Resize(256), transforms.CenterCrop(224)]
        )
        self.transform = transforms.Compose([*cut, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
        self.open = Image.open

    def __call__(self, path: Any) -> Any:
        """Load one."""
        if self.transform is None:
            self.import_all()
        with self.open(path) as image:
            return self.transform(image.convert("RGB"))


def load_npy(path: Any) -> torch.Tensor:
    """A preprocessed sample."""
    return torch.from_numpy(np.load(path, allow_pickle=False))


def load_pt(path: Any) -> torch.Tensor:
    """The same from torch's own format; nothing in it is executed."""
    tensor: torch.Tensor = torch.load(path, weights_only=True)
    return tensor


def prepare(request: Request, told: Told) -> Prepared:
    """Write the files if they are missing, and list them."""
    variant = variant_of(request, VARIANTS)
    cache = request.cache_folder
    load: Callable[[Any], Any]
    endings: tuple[str, ...]
    if variant in ("jpeg", "train"):
        folder = Path(request.data) if request.data else images.folder(cache, request.scale, told)
        endings, load = ENDINGS, Photograph(variant == "train")
    else:
        form = "npy" if variant == "tensors" else "pt"
        folder = Path(request.data) if request.data else tensors.folder(cache, request.scale, form, told)
        endings, load = (f".{form}",), load_npy if form == "npy" else load_pt
    paths, labels = files_of(folder, endings)
    paths, labels = cycled(paths, request), cycled(labels, request)
    return Prepared(Files(paths, labels, load), variant, None, paths, labels, load, variant == "train")
