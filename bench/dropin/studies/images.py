"""JPEG files as most people load them: Pillow and torchvision, with the work in the samples."""

from collections.abc import Iterator
from pathlib import Path

import files
import torch
from case import Case
from measure import Run
from PIL import Image
from reading import first_batch, speed_up, steady
from torch.utils.data import Dataset
from torchvision import transforms
from trial import Trial

BATCH = 64


class Photos(Dataset):
    """Decoded, resized, cropped and normalised, over and over until there are enough."""

    def __init__(self, items: int, cache: Path) -> None:
        """Write the files if they are missing."""
        self.items = items
        self.paths = files.photos(cache)
        self.transform = transforms.Compose(
            [
                transforms.Resize(256),
                transforms.CenterCrop(224),
                transforms.ToTensor(),
                transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

    def __len__(self) -> int:
        """Count the samples."""
        return self.items

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Load one photo."""
        with Image.open(self.paths[index % len(self.paths)]) as photo:
            return self.transform(photo.convert("RGB")), index


CASES = {"jpeg": Case(Photos, BATCH)}


def trials(scale: str) -> Iterator[Trial]:
    """Two workers."""
    run = Run("images", "jpeg", BATCH * (6 if scale == "smoke" else 40), 2)
    yield Trial((run,), run, (speed_up(1.05), steady(), first_batch()))
