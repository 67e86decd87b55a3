"""PyTorch's loader with torchvision's own decoder, and transforms of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from feedline.bench.contestants.torch import options
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared
from feedline.bench.studies.images import MEAN, STD, Files

LABEL = "torch, torchvision.io"
PACKAGES = ["torch", "torchvision"]
STUDIES = ["images"]
WORKERS = "processes"


class Photograph:
    """Decoded and changed as a tensor of bytes."""

    def __init__(self, train: bool) -> None:
        import torch
        from torchvision.transforms import v2

        cut = (
            [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()]
            if train
            else [v2.Resize(256), v2.CenterCrop(224)]
        )
        self.transform = v2.Compose([*cut, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    def __call__(self, path: Any) -> Any:
        """Load one."""
        from torchvision.io import ImageReadMode, decode_image, read_file

        return self.transform(decode_image(read_file(path), ImageReadMode.RGB))


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """A new loader for every epoch."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if prepared.variant not in ("jpeg", "train"):
        raise BadRequestError("torchvision.io decodes images, not tensors")
    dataset: Any = Files(prepared.paths, prepared.labels, Photograph(prepared.variant == "train"))
    return lambda: DataLoader(dataset, **options(prepared, request))
