"""Cells under a microscope: small TIFF files of five channels, as a flow cytometer writes them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from feedline.bench.data import Told, generated

COUNTS = {"smoke": 1200, "default": 9000, "full": 89_572}
CLASSES = 8
SIDE, CHANNELS = 50, 5
#: So many files are written by one call.
CHUNK = 100


def folder(cache: Path, scale: str, told: Told, pages: bool = False) -> Path:
    """A folder for each class, with its files: channels of a pixel side by side, or each in a page of its own."""
    chunks = [range(first, min(first + CHUNK, COUNTS[scale])) for first in range(0, COUNTS[scale], CHUNK)]
    write = partial(_write, form=tiff_of_pages if pages else tiff)
    return generated(cache, f"cells-pages-{scale}" if pages else f"cells-{scale}", chunks, write, told)


def _write(root: Path, indices: range, form: Callable[[np.ndarray], bytes]) -> None:
    for index in indices:
        path = root / f"class_{index % CLASSES}" / f"{index:06}.tif"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(form(cell(index)))


def cell(index: int) -> np.ndarray:
    """A bright disc with soft edges, of another brightness in each channel, and noise: (H, W, C) u16."""
    rng = np.random.default_rng([2019, index])
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    middle, radius = rng.uniform(21, 29, 2), rng.uniform(8, 18)
    disc = np.exp(-((((y - middle[0]) ** 2 + (x - middle[1]) ** 2) / radius**2) ** 2))
    values = disc[..., None] * rng.uniform(500, 12_000, CHANNELS) + rng.normal(
        300, 30, (SIDE, SIDE, CHANNELS)
    )
    return np.clip(values, 0, 65_535).astype(np.uint16)


def tiff(pixels: np.ndarray) -> bytes:
    """A TIFF file of one page with interleaved channels, not compressed."""
    height, width, channels = pixels.shape
    data = pixels.astype("<u2").tobytes()
    short, long = 3, 4
    fields = [  # tag, type, values, in the order of the tags
        (256, long, [width]),
        (257, long, [height]),
        (258, short, [16] * channels),
        (259, short, [1]),
        (262, short, [1]),
        (273, long, [0]),  # where the pixels are; known below
        (277, short, [channels]),
        (278, long, [height]),
        (279, long, [len(data)]),
        (284, short, [1]),
        (338, short, [0] * (channels - 1)),
        (339, short, [1] * channels),
    ]
    beside_at = 8 + 2 + 12 * len(fields) + 4
    beside = {tag: values for tag, kind, values in fields if kind == short and len(values) > 2}
    places, at = {}, beside_at
    for tag, values in beside.items():
        places[tag], at = at, at + 2 * len(values)
    pixels_at = at
    entries = []
    for tag, kind, values in fields:
        if tag == 273:
            values = [pixels_at]
        if tag in places:
            value = struct.pack("<I", places[tag])
        else:
            value = struct.pack(f"<{len(values)}{'H' if kind == short else 'I'}", *values).ljust(4, b"\0")
        entries.append(struct.pack("<HHI", tag, kind, len(values)) + value)
    head = struct.pack("<2sHIH", b"II", 42, 8, len(fields)) + b"".join(entries) + struct.pack("<I", 0)
    return head + b"".join(struct.pack(f"<{len(v)}H", *v) for v in beside.values()) + data


def tiff_of_pages(pixels: np.ndarray) -> bytes:
    """A TIFF file with a page for every channel, not compressed."""
    height, width, channels = pixels.shape
    size = 2 * height * width
    count = 9
    page = 2 + 12 * count + 4 + size
    made = struct.pack("<2sHI", b"II", 42, 8)
    for channel in range(channels):
        begin = len(made)
        values = {256: width, 257: height, 258: 16, 259: 1, 262: 1}
        values |= {273: begin + page - size, 277: 1, 278: height, 279: size}
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in values.items())
        following = begin + page if channel + 1 < channels else 0
        data = np.ascontiguousarray(pixels[..., channel]).astype("<u2").tobytes()
        made += struct.pack("<H", count) + entries + struct.pack("<I", following) + data
    return made
