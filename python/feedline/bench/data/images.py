"""Photographs, or what a decoder takes for such: JPEG files of the sizes and bytes of imagenette."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from feedline.bench.data import Told, generated

if TYPE_CHECKING:
    from PIL import Image

COUNTS = {"smoke": 320, "default": 1600, "full": 9469}
CLASSES = 10
#: Sharper than photographs usually are, so that files have the 117 KB on average that those have.
QUALITY = 92


def folder(cache: Path, scale: str, told: Told) -> Path:
    """A folder for each class, with its files."""
    return generated(cache, f"images-{scale}", range(COUNTS[scale]), _write, told)


def _write(root: Path, index: int) -> None:
    path = root / f"class_{index % CLASSES}" / f"{index:06}.jpg"
    path.parent.mkdir(exist_ok=True)
    photograph(index).save(path, quality=QUALITY)


def photograph(index: int) -> Image.Image:
    """Noise of all scales, as landscapes have it, with edges and grain."""
    from PIL import Image, ImageDraw

    rng = np.random.default_rng([2017, index])
    width, height = _size(rng)
    total = np.zeros((height, width, 3), np.float32)
    cells, weight, fading = 3, 1.0, rng.uniform(0.6, 0.8)
    while cells < max(width, height):
        grid = rng.random((cells, cells, 3), dtype=np.float32)
        for channel in range(3):
            smooth = Image.fromarray(grid[..., channel]).resize((width, height), Image.Resampling.BICUBIC)
            total[..., channel] += weight * np.asarray(smooth)
        cells, weight = 2 * cells, weight * fading
    total = 0.5 + 0.2 * (total - total.mean()) / total.std()
    image = Image.fromarray(np.clip(255 * total, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image, "RGBA")
    for _ in range(int(rng.integers(3, 12))):
        x, y, reach = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(10, min(width, height) / 2)
        box = (x, y, x + reach, y + reach * rng.uniform(0.4, 1.4))
        colour = (*(int(value) for value in rng.integers(0, 256, 3)), int(rng.integers(60, 220)))
        (draw.ellipse if rng.random() < 0.5 else draw.rectangle)(box, fill=colour)
    grain = rng.normal(0, rng.uniform(4, 16), (height, width, 1))
    return Image.fromarray(np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8))


def _size(rng: np.random.Generator) -> tuple[int, int]:
    """Mostly 500 x 375, some upright, some of any size, a few large."""
    draw = rng.random()
    if draw < 0.55:
        return 500, int(rng.choice([333, 375, 375, 400]))
    if draw < 0.72:
        return int(rng.choice([333, 375, 400])), 500
    width = int(rng.integers(300, 640)) if draw < 0.97 else int(rng.integers(900, 1500))
    return width, int(width * rng.uniform(0.62, 1.0))
