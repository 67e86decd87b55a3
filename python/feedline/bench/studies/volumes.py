"""Medical volumes: 15 samples of each patient, all of which need the patient's four files.

Every copy of the dataset keeps the last patient it has loaded, as such datasets do. How often a patient is
loaded anew depends on which worker is given which samples. With a cache that all workers share, it does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feedline.bench.data import volumes
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared, Told, sized, variant_of
from feedline.cache import SharedCache

VARIANTS = ("gzip", "raw", "twin")
VIEWS, SLICES = 3, 5
SPACING = (1.0, 1.0, 3.0)
#: A wide halo around the map, relative to its largest value.
SIGMA = 0.005


class Grouped:
    """Samples of which neighbours need the same group."""

    #: All workers' groups; without it, each has the last of its own.
    cache: SharedCache | None = None
    last: tuple[Any, Any] | None = None

    def group(self, key: Any, load: Callable[[], Any]) -> Any:
        """A group, loaded if it is not there."""
        if self.cache is not None:
            return self.cache.get(key, load)
        last = self.last
        if last is None or last[0] != key:
            self.last = last = key, load()
        return last[1]


def shared(dataset: Any, cache: SharedCache) -> Any:
    """The same samples, whose groups are in a cache."""
    made = copy(dataset)
    if isinstance(made, Grouped):
        made.cache = cache
    else:
        made.dataset = shared(made.dataset, cache)
    return made


class Patients(Grouped):
    """Samples of patients: a slice, and what a segmentation got wrong around it."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders

    def __len__(self) -> int:
        return VIEWS * SLICES * len(self.folders)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        folder = self.folders[index // (VIEWS * SLICES)]
        patient = self.group(folder, lambda: load_patient(Path(folder)))
        view, rank = divmod(index % (VIEWS * SLICES), SLICES)
        return sample(patient, view, rank)


def load_patient(folder: Path) -> dict[str, Any]:
    """Read the four files, and find where mask and prediction differ."""
    import nrrd

    ct, pet, mask, predicted = (
        nrrd.read(str(folder / f"{part}.nrrd"), index_order="C")[0] for part in volumes.PARTS
    )
    wrong = torch.from_numpy((mask != predicted).astype(np.float32))[None, None]
    # Opened: what is thinner than a voxel's neighbourhood is a border, not a mistake.
    eroded = -torch.nn.functional.max_pool3d(-wrong, 3, 1, 1)
    opened = torch.nn.functional.max_pool3d(eroded, 3, 1, 1)[0, 0].numpy() > 0
    false_positive, false_negative = opened & (predicted > 0), opened & (mask > 0)
    ranked = [
        np.argsort(-opened.sum(axis=tuple(axis for axis in range(3) if axis != view)))[:SLICES]
        for view in range(VIEWS)
    ]
    return {
        "ct": torch.from_numpy(np.asarray(ct, np.float32)),
        "pet": torch.from_numpy(np.asarray(pet, np.float32)),
        "masks": (false_positive, false_negative),
        "ranked": ranked,
    }


def sample(patient: dict[str, Any], view: int, rank: int) -> dict[str, torch.Tensor]:
    """The volumes, the two kinds of mistakes on one slice, and how far everything is from them."""
    at = int(patient["ranked"][view][rank])
    made = {"ct": patient["ct"], "pet": patient["pet"]}
    for name, mask in zip(("positive", "negative"), patient["masks"], strict=True):
        lines = np.zeros(mask.shape, np.uint8)
        cut: list[Any] = [slice(None)] * 3
        cut[view] = at
        lines[tuple(cut)] = scribble(mask[tuple(cut)])
        made[name] = torch.from_numpy(lines)
        made[f"{name}_map"] = torch.from_numpy(distances(lines))
    return made


def scribble(mask: np.ndarray) -> np.ndarray:
    """The middle lines of the largest spot, as somebody would draw them."""
    from scipy import ndimage
    from skimage.morphology import medial_axis

    spots, count = ndimage.label(mask)
    if count == 0:
        return mask.astype(np.uint8)
    largest = 1 + int(np.argmax(ndimage.sum_labels(mask, spots, np.arange(1, count + 1))))
    lines: np.ndarray = medial_axis(spots == largest).astype(np.uint8)
    return lines


def distances(lines: np.ndarray) -> np.ndarray:
    """A map that falls off with the distance from the lines."""
    from scipy import ndimage

    if not lines.any():
        return np.zeros(lines.shape, np.float32)
    away = ndimage.distance_transform_edt(lines == 0, sampling=SPACING)
    near: np.ndarray = np.exp(-0.5 * (away / max(1e-6, SIGMA * away.max() * 20)) ** 2)
    return near.astype(np.float32)


class Twin(Grouped):
    """The same pattern without files: 0.2 s for each of 4 groups, then 5 samples of (1, 128, 128, 128) f64."""

    WAIT_S, GROUP = 0.2, 5

    def __len__(self) -> int:
        return 4 * self.GROUP

    def __getitem__(self, index: int) -> torch.Tensor:
        self.group(index // self.GROUP, lambda: time.sleep(self.WAIT_S))
        return torch.full((1, 128, 128, 128), float(index), dtype=torch.float64)


def prepare(request: Request, told: Told) -> Prepared:
    """Write the patients if they are missing, and list them."""
    variant = variant_of(request, VARIANTS)
    if variant == "twin":
        return Prepared(sized(Twin(), request), variant)
    folder = (
        Path(request.data)
        if request.data
        else volumes.folder(request.cache_folder, request.scale, variant, told)
    )
    if not folder.is_dir():
        raise BadRequestError(f"there is no folder {folder}")
    patients = sorted(str(path) for path in folder.iterdir() if (path / "ct.nrrd").is_file())
    if not patients:
        raise BadRequestError(f"there are no patients (folders with ct.nrrd) in {folder}")
    return Prepared(sized(Patients(patients), request), variant)
