"""Images and tensors in files, made into batches in Rust: no Python for a sample, no GIL, no worker processes.

>>> images = ImageFolder("imagenette/train").resize(256).center_crop(224).normalize(MEAN, STD)  # doctest: +SKIP
>>> for x, y in feedline.DataLoader(images, batch_size=64, shuffle=True, num_workers=8): ...  # doctest: +SKIP

Sizes are (height, width) or one number for both, as torchvision has them. Results are Pillow's and torchvision's to
the bit where nothing is random.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, NoReturn, Self

from feedline import _engine

Step = tuple[Any, ...]
#: A file, or the bytes of one.
Place = str | os.PathLike[str] | bytes
Size = int | Sequence[int]
Range = tuple[float, float]


class NativeDataset:
    """Files that become samples of one shape, each with a label.

    ``[index]`` gives an array and its label; under `feedline.DataLoader`, threads make whole batches.
    """

    #: The names of the classes, where they have some, and the label of each.
    classes: list[str]
    class_to_idx: dict[str, int]

    def __init__(self, paths: Iterable[Place], labels: Iterable[int] | None) -> None:
        """List files, and labels if there are any."""
        self.paths: list[Any] = [os.fspath(path) for path in paths]
        self.num_classes: int | None = None
        self.targets = [0] * len(self.paths) if labels is None else [int(label) for label in labels]
        if len(self.targets) != len(self.paths):
            raise ValueError(
                f"there are {len(self.targets)} labels for {len(self.paths)} files; give one for each"
            )

    @classmethod
    def table(
        cls,
        table: str | os.PathLike[str],
        path: str = "path",
        label: str | None = "label",
        delimiter: str | None = None,
        **options: Any,
    ) -> Self:
        """Files listed in a table, a CSV or TSV file whose first line has the names of its columns.

        Args:
            table: the file. Paths in it that are relative begin in its folder.
            path: the column of paths.
            label: the column of labels: whole numbers, or names, which are sorted and become `classes`; ``None`` if
                there are none.
            delimiter: what stands between columns, if it is not a tab in a ``.tsv`` file and a comma in others.
            options: the other arguments of this class.
        """
        classes, paths, labels = _engine.list_table(os.fspath(table), path, label, delimiter)
        new = cls(paths, labels if label is not None else None, **options)
        if classes:
            new.classes, new.class_to_idx = classes, numbered(classes)
        return new

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """The array of a file, and its label."""
        import numpy as np

        index = range(len(self))[index]
        # Random steps are as random as the program is: seeded if ``random`` is.
        seed = random.getrandbits(63) if self._engine.is_random else 0
        row = np.frombuffer(self._engine.read(index, seed, 0), dtype=self._engine.dtype)
        label: Any = self.targets[index]
        if self.num_classes is not None:
            label = (np.arange(self.num_classes) == label).astype(np.float32)
        return row.reshape(self._engine.shape), label

    def one_hot(self, num_classes: int) -> Self:
        """Labels as rows of ``float32``: 1 at the class, 0 elsewhere."""
        if any(not 0 <= label < num_classes for label in self.targets):
            raise ValueError(
                f"there are labels that are not one of {num_classes} classes, which count from 0"
            )
        new = copy(self)
        new.num_classes = num_classes
        return new

    def __copy__(self) -> Self:
        """The same files; its own steps."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__getstate__())
        return new

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of a sample."""
        return self._engine.shape

    @property
    def dtype(self) -> str:
        """The type of its numbers, by numpy's name."""
        return self._engine.dtype

    @cached_property
    def _engine(self) -> _engine.FileRows:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """All but what is made anew."""
        return {name: value for name, value in self.__dict__.items() if name != "_engine"}


class Stepwise(NativeDataset):
    """Files and the steps that make samples of them.

    Every step gives a new object, and leaves the old one as it was.
    """

    def __init__(self, paths: Iterable[Place], labels: Iterable[int] | None = None) -> None:
        """List files, and labels if there are any."""
        super().__init__(paths, labels)
        self._steps: tuple[Step, ...] = ()

    def _then(self, *step: Any) -> Self:
        new = copy(self)
        new._steps = (*self._steps, step)
        return new

    def __repr__(self) -> str:
        """The files and the steps."""
        steps = "".join(f".{name}({', '.join(map(repr, arguments))})" for name, *arguments in self._steps)
        return f"{type(self).__name__}({len(self)} files){steps}"


class Tensors(NativeDataset):
    """Arrays in files (``.npy``, ``.npz``, ``.pt``, safetensors), all of one type and shape.

    Nothing in a file is executed: of a ``.pt`` file, the tensors are read, and nothing else.

    Args:
        paths: the files, or the ``bytes`` of all of them.
        labels: a whole number for each file; 0 for all if there are none.
        key: which array, in files that have several.
    """

    def __init__(
        self,
        paths: Iterable[Place],
        labels: Iterable[int] | None = None,
        key: str | None = None,
    ) -> None:
        """List files, and labels if there are any."""
        super().__init__(paths, labels)
        self.key = key

    @cached_property
    def _engine(self) -> _engine.FileRows:
        return _engine.FileRows.tensors(self.paths, self.targets, self.key, self.num_classes)

    def __repr__(self) -> str:
        """How many there are."""
        return f"Tensors({len(self)} files)"


class Files(Stepwise):
    """Images in files, with labels if there are any, and the steps that make rows of them.

    An image is channels, height, width, unless channels are last; steps that do not fit are refused when that is
    asked for, before the first sample.

    Args:
        paths: the files, or the ``bytes`` of all of them.
        labels: a whole number for each file; 0 for all if there are none.
        decode: ``"exact"``, or ``"fast"``: a JPEG that is at least twice as large as what is made of it is decoded at
            a half, a quarter or an eighth of its size. Pixels of photographs then differ by 1 to 3 of 255 on average.
    """

    def __init__(
        self, paths: Iterable[Place], labels: Iterable[int] | None = None, decode: str = "exact"
    ) -> None:
        """List files, and labels if there are any."""
        super().__init__(paths, labels)
        if decode not in ("exact", "fast"):
            raise ValueError(f"decode={decode!r}: there are 'exact' and 'fast'")
        if decode == "fast":
            self._steps = (("fast",),)

    @cached_property
    def _engine(self) -> _engine.FileRows:
        return _engine.FileRows.images(self.paths, self.targets, list(self._steps), self.num_classes)

    def _then(self, *step: Any) -> Self:
        if any(one[0] == "cast" for one in self._steps) and step[0] != "channels_last":
            raise ValueError(f"{step[0]} belongs before cast, which rounds once, in the end")
        if self._is_float and step[0] not in ("normalise", "cast", "channels_last"):
            raise ValueError(f"{step[0]} changes pixels: it belongs before to_float and normalize")
        return super()._then(*step)

    @property
    def _is_float(self) -> bool:
        return any(step[0] == "float" for step in self._steps)

    def exif_transpose(self) -> Self:
        """Upright, if the file says how the camera was held. It comes first."""
        return self._then("upright")

    def resize(
        self, size: Size, interpolation: str = "bilinear", max_size: int | None = None, like: str = "pillow"
    ) -> Self:
        """Another size: the shorter side to a number, or (height, width).

        Args:
            size: the length of the shorter side, or (height, width).
            interpolation: ``"bilinear"``, ``"bicubic"`` or ``"nearest"``.
            max_size: the longest that the longer side may get.
            like: the same to the bit as ``"pillow"``, as ``"pillow < 13"``, or as ``"torchvision"`` resizes tensors.
        """
        if isinstance(size, int):
            return self._then("resize_short", size, max_size, interpolation, like)
        if max_size is not None:
            raise ValueError("max_size is for a size of one number: the longer side is given already")
        height, width = both(size)
        return self._then("resize_to", width, height, interpolation, like)

    def center_crop(self, size: Size) -> Self:
        """The middle; what is smaller gets a black border."""
        height, width = both(size)
        return self._then("centre_crop", width, height)

    def random_crop(
        self, size: Size, padding: Size | None = None, pad_if_needed: bool = False, fill: Size = 0
    ) -> Self:
        """A part from anywhere, after a border was put around it if one is asked for."""
        height, width = both(size)
        sides = None if padding is None else _sides(padding)
        return self._then("random_crop", width, height, sides, _colour(fill), pad_if_needed)

    def random_resized_crop(
        self,
        size: Size,
        scale: Range = (0.08, 1.0),
        ratio: Range = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
        like: str = "pillow",
    ) -> Self:
        """A part from anywhere, of any size and about any shape, brought to one size."""
        height, width = both(size)
        return self._then(
            "random_resized_crop", width, height, tuple(scale), tuple(ratio), interpolation, like
        )

    def random_horizontal_flip(self, p: float = 0.5) -> Self:
        """Left to right, with a probability."""
        return self._then("mirror", p)

    def random_vertical_flip(self, p: float = 0.5) -> Self:
        """Upside down, with a probability."""
        return self._then("flip", p)

    def pad(self, padding: Size, fill: Size = 0) -> Self:
        """A border of one colour: one width, (left and right, above and below), or (left, above, right, below)."""
        return self._then("pad", _sides(padding), _colour(fill))

    def grayscale(self, num_output_channels: int = 1) -> Self:
        """Brightness alone, in one channel or three."""
        return self._then("grayscale", num_output_channels, 1.0, "pillow")

    def random_grayscale(self, p: float = 0.1) -> Self:
        """Brightness alone, with a probability; three channels."""
        return self._then("grayscale", 3, p, "pillow")

    def color_jitter(
        self,
        brightness: float | Range = 0.0,
        contrast: float | Range = 0.0,
        saturation: float | Range = 0.0,
        hue: float | Range = 0.0,
    ) -> Self:
        """Other light: each a number (factors from 1 - number to 1 + number; hue from -number) or a range."""
        factors = [_factors(value, 1.0) for value in (brightness, contrast, saturation)]
        return self._then("colour_jitter", *factors, _factors(hue, 0.0))

    def cache(self, max_bytes: int, path: str | os.PathLike[str] | None = None) -> Self:
        """Keep images as they are here, decoded and cut to one size, for later epochs; random steps follow.

        Args:
            max_bytes: how many bytes may be kept; images beyond that are made anew each time.
            path: a new file to keep them in, instead of memory; it is removed in the end.
        """
        return self._then("cache", max_bytes, None if path is None else os.fspath(path))

    def to_float(self) -> Self:
        """Floats between 0 and 1 instead of bytes."""
        return self if self._is_float else self._then("float", "divided")

    def normalize(self, mean: Sequence[float], std: Sequence[float]) -> Self:
        """Floats less a mean, divided by a standard deviation, for each channel."""
        return self.to_float()._then("normalise", list(mean), list(std))

    def cast(self, dtype: str) -> Self:
        """Floats of another type, rounded once: ``"float16"``, ``"bfloat16"``, ``"float32"`` or ``"float64"``.

        Bytes that were not made floats before are between 0 and 255 then.
        """
        floats = self if self._is_float else self._then("float", "not")
        return floats._then("cast", str(dtype).removeprefix("torch."))

    def channels_last(self) -> Self:
        """Row, column, channel instead of channel, row, column."""
        return self._then("channels_last")


class ImageFolder(Files):
    """A folder with one folder for each class, as torchvision's of the same name.

    Args:
        root: the folder.
        decode: ``"exact"`` or ``"fast"``, as for `Files`.
    """

    def __init__(self, root: str | os.PathLike[str], decode: str = "exact") -> None:
        """List a folder."""
        self.root = os.fspath(root)
        self.classes, paths, labels = _engine.list_folder(self.root)
        self.class_to_idx = numbered(self.classes)
        super().__init__(paths, labels, decode)

    @classmethod
    def table(cls, *_: Any, **__: Any) -> NoReturn:
        """A folder is no table."""
        raise TypeError("an ImageFolder is listed from a folder; a table is for Files.table")


def numbered(classes: list[str]) -> dict[str, int]:
    """The label of each class."""
    return {name: number for number, name in enumerate(classes)}


def both(size: Size) -> tuple[int, int]:
    """Height and width."""
    if isinstance(size, int):
        return size, size
    if len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(f"a size is one number or (height, width), not {tuple(size)}")
    return size[0], size[1]


def _sides(padding: Size) -> list[int]:
    """Left, above, right, below."""
    if isinstance(padding, int):
        return [padding] * 4
    if len(padding) == 1:
        return [padding[0]] * 4
    if len(padding) == 2:
        return [padding[0], padding[1]] * 2
    if len(padding) != 4:
        raise ValueError(f"a border has one, two or four widths, not {len(padding)}")
    return list(padding)


def _colour(fill: Size) -> list[int]:
    if isinstance(fill, int):
        return [fill] * 3
    if len(fill) == 1:
        return [fill[0]] * 3
    if len(fill) != 3:
        raise ValueError(f"a colour has one value or three, not {len(fill)}")
    return list(fill)


def _factors(value: float | Range, middle: float) -> Range | None:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"a jitter of {value}: it should not be below 0")
        low = middle - value
        value = (max(0.0, low) if middle else low, middle + value)
    low, high = value
    return None if low == high == middle else (low, high)
