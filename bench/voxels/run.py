"""How much faster operations on volumes are than scipy's, torch's and numpy's, on one thread.

    python bench/voxels/run.py [CASE ...] [--side N] [--repeats N] [--threads N] [--json FILE]

Each case is computed by both in turn, so that what slows the machine down slows both, and the results are compared
before any figure is given. The figure is the median of the ratios of neighbouring runs. With more threads, those of
ours that can share their work do; the others' never do.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from feedline import voxels
from scipy import ndimage

SPACING = (1.0, 1.0, 3.0)
BOX = np.ones((3, 3, 3))


@dataclass
class Case:
    """One operation of both, and how far apart results may be."""

    name: str
    theirs: Callable[[], np.ndarray]
    ours: Callable[[], np.ndarray]
    tolerance: float = 0.0


def drawn(side: int, view: int) -> np.ndarray:
    """Two crossing curves on one slice, as the volumes study draws them."""
    lines = np.zeros((side, side, side), np.uint8)
    at = np.linspace(0, 1, 4 * side)
    bent = (side * (0.5 + 0.15 * np.sin(5 * at))).astype(int)
    along = (side * (0.3 + 0.4 * at)).astype(int)
    slab = np.moveaxis(lines, view, 0)[side // 2]
    slab[bent, along] = slab[along, bent] = 1
    return lines


def pool(volume: torch.Tensor) -> torch.Tensor:
    """The largest of each box."""
    return torch.nn.functional.max_pool3d(volume, 3, 1, 1)


def pooled(mask: np.ndarray) -> np.ndarray:
    """Opened by torch, as the volumes study does it."""
    volume = torch.from_numpy(mask.astype(np.float32))[None, None]
    return pool(-pool(-volume))[0, 0].numpy() > 0


def near(away: np.ndarray) -> np.ndarray:
    """What the volumes study makes of distances."""
    return np.exp(-0.5 * (away / (0.1 * away.max())) ** 2).astype(np.float32)


def our_map(lines: np.ndarray, threads: int) -> np.ndarray:
    """The same, ours."""
    away = voxels.distance(lines == 0, SPACING, dtype=np.float32, threads=threads)
    return voxels.falloff(away, 0.1 * float(away.max()))


def cases(side: int, threads: int) -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(0)
    ct = (1000 * rng.standard_normal((side, side, side))).astype(np.float32)
    wide = ct.astype(np.float64)
    smooth = ndimage.gaussian_filter(ct, 4)
    blobs = smooth > np.quantile(smooth, 0.8)
    labels = (2 + smooth / np.abs(smooth).max() * 2).astype(np.uint8)
    scattered = rng.random(ct.shape) > 1e-4

    def distances(name: str, mask: np.ndarray) -> Case:
        return Case(
            f"distance-{name}",
            lambda: ndimage.distance_transform_edt(mask, sampling=SPACING),
            lambda: voxels.distance(mask, SPACING, threads=threads),
        )

    for view in range(3):
        yield distances(f"lines-{view}", drawn(side, view) == 0)
    yield distances("scattered", scattered)
    yield distances("blobs", blobs)
    yield distances("outside-blobs", ~blobs)
    lines = drawn(side, 0)
    yield Case(
        "map",
        lambda: near(ndimage.distance_transform_edt(lines == 0, sampling=SPACING)),
        lambda: our_map(lines, threads),
        1e-6,
    )
    away = ndimage.distance_transform_edt(lines == 0, sampling=SPACING)
    yield Case("falloff", lambda: near(away), lambda: voxels.falloff(away, 0.1 * away.max()), 1e-6)
    yield Case("erode", lambda: ndimage.binary_erosion(blobs, BOX), lambda: voxels.erode(blobs))
    yield Case("dilate-3", lambda: ndimage.binary_dilation(blobs, BOX, 3), lambda: voxels.dilate(blobs, 3))
    yield Case("opened", lambda: ndimage.binary_opening(blobs, BOX), lambda: voxels.opened(blobs))
    yield Case("opened-torch", lambda: pooled(blobs), lambda: voxels.opened(blobs, border_value=1))
    for sigma in 1.0, 4.0:
        for name, volume, tolerance in ("f32", ct, 1e-2), ("f64", wide, 1e-9):
            yield Case(
                f"gaussian-{sigma:g}-{name}",
                lambda volume=volume, sigma=sigma: ndimage.gaussian_filter(volume, sigma),
                lambda volume=volume, sigma=sigma: voxels.gaussian(volume, sigma, threads=threads),
                tolerance,
            )
    low, high = np.float32(-150), np.float32(250)
    yield Case(
        "window", lambda: (np.clip(ct, low, high) - low) / (high - low), lambda: voxels.window(ct, -150, 250)
    )
    new = (1.5, 1.5, 1.5)
    zoom = [old / to for old, to in zip(SPACING, new, strict=True)]
    how: dict[str, Any] = {"grid_mode": True, "mode": "nearest"}
    yield Case(
        "resample",
        lambda: ndimage.zoom(ct, zoom, order=1, **how),
        lambda: voxels.resample(ct, SPACING, new),
        1e-2,
    )
    yield Case(
        "resample-labels",
        lambda: ndimage.zoom(labels, zoom, order=0, **how),
        lambda: voxels.resample(labels, SPACING, new, order=0),
    )
    yield Case("label", lambda: np.isin(labels, (1, 3)), lambda: voxels.label(labels, (1, 3)))
    yield Case("flip", lambda: np.flip(ct, (0, 2)).copy(), lambda: voxels.flip(ct, (0, 2)))


def timed(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Milliseconds, and the result."""
    start = time.perf_counter()
    result = call()
    return 1e3 * (time.perf_counter() - start), result


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Both in turn, after a first run whose results are compared."""
    apart = float(np.abs(case.theirs().astype(np.float64) - case.ours().astype(np.float64)).max())
    if not apart <= case.tolerance:
        raise AssertionError(f"{case.name}: results are {apart} apart, more than {case.tolerance}")
    pairs = [(timed(case.theirs)[0], timed(case.ours)[0]) for _ in range(repeats)]
    return {
        "case": case.name,
        "theirs_ms": round(statistics.median(theirs for theirs, _ in pairs), 3),
        "ours_ms": round(statistics.median(ours for _, ours in pairs), 3),
        "ratio": round(statistics.median(theirs / ours for theirs, ours in pairs), 2),
        "apart": apart,
        "pairs_ms": [[round(value, 3) for value in pair] for pair in pairs],
    }


def main() -> None:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="those whose name begins so; all if there are none")
    parser.add_argument("--side", type=int, default=144, help="voxels along each axis")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="of ours")
    parser.add_argument("--json", type=Path, help="a file to keep all times in")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    print(f"{'case':24}{'theirs, ms':>12}{'ours, ms':>12}{'ratio':>8}")
    for case in cases(asked.side, asked.threads):
        if asked.cases and not case.name.startswith(tuple(asked.cases)):
            continue
        figures = measure(case, asked.repeats)
        found.append(figures)
        print(
            f"{case.name:24}{figures['theirs_ms']:12.2f}{figures['ours_ms']:12.2f}{figures['ratio']:8.1f}",
            flush=True,
        )
    if asked.json:
        versions = {"scipy": scipy.__version__, "numpy": np.__version__, "torch": torch.__version__}
        environment = {"processors": os.cpu_count(), "side": asked.side, "threads": asked.threads, **versions}
        asked.json.write_text(json.dumps({"environment": environment, "cases": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
