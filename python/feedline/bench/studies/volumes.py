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

#: The study with packed files, with plain ones, and without files; less the lines that somebody would draw; and
#: reading alone, a patient at a time.
VARIANTS = ("gzip", "raw", "twin", "maps", "read")
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

    def __init__(self, folders: list[str], draw: Callable[[np.ndarray], np.ndarray]) -> None:
        self.folders = folders
        self.draw = draw

    def __len__(self) -> int:
        return VIEWS * SLICES * len(self.folders)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        folder = self.folders[index // (VIEWS * SLICES)]
        patient = self.group(folder, lambda: load_patient(Path(folder)))
        view, rank = divmod(index % (VIEWS * SLICES), SLICES)
        return sample(patient, view, rank, self.draw)


class Reading:
    """Patients: their four files, as they are."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders

    def __len__(self) -> int:
        return len(self.folders)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {part: torch.from_numpy(volume) for part, volume in read(Path(self.folders[index])).items()}


def read(folder: Path) -> dict[str, np.ndarray]:
    """The four files of a patient."""
    import nrrd

    return {part: nrrd.read(str(folder / f"{part}.nrrd"), index_order="C")[0] for part in volumes.PARTS}


def load_patient(folder: Path) -> dict[str, Any]:
    """Read the four files, and find where mask and prediction differ."""
    ct, pet, mask, predicted = read(folder).values()
    wrong = torch.from_numpy((mask != predicted).astype(np.float32))[None, None]
    # Opened: what is thinner than a voxel's neighbourhood is a border, not a mistake.
    eroded = -torch.nn.functional.max_pool3d(-wrong, 3, 1, 1)
    opened = torch.nn.functional.max_pool3d(eroded, 3, 1, 1)[0, 0].numpy() > 0
    false_positive, false_negative = opened & (predicted > 0), opened & (mask > 0)
    return {
        "ct": torch.from_numpy(np.asarray(ct, np.float32)),
        "pet": torch.from_numpy(np.asarray(pet, np.float32)),
        "masks": (false_positive, false_negative),
        "ranked": ranked(opened),
    }


def ranked(mask: np.ndarray) -> np.ndarray:
    """For each view, the slices with most of a mask."""
    across = [tuple(axis for axis in range(3) if axis != view) for view in range(VIEWS)]
    return np.stack([np.argsort(-mask.sum(axis=axes))[:SLICES] for axes in across])


def sample(
    patient: dict[str, Any], view: int, rank: int, draw: Callable[[np.ndarray], np.ndarray]
) -> dict[str, torch.Tensor]:
    """The volumes, the two kinds of mistakes on one slice, and how far everything is from them."""
    at = int(patient["ranked"][view, rank])
    made = {"ct": patient["ct"], "pet": patient["pet"]}
    for name, mask in zip(("positive", "negative"), patient["masks"], strict=True):
        lines = on_slice(mask, view, at, draw)
        made[name] = torch.from_numpy(lines)
        made[f"{name}_map"] = torch.from_numpy(distances(lines))
    return made


def on_slice(mask: np.ndarray, view: int, at: int, draw: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """What is drawn of a mask on one slice; nothing on all others."""
    lines = np.zeros(mask.shape, np.uint8)
    cut: list[Any] = [slice(None)] * 3
    cut[view] = at
    lines[tuple(cut)] = draw(mask[tuple(cut)])
    return lines


def filled(mask: np.ndarray) -> np.ndarray:
    """All of it."""
    return mask.astype(np.uint8)


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
    near: np.ndarray = np.exp(-0.5 * (away / width(away)) ** 2)
    return near.astype(np.float32)


def width(away: np.ndarray) -> float:
    """How wide the halo is."""
    return max(1e-6, SIGMA * float(away.max()) * 20)


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
        else volumes.folder(request.cache_folder, request.scale, "raw" if variant == "raw" else "gzip", told)
    )
    if not folder.is_dir():
        raise BadRequestError(f"there is no folder {folder}")
    patients = sorted(str(path) for path in folder.iterdir() if (path / "ct.nrrd").is_file())
    if not patients:
        raise BadRequestError(f"there are no patients (folders with ct.nrrd) in {folder}")
    if variant == "read":
        return Prepared(sized(Reading(patients), request), variant, paths=patients)
    dataset = Patients(patients, filled if variant == "maps" else scribble)
    return Prepared(sized(dataset, request), variant, paths=patients)
