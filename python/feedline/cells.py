"""Images of many channels, as microscopes write them: TIFF files, made into batches in Rust.

>>> cells = Cells.folder("cells/train").channels([0, 3]).resize((220, 224)).center_crop(220)  # doctest: +SKIP
>>> for x, y in feedline.DataLoader(cells, batch_size=64, shuffle=True, num_workers=4): ...  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

from feedline import _engine
from feedline.files import Size, Stepwise, both

#: Steps happen in this order, and have to be asked for in it.
_ORDER = ("channels", "resize", "centre_crop", "mirror", "flip", "float", "normalise")


class Cells(Stepwise):
    """TIFF files of any number of channels, all of one type and with as many channels as the first.

    Channels of a pixel, planes and pages become planes: a sample is channels, height, width. Numbers keep their type
    (u8 to u64, i8 to i64, f16 to f64) unless floats are asked for. Files may be uncompressed, LZW, deflate or
    PackBits, in strips or tiles; without `resize` all must have one size.

    Args:
        paths: the files.
        labels: a whole number for each file; 0 for all if there are none.
    """

    @classmethod
    def folder(cls, root: str | os.PathLike[str]) -> Self:
        """A folder with one folder for each class."""
        _, paths, labels = _engine.list_folder(os.fspath(root))
        return cls(paths, labels)

    @cached_property
    def _engine(self) -> _engine.FileRows:
        return _engine.FileRows.cells(self.paths, self.targets, list(self._steps), self.num_classes)

    def _then(self, *step: Any) -> Self:
        if ("extents",) in (step, *self._steps) and self._steps:
            raise ValueError("extents are those of the files: no other step comes before or after")
        if step == ("extents",):
            return super()._then(*step)
        later = [name for name, *_ in self._steps if _ORDER.index(name) >= _ORDER.index(step[0])]
        if later:
            raise ValueError(f"{step[0]} after {later[-1]}: the order is {', '.join(_ORDER)}, each once")
        return super()._then(*step)

    def extents(self) -> Self:
        """Of each file, not its numbers but its channels, height and width, which may differ: it is only parsed."""
        return self._then("extents")

    def channels(self, chosen: Sequence[int]) -> Self:
        """Some channels, in this order. Of others, nothing is read that need not be."""
        return self._then("channels", list(chosen))

    def resize(self, size: Size, interpolation: str = "bilinear") -> Self:
        """To (height, width), or one number for both, with antialias, as torchvision resizes floats.

        Args:
            size: height and width.
            interpolation: ``"bilinear"``, ``"bicubic"`` or ``"nearest"``.
        """
        height, width = both(size)
        return self._then("resize", width, height, interpolation)

    def center_crop(self, size: Size) -> Self:
        """The middle."""
        height, width = both(size)
        return self._then("centre_crop", width, height)

    def random_horizontal_flip(self, p: float = 0.5) -> Self:
        """Left to right, with a probability."""
        return self._then("mirror", p)

    def random_vertical_flip(self, p: float = 0.5) -> Self:
        """Upside down, with a probability."""
        return self._then("flip", p)

    def to_float(self) -> Self:
        """Floats of 32 bits, with the values as they are."""
        return self._then("float")

    def normalize(self, mean: Sequence[float], std: Sequence[float]) -> Self:
        """Floats less a mean, divided by a standard deviation, for each channel."""
        return self._then("normalise", list(mean), list(std))
