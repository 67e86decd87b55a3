"""Cases of medicine, several volumes each, made into samples by steps that run in Rust without the GIL.

>>> patients = Volumes.folder("patients", ct="ct.nrrd", mask="seg*.nii.gz")  # doctest: +SKIP
>>> patches = patients.window("ct", -160, 240).patches((96, 96, 96), per_case=4, label="mask")  # doctest: +SKIP
>>> batches = GroupBatches(patches.groups, batch_size=2)  # doctest: +SKIP
>>> for batch in feedline.DataLoader(patches, batch_sampler=batches, num_workers=8): ...  # doctest: +SKIP

    files ─► steps on the case ─► cache ─► cut: slices, patches, parts ─► steps on the sample

What comes before the cut is done once for a case and kept in a cache that all workers share. What comes after it,
or is random, is done for every sample.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from feedline import voxels
from feedline._demand import waits, works
from feedline._engine import Lent
from feedline.cache import SharedCache
from feedline.volumes import read_into as read
from feedline.voxels import Array

__all__ = ["Volumes"]

#: What is kept of cases that have several samples, unless it was said.
MAX_BYTES = 1 << 30

Spacing = tuple[float, float, float]


@dataclass(frozen=True)
class Case:
    """The volumes of a case, and how far apart their voxels are."""

    arrays: dict[str, Array]
    spacings: dict[str, Spacing | None]

    def array(self, name: str) -> Array:
        """One of them."""
        try:
            return self.arrays[name]
        except KeyError:
            raise ValueError(f"there is no volume {name!r}; there are {', '.join(self.arrays)}") from None

    def spacing(self, name: str) -> Spacing:
        """How far apart the voxels of one are."""
        found = self.spacings.get(name)
        if found is None:
            raise ValueError(f"the spacing of {name!r} is not known: its file does not say it for three axes")
        return found

    def having(self, name: str, array: Array, spacing: Spacing | None) -> Case:
        """With another volume, or one more."""
        return Case({**self.arrays, name: array}, {**self.spacings, name: spacing})


class Step:
    """What becomes of a case, or of a sample."""

    def __call__(self, case: Case) -> Case:
        """The case as it is afterwards."""
        raise NotImplementedError


@dataclass(frozen=True)
class On(Step):
    """A function of one volume, whose result is another of that name or of a new one."""

    function: Callable[..., Array]
    name: str
    to: str
    arguments: tuple[Any, ...]

    def __call__(self, case: Case) -> Case:
        made = self.function(case.array(self.name), *self.arguments)
        return case.having(self.to, made, case.spacings.get(self.name))


@dataclass(frozen=True)
class OnAll(Step):
    """A function of each volume."""

    function: Callable[..., Array]
    arguments: tuple[Any, ...]

    def __call__(self, case: Case) -> Case:
        made = {name: self.function(array, *self.arguments) for name, array in case.arrays.items()}
        return replace(case, arrays=made)


@dataclass(frozen=True)
class Resample(Step):
    """Other distances between voxels."""

    to: Spacing
    labels: tuple[str, ...]

    def __call__(self, case: Case) -> Case:
        for name in self.labels:
            case.array(name)
        for name, array in case.arrays.items():
            made = voxels.resample(array, case.spacing(name), self.to, 0 if name in self.labels else 1)
            case = case.having(name, made, self.to)
        return case


@dataclass(frozen=True)
class Distance(Step):
    """How far everything is from a mask, or a map that falls off with it."""

    name: str
    to: str
    sigma: float | None

    def __call__(self, case: Case) -> Case:
        mask, spacing = case.array(self.name), case.spacing(self.name)
        outside = np.logical_not(mask)
        if outside.all():
            # Of nothing, all is infinitely far.
            made = np.full(outside.shape, np.inf if self.sigma is None else 0, np.float32)
        else:
            made = voxels.distance(outside, spacing, np.float32)
            if self.sigma is not None:
                made = voxels.falloff(made, self.sigma)
        return case.having(self.to, made, spacing)


@dataclass(frozen=True)
class RandomFlip(Step):
    """All volumes alike, turned round along some axes."""

    probability: float
    axes: tuple[int, ...]

    def __call__(self, case: Case) -> Case:
        chosen = tuple(axis for axis in self.axes if random.random() < self.probability)
        if not chosen:
            return case
        made = {name: np.ascontiguousarray(np.flip(array, chosen)) for name, array in case.arrays.items()}
        return replace(case, arrays=made)


@dataclass(frozen=True)
class Select(Step):
    """Some of the volumes."""

    names: tuple[str, ...]

    def __call__(self, case: Case) -> Case:
        return replace(case, arrays={name: case.array(name) for name in self.names})


@dataclass(frozen=True)
class Map(Step):
    """A function of the user's."""

    function: Callable[[dict[str, Array]], dict[str, Array]]

    def __call__(self, case: Case) -> Case:
        return replace(case, arrays=dict(self.function(dict(case.arrays))))


@dataclass(frozen=True)
class Cut:
    """What makes several samples of a case."""

    parts: int

    def __call__(self, case: Case, part: int) -> Case:
        """One of them."""
        raise NotImplementedError


@dataclass(frozen=True)
class Slices(Cut):
    """Slices across an axis: those with most of a mask, or at equal distances."""

    axes: tuple[int, ...]
    count: int
    by: str | None

    def __call__(self, case: Case, part: int) -> Case:
        view, rank = divmod(part, self.count)
        axis = self.axes[view]
        shapes = {array.shape for array in case.arrays.values()}
        if len(shapes) > 1:
            raise ValueError(f"slices are of volumes of one shape, these have {', '.join(map(str, shapes))}")
        (shape,) = shapes
        if self.count > shape[axis]:
            raise ValueError(f"{self.count} slices across axis {axis}, of which there are {shape[axis]}")
        at = self._place(case, axis, rank, shape[axis])
        return replace(
            case, arrays={name: voxels.plane(array, axis, at) for name, array in case.arrays.items()}
        )

    def _place(self, case: Case, axis: int, rank: int, extent: int) -> int:
        if self.by is None:
            return (2 * rank + 1) * extent // (2 * self.count)
        others = tuple(other for other in range(3) if other != axis)
        counts = np.count_nonzero(case.array(self.by), axis=others)
        return int(np.argsort(-counts, kind="stable")[rank])


@dataclass(frozen=True)
class Patches(Cut):
    """Random parts of one size, some of them around a voxel of a label."""

    size: tuple[int, int, int]
    label: str | None
    value: int
    probability: float

    def __call__(self, case: Case, part: int) -> Case:
        seed, probability = random.getrandbits(63), self.probability
        name = self.label
        if name is None:
            name, probability = next(iter(case.arrays)), 0.0
        where = voxels.patch(case.array(name), self.size, self.value, probability, seed=seed, index=part)
        shape = case.array(name).shape
        for other, array in case.arrays.items():
            if array.shape != shape:
                raise ValueError(
                    f"{other!r} has the shape {array.shape}, and {name!r} {shape}: resample them"
                )
        return replace(case, arrays={name: array[where] for name, array in case.arrays.items()})


@dataclass(frozen=True)
class Parts(Cut):
    """By a function of the user's."""

    function: Callable[[dict[str, Array], int], dict[str, Array]]

    def __call__(self, case: Case, part: int) -> Case:
        return replace(case, arrays=dict(self.function(dict(case.arrays), part)))


class Volumes:
    """Cases of several volumes each, and the steps that make samples of them.

    ``[index]`` gives a dict of arrays by name: z, y, x, the slowest axis first. Numbers keep the type that they have
    in the file, unless it is NIfTI with a slope or an intercept, whose values are f64. Under `feedline.DataLoader`,
    threads make batches: all steps run in Rust without the GIL. Functions of the user's run in the same threads; if
    they are slow Python, ``native="off"`` gives them processes. Every step gives a new object, and leaves the old one
    as it was.

    Args:
        cases: for each case, the files of its volumes by name: NRRD or NIfTI.
        allow_outside: whether an NRRD header may name a file with its numbers that is not in its folder.
    """

    def __init__(
        self, cases: Iterable[Mapping[str, str | os.PathLike[str]]], *, allow_outside: bool = False
    ) -> None:
        """List the files of all cases."""
        self.cases = [{name: os.fspath(path) for name, path in case.items()} for case in cases]
        self.allow_outside = allow_outside
        for number, case in enumerate(self.cases):
            if set(case) != set(self.cases[0]) or not case:
                first = ", ".join(self.cases[0]) or "nothing"
                raise ValueError(f"case {number} has {', '.join(case) or 'nothing'}, the first {first}")
        self._before: tuple[Step, ...] = ()
        self._cut: Cut | None = None
        self._after: tuple[Step, ...] = ()
        self._cache: SharedCache | None = None

    @classmethod
    def folder(cls, root: str | os.PathLike[str], *, allow_outside: bool = False, **patterns: str) -> Self:
        """A folder with one folder for each case.

        Args:
            root: the folder.
            allow_outside: as above.
            patterns: what the files of each volume are called, with ``*`` for what differs from case to case.
        """
        if not patterns:
            raise ValueError("say what the files are called, for example ct='ct.nrrd'")
        folders = sorted(path for path in Path(root).iterdir() if path.is_dir())
        if not folders:
            raise FileNotFoundError(f"there are no folders in {os.fspath(root)}, one for each case")
        cases = [{name: _only(folder, wanted) for name, wanted in patterns.items()} for folder in folders]
        return cls(cases, allow_outside=allow_outside)

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.cases) * self._parts

    @property
    def _parts(self) -> int:
        return 1 if self._cut is None else self._cut.parts

    @property
    def groups(self) -> list[int]:
        """The number of the case that each sample is of, for `feedline.GroupBatches`."""
        return [case for case in range(len(self.cases)) for _ in range(self._parts)]

    def __getitem__(self, index: int) -> dict[str, Array]:
        """A sample."""
        return self._make(index, {})

    def make_in(self, index: int, row: Sequence[Lent]) -> dict[str, Array]:
        """A sample whose volumes, those that are as they were read, lie in a row that is lent for it."""
        names = self._names_as_read()
        lent = {name: place for name, place in zip(names, row, strict=False) if name is not None}
        return self._make(index, lent if len(names) == len(row) else {})

    def _names_as_read(self) -> list[str | None]:
        """The names of a sample's volumes, in their order; ``None`` in place of one that steps have made.

        There are none of which steps keep something, or which functions of the user's see: those may, too.
        """
        if self._cut is not None or self._cache is not None or not self.cases:
            return []
        names: dict[str, str | None] = {name: name for name in self.cases[0]}
        for step in self._before:
            if isinstance(step, Select):
                names = {name: names[name] for name in step.names if name in names}
            elif isinstance(step, On | Distance):
                names[step.to] = None
            else:
                return []
        return list(names.values())

    def _make(self, index: int, lent: Mapping[str, Lent]) -> dict[str, Array]:
        number, part = divmod(range(len(self))[index], self._parts)
        case = self._load(number, lent) if lent else self.case(number)
        if self._cut is not None:
            case = self._named(number, lambda: self._cut(case, part))  # type: ignore[misc]
        for step in self._after:
            case = self._named(number, lambda case=case, step=step: step(case))  # type: ignore[misc]
        return case.arrays

    def case(self, number: int) -> Case:
        """A case before it is cut."""
        number = range(len(self.cases))[number]
        if self._cache is None:
            return self._load(number)

        def load() -> tuple[dict[str, Array], dict[str, Spacing | None]]:
            works()
            return _pair(self._load(number))

        waits()
        try:
            arrays, spacings = self._cache.get(number, load)
        finally:
            works()
        return Case(arrays, spacings)

    def _load(self, number: int, lent: Mapping[str, Lent] | None = None) -> Case:
        places = lent or {}
        arrays: dict[str, Array] = {}
        spacings: dict[str, Spacing | None] = {}
        for name, path in self.cases[number].items():
            place = places.get(name)
            volume = read(path, scaled=False, allow_outside=self.allow_outside, into=place)
            if _stands_for_others(volume.header):
                volume = read(path, allow_outside=self.allow_outside, into=place)
            arrays[name] = volume.array
            known = tuple(spacing for spacing in volume.spacing if spacing is not None)
            spacings[name] = (known[0], known[1], known[2]) if len(known) == volume.array.ndim == 3 else None
        case = Case(arrays, spacings)
        for step in self._before:
            case = self._named(number, lambda case=case, step=step: step(case))  # type: ignore[misc]
        return case

    def _named(self, number: int, do: Callable[[], Case]) -> Case:
        """Do a step; what goes wrong is said with the case it went wrong in."""
        try:
            return do()
        except (ValueError, TypeError) as error:
            path = next(iter(self.cases[number].values()))
            error.add_note(f"in case {number}, whose first file is {path}")
            raise

    def _then(self, step: Step) -> Self:
        new = copy(self)
        if self._cut is None:
            new._before = (*self._before, step)
            new._cache = None if self._cache is None else SharedCache(self._cache.max_bytes)
        else:
            new._after = (*self._after, step)
        return new

    def _into(self, cut: Cut) -> Self:
        if self._cut is not None:
            raise ValueError("cases are cut into samples once")
        if cut.parts < 1:
            raise ValueError(f"{cut.parts} samples of a case: there should be at least 1")
        new = copy(self)
        new._cut = cut
        if new._cache is None and cut.parts > 1:
            new._cache = SharedCache(MAX_BYTES)
        return new

    def __repr__(self) -> str:
        """The cases and the steps."""
        steps = [*self._before, *([self._cut] if self._cut else []), *self._after]
        return f"Volumes({len(self.cases)} cases){''.join(f'.{step}' for step in steps)}"

    # Steps

    def window(self, name: str, low: float, high: float, zscore: bool = False) -> Self:
        """The values that matter, as `feedline.voxels.window`."""
        return self._then(On(voxels.window, name, name, (low, high, zscore)))

    def resample(self, spacing: Sequence[float], labels: Iterable[str] = ()) -> Self:
        """Other distances between voxels, along z, y, x; of labels, the nearest value."""
        first, second, third = (float(one) for one in spacing)
        return self._then(Resample((first, second, third), tuple(labels)))

    def crop_or_pad(self, shape: Sequence[int], fill: float = 0) -> Self:
        """All volumes of one shape, around their middle."""
        return self._then(OnAll(voxels.crop_or_pad, (tuple(shape), fill)))

    def label(self, name: str, values: int | Iterable[int], to: str | None = None) -> Self:
        """The mask of one label, or of several."""
        wanted = values if isinstance(values, int) else tuple(values)
        return self._then(On(voxels.label, name, to or name, (wanted,)))

    def erode(self, name: str, iterations: int = 1, to: str | None = None) -> Self:
        """A mask without its border."""
        return self._then(On(voxels.erode, name, to or name, (iterations,)))

    def dilate(self, name: str, iterations: int = 1, to: str | None = None) -> Self:
        """A mask and what is around it."""
        return self._then(On(voxels.dilate, name, to or name, (iterations,)))

    def opened(self, name: str, iterations: int = 1, to: str | None = None) -> Self:
        """A mask without what is thin."""
        return self._then(On(voxels.opened, name, to or name, (iterations,)))

    def gaussian(self, name: str, sigma: float | Sequence[float], to: str | None = None) -> Self:
        """A blur; sigma is in voxels."""
        return self._then(On(voxels.gaussian, name, to or name, (sigma,)))

    def distance(self, name: str, to: str, sigma: float | None = None) -> Self:
        """How far everything is from a mask, by the spacing of its file.

        Args:
            name: the mask.
            to: what the map is called.
            sigma: if given, not the distance, but what falls off with it like a bell this wide.
        """
        return self._then(Distance(name, to, sigma))

    def random_flip(self, p: float = 0.5, axes: Iterable[int] = (0, 1, 2)) -> Self:
        """Turned round, with a probability for each axis; all volumes of a sample alike."""
        if self._cut is None:
            raise ValueError("what is random comes after slices, patches or parts: before, it would be kept")
        return self._then(RandomFlip(p, tuple(axes)))

    def select(self, *names: str) -> Self:
        """Some of the volumes; a sample has no others."""
        return self._then(Select(names))

    def map(self, function: Callable[[dict[str, Array]], dict[str, Array]]) -> Self:
        """Any function of the volumes, which must not write to them."""
        return self._then(Map(function))

    # What makes samples of cases

    def slices(self, axis: int | Iterable[int], count: int, by: str | None = None) -> Self:
        """So many slices across an axis, or across each of several.

        Args:
            axis: which.
            count: how many of each case.
            by: those with most of this mask, that with most first; without it, at equal distances.
        """
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        if any(not 0 <= one < 3 for one in axes):
            raise ValueError(f"slices across {axes}: there are the axes 0, 1 and 2")
        return self._into(Slices(len(axes) * count, axes, count, by))

    def patches(
        self,
        size: Sequence[int],
        per_case: int = 1,
        label: str | None = None,
        value: int = 1,
        probability: float = 0.5,
    ) -> Self:
        """Random parts of one size, others in every epoch.

        Args:
            size: along z, y, x; no larger than the volumes.
            per_case: how many of each case.
            label: a volume of labels; with the probability, a voxel of the value is in the middle.
            value: the label.
            probability: how often.
        """
        first, second, third = (int(one) for one in size)
        return self._into(Patches(per_case, (first, second, third), label, value, probability))

    def parts(self, per_case: int, function: Callable[[dict[str, Array], int], dict[str, Array]]) -> Self:
        """By any function of the volumes, which it must not write to, and the number of the part."""
        return self._into(Parts(per_case, function))

    def cache(self, max_bytes: int) -> Self:
        """Keep cases as they are before they are cut, up to so many bytes; 1 GiB unless it is said.

        With `feedline.GroupBatches` each case is loaded once in an epoch if there is room for those that the batches
        under way are of, at most ``prefetch_factor`` for each worker, and for one more that each worker still holds.
        """
        new = copy(self)
        new._cache = SharedCache(max_bytes)
        return new


def maker(dataset: Any) -> Callable[[int, Sequence[Lent]], dict[str, Array]] | None:
    """What makes samples in rows that are lent; nothing, if they are not volumes or would not lie there."""
    from torch.utils.data import Subset

    if type(dataset) is Subset:
        make, indices = maker(dataset.dataset), dataset.indices
        return None if make is None else lambda index, row: make(indices[index], row)
    # A class of the user's may do anything to its samples.
    if type(dataset) is Volumes and any(dataset._names_as_read()):
        return dataset.make_in
    return None


def unlike(dataset: Any, indices: Sequence[int], samples: Sequence[Any]) -> str:
    """Which files of volumes have other shapes than the first of their batch, in words; nothing, if none have."""
    from torch.utils.data import Subset

    while type(dataset) is Subset:
        dataset, indices = dataset.dataset, [dataset.indices[index] for index in indices]
    if not isinstance(dataset, Volumes):
        return ""

    def said(name: str, at: int) -> str:
        files = dataset.cases[indices[at] // dataset._parts]
        return f"{samples[at][name].shape} in {files.get(name, next(iter(files.values())))}"

    for at, sample in enumerate(samples):
        for name, array in sample.items():
            if name in samples[0] and np.shape(array) != np.shape(samples[0][name]):
                how = "bring them to one with crop_or_pad, cut patches, or make batches of 1"
                return f"the shape of {name!r} is {said(name, 0)}, but {said(name, at)}: {how}"
    return ""


def _stands_for_others(header: Mapping[str, str]) -> bool:
    """Whether the numbers of a NIfTI file are not yet its values."""
    slope, intercept = float(header.get("scl_slope", 1)), float(header.get("scl_inter", 0))
    return np.isfinite(slope) and slope != 0 and (slope, intercept) != (1, 0)


def _pair(case: Case) -> tuple[dict[str, Array], dict[str, Spacing | None]]:
    return case.arrays, case.spacings


def _only(folder: Path, pattern: str) -> str:
    """The one file that is meant."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        what = ", ".join(path.name for path in found) or "there is none"
        raise ValueError(f"{pattern!r} should be one file in {folder}: {what}")
    return str(found[0])
