"""Patients: for each a CT, a PET, a mask and a predicted mask, as NRRD files."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

import numpy as np

from feedline.bench.data import Told, generated

COUNTS = {"smoke": 4, "default": 12, "full": 57}
SIDES = {"smoke": 64, "default": 144, "full": 144}
PARTS = ("ct", "pet", "mask", "predicted")
ENCODINGS = ("gzip", "raw")
TYPES = {"float32": "float", "uint8": "uchar"}


def folder(cache: Path, scale: str, encoding: str, told: Told) -> Path:
    """A folder for each patient, with four files."""
    write = partial(_write, side=SIDES[scale], encoding=encoding)
    return generated(cache, f"volumes-{encoding}-{scale}", range(COUNTS[scale]), write, told)


def _write(root: Path, index: int, side: int, encoding: str) -> None:
    folder = root / f"patient_{index:03}"
    folder.mkdir()
    for name, volume in zip(PARTS, patient(index, side), strict=True):
        (folder / f"{name}.nrrd").write_bytes(nrrd(volume, encoding))


def patient(index: int, side: int) -> tuple[np.ndarray, ...]:
    """A body of soft tissue with a few lesions, and a prediction that misses some of them."""
    rng = np.random.default_rng([2022, index])
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    z, y, x = np.meshgrid(axis, axis, axis, indexing="ij")
    body = x**2 / 0.7 + y**2 / 0.5 < 1
    tissue = _smooth(rng, side)
    ct = np.where(body, 400 * (tissue - 0.5) + rng.normal(0, 12, body.shape), -1000).astype(np.float32)
    pet = np.where(body, 8 * tissue**3 + rng.gamma(2.0, 0.1, body.shape), 0).astype(np.float32)
    mask, predicted = np.zeros(body.shape, np.uint8), np.zeros(body.shape, np.uint8)
    for _ in range(6):
        middle, radius = rng.uniform(-0.45, 0.45, 3), rng.uniform(0.06, 0.2)
        for volume, found, shift in ((mask, 0.8, 0.0), (predicted, 0.8, 0.04)):
            if rng.random() < found:
                away = middle + rng.uniform(-shift, shift, 3)
                volume |= ((z - away[0]) ** 2 + (y - away[1]) ** 2 + (x - away[2]) ** 2 < radius**2).astype(
                    np.uint8
                )
    return ct.round(0), pet, mask, predicted


def _smooth(rng: np.random.Generator, side: int) -> np.ndarray:
    """Noise on a coarse grid, interpolated along each axis."""
    coarse = 9
    values = rng.random((coarse, coarse, coarse))
    at = np.linspace(0, coarse - 1, side)
    below = np.minimum(at.astype(int), coarse - 2)
    share = at - below
    for dimension in range(3):
        shape = [1, 1, 1]
        shape[dimension] = side
        weight = share.reshape(shape)
        values = (1 - weight) * values.take(below, dimension) + weight * values.take(below + 1, dimension)
    return values


def nrrd(volume: np.ndarray, encoding: str) -> bytes:
    """A file with its header attached. The fastest axis comes first in the header, as the format wants it."""
    header = "\n".join(
        [
            "NRRD0005",
            f"type: {TYPES[str(volume.dtype)]}",
            "dimension: 3",
            "space: left-posterior-superior",
            f"sizes: {' '.join(str(extent) for extent in reversed(volume.shape))}",
            "space directions: (1,0,0) (0,1,0) (0,0,3)",
            "kinds: domain domain domain",
            "endian: little",
            f"encoding: {encoding}",
            "space origin: (0,0,0)",
        ]
    )
    data = np.ascontiguousarray(volume).astype(volume.dtype.newbyteorder("<")).tobytes()
    if encoding == "gzip":
        data = gzip.compress(data, 6, mtime=0)
    return header.encode() + b"\n\n" + data
