"""Volumes of medicine in files: NRRD and NIfTI, read in Rust without the GIL.

>>> volume = read("ct.nrrd")  # doctest: +SKIP
>>> volume.array.shape, volume.array.dtype, volume.spacing  # doctest: +SKIP
((144, 144, 144), dtype('float32'), (3.0, 1.0, 1.0))

Numbers are those of pynrrd and nibabel to the bit. Neither is needed, nor is torch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from feedline import _engine

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Volume", "read"]


@dataclass(frozen=True, eq=False)
class Volume:
    """A volume that was read from a file."""

    array: np.ndarray[Any, Any]
    """Its numbers."""
    spacing: tuple[float | None, ...]
    """How far apart they are along each axis of the array; ``None`` where the file does not say, or the axis is not
    one of space."""
    header: dict[str, str] = field(repr=False)
    """All that the file says of it, by the format's own names."""


def read(
    path: str | os.PathLike[str],
    order: Literal["C", "F"] = "C",
    *,
    scaled: bool = True,
    allow_outside: bool = False,
) -> Volume:
    r"""Read a volume.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "small.nrrd")
    >>> header = "NRRD0004\ntype: short\ndimension: 2\nsizes: 3 2\nspacings: 1 2.5\nencoding: text\n\n"
    >>> with open(path, "w") as file:
    ...     _ = file.write(header + "1 2 3 4 5 6")
    >>> volume = read(path)
    >>> volume.array.tolist(), volume.spacing
    ([[1, 2, 3], [4, 5, 6]], (2.5, 1.0))
    >>> read(path, order="F").array.shape
    (3, 2)

    Args:
        path: an NRRD file (``.nrrd``, ``.nhdr``) or a NIfTI file (``.nii``, ``.nii.gz``, ``.hdr``).
        order: ``"C"``, the slowest axis first (z, y, x), or ``"F"``, the fastest first (x, y, z), as pynrrd and
            nibabel have it unless asked otherwise. Memory is the same.
        scaled: of a NIfTI file, its values as floats of 64 bits, as nibabel's ``get_fdata`` gives them; otherwise its
            numbers as they are stored.
        allow_outside: whether an NRRD header may name a file with its numbers that is not in its folder.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, of a kind that is not read, or names numbers outside its folder.
    """
    if order not in ("C", "F"):
        raise ValueError(f'the order is "C" or "F", not {order!r}')
    return read_into(path, order, scaled=scaled, allow_outside=allow_outside)


def read_into(
    path: str | os.PathLike[str],
    order: Literal["C", "F"] = "C",
    *,
    scaled: bool = True,
    allow_outside: bool = False,
    into: _engine.Lent | None = None,
) -> Volume:
    """As `read`; into a place in the row of a batch, if one is lent and the numbers fit it just so."""
    import numpy as np

    volume = _engine.read_volume(os.fspath(path), scaled, allow_outside, into)
    array = np.frombuffer(volume.bytes, dtype=volume.dtype).reshape(volume.shape[::-1])
    if order == "F":
        return Volume(array.T, volume.spacing, volume.header)
    return Volume(array, volume.spacing[::-1], volume.header)
