"""Generated files: the same bytes on every machine, written once into the cache folder."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np


def generated(cache: Path, name: str, write: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache; `write` fills it if it is not there.

    It is filled under another name and then moved, so an interrupted run leaves no half-filled folder.
    """
    folder = cache / name
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    draft = cache / f"{name}.{os.getpid()}"
    draft.mkdir()
    write(draft)
    draft.rename(folder)
    return folder


def arrays(cache: Path) -> list[str]:
    """400 `.npy` files of one (3, 224, 224) f32 array each, 241 MB."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(1)
        for index in range(400):
            np.save(folder / f"{index:04}.npy", rng.random((3, 224, 224), dtype=np.float32))

    return sorted(map(str, generated(cache, "arrays", write).glob("*.npy")))


def groups(cache: Path) -> list[str]:
    """20 `.npy` files of 15 planes of 400 x 400 f32 each: opening one costs milliseconds."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(2)
        for index in range(20):
            np.save(folder / f"{index:04}.npy", rng.random((15, 400, 400), dtype=np.float32))

    return sorted(map(str, generated(cache, "groups", write).glob("*.npy")))


def chunks(cache: Path) -> str:
    """One HDF5 file of 8,192 rows of 256 f32 in compressed chunks of 64 rows."""
    import h5py

    def write(folder: Path) -> None:
        rows = np.random.default_rng(3).integers(0, 99, (8192, 256)).astype(np.float32)
        with h5py.File(folder / "rows.h5", "w") as file:
            file.create_dataset("rows", data=rows, chunks=(64, 256), compression="gzip")

    return str(generated(cache, "chunks", write) / "rows.h5")


def photos(cache: Path) -> list[str]:
    """300 JPEG files of about 500 x 400 pixels and 100 KB: noise of several scales, like texture."""
    from PIL import Image

    def write(folder: Path) -> None:
        rng = np.random.default_rng(4)
        for index in range(300):
            size = (int(rng.integers(440, 561)), int(rng.integers(350, 451)))
            total = np.zeros((size[1], size[0], 3), np.float32)
            for cells, weight in ((4, 70), (16, 40), (64, 25), (256, 34)):
                noise = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
                total += weight * (np.asarray(noise.resize(size, Image.BICUBIC), np.float32) / 127.5 - 1)
            pixels = np.clip(total + 128, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{index:04}.jpg", quality=92)

    return sorted(map(str, generated(cache, "photos", write).glob("*.jpg")))
