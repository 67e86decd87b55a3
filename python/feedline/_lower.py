"""Lowering: an unchanged torchvision dataset, run as a native pipeline if all of its steps are known.

What is known is looked up by the exact class of each step, so that a subclass with another opinion is left to Python.
A sample that the native pipeline cannot make (a rare format, a damaged file) is made by the dataset itself: its
results, its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import ConcatDataset, Subset

from feedline._engine import FileRows
from feedline.files import NativeDataset


class UnknownError(Exception):
    """A dataset that is left to Python, and why."""


class ForeignError(UnknownError):
    """One of which nobody would expect anything else."""


@dataclass
class Native:
    """Samples that are made without Python."""

    files: FileRows
    #: What a sample looks like.
    prototype: tuple[torch.Tensor, Any]

    @classmethod
    def of(cls, files: FileRows) -> Native:
        """With a sample that is like all others."""
        image = torch.empty(files.shape, dtype=getattr(torch, files.dtype))
        return cls(files, (image, 0 if files.classes is None else torch.empty(files.classes)))

    def get(self, index: int, seed: int, epoch: int) -> tuple[torch.Tensor, Any]:
        """One sample."""
        row = torch.frombuffer(self.files.read(index, seed, epoch), dtype=self.prototype[0].dtype)
        label: Any = self.files.label(index)
        if self.files.classes is not None:
            label = torch.nn.functional.one_hot(torch.tensor(label), self.files.classes).float()
        return row.view(self.files.shape), label


@dataclass
class Lowered:
    """A dataset without Python, and what it was made of."""

    native: Native
    #: Compared by identity, and kept so that nothing else can have their place.
    parts: list[Any]
    steps: list[tuple[Any, ...]]


def lower(dataset: Any, before: Lowered | None = None, obstacle: str = "") -> Lowered:
    """A dataset without Python; UnknownError if it cannot be. The one from before, if nothing has changed.

    An obstacle is what else stands in the way; it is told if the dataset itself would have been known.
    """
    if isinstance(dataset, NativeDataset):
        if obstacle:
            raise UnknownError(obstacle)
        engine = dataset._engine
        if before is not None and before.native.files is engine:
            return before
        return Lowered(Native.of(engine), [], [])
    listed = _files(dataset)
    if obstacle:
        raise UnknownError(obstacle)
    if before is not None and before.steps == listed.steps and _are_same(before.parts, listed.parts):
        return before
    try:
        files = FileRows.images(*listed.files(), listed.steps)
    except (ValueError, TypeError, OverflowError) as error:
        raise UnknownError(str(error)) from None
    return Lowered(Native.of(files), listed.parts, listed.steps)


def _are_same(parts: list[Any], others: list[Any]) -> bool:
    same = (
        one is other or (type(one) is int and one == other) for one, other in zip(parts, others, strict=False)
    )
    return len(parts) == len(others) and all(same)


@dataclass
class Listed:
    """What a dataset is made of: what becomes of its files, and how to list them, which takes longer."""

    steps: list[tuple[Any, ...]]
    parts: list[Any]
    files: Callable[[], tuple[list[str], list[int]]]


def _files(dataset: Any) -> Listed:
    if type(dataset) is Subset:
        return _subset(dataset)
    if type(dataset) is ConcatDataset:
        return _concatenated(dataset)
    samples, targets, steps = _samples(dataset), dataset.target_transform, _steps(dataset.transform)

    def files() -> tuple[list[str], list[int]]:
        return [str(path) for path, _ in samples], _labels([label for _, label in samples], targets)

    return Listed(steps, [samples, len(samples), targets], files)


def _subset(dataset: Subset[Any]) -> Listed:
    whole, indices = _files(dataset.dataset), dataset.indices

    def files() -> tuple[list[str], list[int]]:
        paths, labels = whole.files()
        try:
            chosen = [int(one) for one in indices]
            return [paths[one] for one in chosen], [labels[one] for one in chosen]
        except (TypeError, ValueError, IndexError):
            raise UnknownError("a Subset has indices that are not those of its dataset") from None

    return Listed(whole.steps, [*whole.parts, indices, len(indices)], files)


def _concatenated(dataset: ConcatDataset[Any]) -> Listed:
    listed = [_files(part) for part in dataset.datasets]
    if any(part.steps != listed[0].steps for part in listed):
        raise UnknownError("the parts of a ConcatDataset have different transforms")

    def files() -> tuple[list[str], list[int]]:
        both = [part.files() for part in listed]
        return [path for paths, _ in both for path in paths], [
            label for _, labels in both for label in labels
        ]

    return Listed(listed[0].steps, [part for one in listed for part in one.parts], files)


def _samples(dataset: Any) -> list[tuple[str, Any]]:
    """The files of a torchvision dataset."""
    import sys

    # If it is one of theirs, it has been imported.
    folders = sys.modules.get("torchvision.datasets.folder")
    if folders is None:
        raise ForeignError(f"{type(dataset).__name__} is not a dataset of torchvision")
    import torchvision
    from torchvision.datasets import Imagenette

    if torchvision.get_image_backend() != "PIL":
        raise UnknownError("torchvision has another image backend than Pillow")
    cls = type(dataset)
    if getattr(cls, "__getitem__", None) is folders.DatasetFolder.__getitem__:
        if dataset.loader not in (folders.default_loader, folders.pil_loader):
            raise UnknownError("the dataset has a loader of its own")
        return dataset.samples
    if cls is Imagenette:
        if dataset.loader is not folders.default_loader:
            raise UnknownError("the dataset has a loader of its own")
        return dataset._samples
    raise ForeignError(f"{cls.__name__} is not a dataset that is known")


def _labels(labels: list[Any], target_transform: Callable[[Any], Any] | None) -> list[int]:
    if target_transform is not None:
        # Classes are few. A function that gives the same twice is taken to be one.
        try:
            seen = {label: (target_transform(label), target_transform(label)) for label in set(labels)}
            same = all(type(one) is int and one == other for one, other in seen.values())
        except Exception:
            same = False
        if not same:
            raise UnknownError("target_transform does not give one whole number for each class")
        labels = [seen[label][0] for label in labels]
    if not all(type(label) is int for label in labels):
        raise UnknownError("labels are not whole numbers")
    return labels


def _steps(transform: Any) -> list[tuple[Any, ...]]:
    recipe = Recipe()
    for step in _flat(transform):
        recipe.add(step)
    if recipe.stage == "pil":
        raise UnknownError("samples are Pillow's images, not tensors")
    return recipe.steps


def _flat(transform: Any) -> Iterator[Any]:
    """The steps of a transform, those of compositions one after the other."""
    from torchvision.transforms import Compose, v2

    if transform is None:
        return
    if type(transform) in (Compose, v2.Compose):
        for step in transform.transforms:
            yield from _flat(step)
    elif type(transform) is torch.nn.Sequential:
        for step in transform:
            yield from _flat(step)
    else:
        yield transform


class Recipe:
    """Steps of torchvision, translated one after the other."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, ...]] = []
        #: What the image is: Pillow's, bytes in a tensor, floats in a tensor.
        self.stage = "pil"

    def add(self, step: Any) -> None:
        """Translate a step, or say that it is not known."""
        module = type(step).__module__
        name = type(step).__name__
        translate = _KNOWN.get(name)
        if translate is None or not module.startswith("torchvision.transforms"):
            raise UnknownError(f"the transform {name} is not known")
        translate(self, step)

    def _then(self, *step: Any) -> None:
        if self.stage == "float":
            raise UnknownError(f"there is a {step[0]} of floats")
        self.steps.append(step)

    def _like(self, step: Any) -> tuple[str, str]:
        """How a size is changed, and like whom."""
        interpolation = _interpolation(step.interpolation)
        if interpolation not in ("nearest", "bilinear", "bicubic"):
            raise UnknownError(f"interpolation {interpolation!r} is not known")
        if self.stage == "pil":
            return interpolation, _pillow()
        if not type(step).__module__.startswith("torchvision.transforms.v2"):
            raise UnknownError("torchvision's first version resizes tensors as floats")
        if interpolation != "nearest" and step.antialias is not True:
            raise UnknownError("a tensor is resized without antialias")
        return interpolation, "torchvision"

    def _resize(self, step: Any) -> None:
        size = step.size
        if size is None:
            raise UnknownError("a resize without a size")
        if isinstance(size, int) or len(size) == 1:
            side = size if isinstance(size, int) else size[0]
            self._then("resize_short", side, step.max_size, *self._like(step))
        else:
            self._then("resize_to", size[1], size[0], *self._like(step))

    def _center_crop(self, step: Any) -> None:
        self._then("centre_crop", step.size[1], step.size[0])

    def _random_crop(self, step: Any) -> None:
        if getattr(step, "padding_mode", "constant") != "constant":
            raise UnknownError(f"padding_mode {step.padding_mode!r} is not known")
        sides = None if step.padding is None else _padding(step.padding)
        arguments = sides, _fill(step.fill), bool(step.pad_if_needed)
        self._then("random_crop", step.size[1], step.size[0], *arguments)

    def _random_resized_crop(self, step: Any) -> None:
        ranges = tuple(map(float, step.scale)), tuple(map(float, step.ratio))
        self._then("random_resized_crop", step.size[1], step.size[0], *ranges, *self._like(step))

    def _random_horizontal_flip(self, step: Any) -> None:
        self._then("mirror", float(step.p))

    def _random_vertical_flip(self, step: Any) -> None:
        self._then("flip", float(step.p))

    def _pad(self, step: Any) -> None:
        if step.padding_mode != "constant":
            raise UnknownError(f"padding_mode {step.padding_mode!r} is not known")
        self._then("pad", _padding(step.padding), _fill(step.fill))

    def _grayscale(self, step: Any) -> None:
        like = _pillow() if self.stage == "pil" else "torchvision"
        self._then("grayscale", step.num_output_channels, 1.0, like)

    def _random_grayscale(self, step: Any) -> None:
        like = _pillow() if self.stage == "pil" else "torchvision"
        self._then("grayscale", 3, float(step.p), like)

    def _color_jitter(self, step: Any) -> None:
        if self.stage != "pil":
            raise UnknownError("the colours of a tensor are jittered")
        ranges = (step.brightness, step.contrast, step.saturation, step.hue)
        self._then("colour_jitter", *(None if one is None else tuple(map(float, one)) for one in ranges))

    def _to_tensor(self, step: Any) -> None:
        if self.stage != "pil" or torch.get_default_dtype() is not torch.float32:
            raise UnknownError("ToTensor of a tensor, or to another type than float32")
        self._then("float", "divided")
        self.stage = "float"

    def _pil_to_tensor(self, step: Any) -> None:
        if self.stage != "pil":
            raise UnknownError("PILToTensor of a tensor")
        self.stage = "bytes"

    def _to_image(self, step: Any) -> None:
        if self.stage == "pil":
            self.stage = "bytes"

    def _to_pure_tensor(self, step: Any) -> None:
        """It changes nothing that a batch would show."""

    def _convert_image_dtype(self, step: Any) -> None:
        # Torchvision's first version divides, its second multiplies.
        divides = type(step).__module__ == "torchvision.transforms.transforms"
        self._to_float(step.dtype, "divided" if divides else "multiplied")

    def _to_dtype(self, step: Any) -> None:
        dtype = step.dtype
        if isinstance(dtype, dict):
            raise UnknownError("ToDtype with several types")
        self._to_float(dtype, "multiplied" if step.scale else "not")

    def _to_float(self, dtype: Any, scale: str) -> None:
        if dtype is torch.uint8 and self.stage == "bytes":
            return
        if dtype is torch.float32 and self.stage == "float":
            return
        if self.stage != "bytes" or dtype is not torch.float32:
            raise UnknownError(f"a conversion to {dtype} is not known here")
        self._then("float", scale)
        self.stage = "float"

    def _normalize(self, step: Any) -> None:
        if self.stage != "float":
            raise UnknownError("bytes are normalised")
        both = (
            [float(one)] if isinstance(one, (int, float)) else [float(value) for value in one]
            for one in (step.mean, step.std)
        )
        self.steps.append(("normalise", *both))


#: Torchvision's classes of both versions, by their names.
_KNOWN: dict[str, Callable[[Recipe, Any], None]] = {
    "Resize": Recipe._resize,
    "CenterCrop": Recipe._center_crop,
    "RandomCrop": Recipe._random_crop,
    "RandomResizedCrop": Recipe._random_resized_crop,
    "RandomHorizontalFlip": Recipe._random_horizontal_flip,
    "RandomVerticalFlip": Recipe._random_vertical_flip,
    "Pad": Recipe._pad,
    "Grayscale": Recipe._grayscale,
    "RandomGrayscale": Recipe._random_grayscale,
    "ColorJitter": Recipe._color_jitter,
    "ToTensor": Recipe._to_tensor,
    "PILToTensor": Recipe._pil_to_tensor,
    "ToImage": Recipe._to_image,
    "ToPureTensor": Recipe._to_pure_tensor,
    "ConvertImageDtype": Recipe._convert_image_dtype,
    "ToDtype": Recipe._to_dtype,
    "Normalize": Recipe._normalize,
}


def _interpolation(given: Any) -> str:
    from torchvision.transforms import InterpolationMode

    # Version 2 also takes Pillow's numbers.
    by_number = {0: InterpolationMode.NEAREST, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC}
    mode = by_number.get(given) if isinstance(given, int) else given
    return str(getattr(mode, "value", given))


def _pillow() -> str:
    """Pillow as it is installed: what it makes of some sizes has changed."""
    import PIL

    return "pillow" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow < 13"


def _padding(padding: Any) -> list[int]:
    sides = [padding] if isinstance(padding, int) else [int(one) for one in padding]
    if len(sides) not in (1, 2, 4):
        raise UnknownError("a border of an unknown kind")
    return sides if len(sides) == 4 else sides * (4 // len(sides))


def _fill(fill: Any) -> list[int]:
    if isinstance(fill, dict):
        # Version 2 keeps one for each type of input.
        fill = set(map(repr, fill.values())) == {"0"} and 0
    colours = [fill] if isinstance(fill, int) else list(fill) if isinstance(fill, (list, tuple)) else []
    if len(colours) not in (1, 3) or not all(isinstance(one, int) and 0 <= one <= 255 for one in colours):
        raise UnknownError("a fill of an unknown kind")
    return colours * (3 // len(colours))
