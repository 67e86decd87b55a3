"""Operations on volumes: numpy arrays of three axes, as scipy does them, several times as fast and without the GIL.

>>> import numpy as np
>>> from feedline import voxels
>>> mask = np.zeros((5, 5, 5), bool)
>>> mask[1:4, 1:4, 1:4] = True
>>> int(voxels.erode(mask).sum()), int(voxels.dilate(mask).sum())
(1, 125)
>>> float(voxels.distance(mask, spacing=(1, 1, 3)).max())
2.0

Arrays are taken as they are if they are contiguous, the last axis the fastest, and copied if not. Every function
gives a new array and leaves its argument alone; none needs torch. A mask is of any type: what is not 0 is in it. Two
take ``threads``: use more than one when there are fewer samples than processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from feedline import _engine

__all__ = [
    "crop_or_pad",
    "dilate",
    "distance",
    "erode",
    "falloff",
    "flip",
    "gaussian",
    "label",
    "opened",
    "patch",
    "plane",
    "resample",
    "window",
]

Array = NDArray[Any]
Mask = NDArray[np.bool_]


def erode(mask: ArrayLike, iterations: int = 1, border_value: int = 0) -> Mask:
    """What has nothing but mask around it, corners included.

    The same as ``scipy.ndimage.binary_erosion`` with a structure of ones, 3 by 3 by 3.

    Args:
        mask: what is not 0 is in it.
        iterations: how many times.
        border_value: whether what lies outside the array counts as mask.

    >>> erode(np.ones((3, 3, 3))).sum(), erode(np.ones((3, 3, 3)), border_value=1).sum()
    (np.int64(1), np.int64(27))
    """
    return _morphology("erode", mask, iterations, border_value)


def dilate(mask: ArrayLike, iterations: int = 1, border_value: int = 0) -> Mask:
    """What has any mask around it, corners included.

    The same as ``scipy.ndimage.binary_dilation`` with a structure of ones, 3 by 3 by 3, and as torch's
    ``max_pool3d(mask, 3, 1, 1)``.

    Args:
        mask: what is not 0 is in it.
        iterations: how many times.
        border_value: whether what lies outside the array counts as mask.

    >>> dilate([[[0, 0, 0, 1]]])
    array([[[False, False,  True,  True]]])
    """
    return _morphology("dilate", mask, iterations, border_value)


def opened(mask: ArrayLike, iterations: int = 1, border_value: int = 0) -> Mask:
    """Eroded, then dilated: what is thinner than three voxels is gone.

    The same as ``scipy.ndimage.binary_opening`` with a structure of ones, 3 by 3 by 3; with a border value of 1,
    the same as torch's ``max_pool3d`` of what ``-max_pool3d(-mask, 3, 1, 1)`` gives.

    Args:
        mask: what is not 0 is in it.
        iterations: how many times each.
        border_value: whether what lies outside the array counts as mask in the erosion.

    >>> mask = np.zeros((5, 5, 9), bool)
    >>> mask[:, :, :3] = True  # stays
    >>> mask[2, 2, 6] = True  # goes
    >>> opened(mask, border_value=1)[2, 2].astype(int)
    array([1, 1, 1, 0, 0, 0, 0, 0, 0])
    """
    return _morphology("open", mask, iterations, border_value)


def distance(
    mask: ArrayLike,
    spacing: Sequence[float] = (1.0, 1.0, 1.0),
    dtype: DTypeLike = np.float64,
    threads: int = 1,
) -> Array:
    """How far it is from each voxel of a mask to the nearest one outside it; 0 outside.

    The same as ``scipy.ndimage.distance_transform_edt(mask, sampling=spacing)``, to the bit; but where two voxels
    are equally near and the spacing is not exact in binary, the last two bits depend on which is taken. If nothing is
    outside, all is infinitely far.

    Args:
        mask: what is not 0 is in it.
        spacing: how far neighbours along each axis are apart.
        dtype: ``float64``, or ``float32`` for the same rounded.
        threads: how many threads share the work; the result is the same.

    >>> distance([[[1, 1, 0]]], spacing=(1, 1, 3))
    array([[[6., 3., 0.]]])
    """
    values = _mask(mask)
    out = np.empty(values.shape, _float(dtype))
    _engine.voxels_distance(values, _three(spacing, "spacing"), _threads(threads), out)
    return out


def falloff(distances: ArrayLike, sigma: float) -> NDArray[np.float32]:
    """A map that is 1 where the distance is 0, and falls like a bell: ``exp(-0.5 * (distances / sigma) ** 2)``.

    Within 1e-6 of what numpy computes in f64.

    Args:
        distances: as ``distance`` gives them.
        sigma: how wide the bell is.

    >>> falloff([[[0.0, 1.0, 100.0]]], sigma=1.0).round(4)
    array([[[1.    , 0.6065, 0.    ]]], dtype=float32)
    """
    if not sigma > 0:
        raise ValueError(f"sigma {sigma}: it should be above 0")
    values = _floats(distances)
    out = np.empty(values.shape, np.float32)
    _engine.voxels_falloff(values, sigma, out)
    return out


def gaussian(
    array: ArrayLike,
    sigma: float | Sequence[float],
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    threads: int = 1,
) -> Array:
    """A blur.

    The same as ``scipy.ndimage.gaussian_filter``, within rounding. Arrays that are neither f32 nor f64 become f32.

    Args:
        array: the volume.
        sigma: the standard deviation in voxels, for all axes or for each.
        mode: what lies beyond the ends: ``"reflect"``, ``"nearest"`` or ``"constant"``.
        cval: the constant.
        truncate: after how many standard deviations the bell is cut off.
        threads: how many threads share the work; the result is the same.

    >>> gaussian([[[0.0, 0.0, 1.0, 0.0, 0.0]]], sigma=(0, 0, 0.5)).round(3)
    array([[[0.   , 0.106, 0.787, 0.106, 0.   ]]])
    """
    values = _floats(array)
    out = np.empty_like(values)
    sigmas = _three(sigma, "sigma")
    _engine.voxels_gaussian(values, sigmas, truncate, (mode, cval), _threads(threads), out)
    return out


def window(array: ArrayLike, low: float, high: float, zscore: bool = False) -> NDArray[np.float32]:
    """The values that matter: cut off at both ends and spread over 0 to 1.

    Args:
        array: the volume, of any type.
        low: what becomes 0, as all below it.
        high: what becomes 1, as all above it.
        zscore: less the mean and divided by the standard deviation of what was cut, instead; 0 if all is the same.

    >>> window(np.array([[[-1000, -100, 0, 300, 2000]]], np.int16), -100, 300)
    array([[[0.  , 0.  , 0.25, 1.  , 1.  ]]], dtype=float32)
    """
    values = _volume(array)
    if values.dtype not in (np.float32, np.float64, np.int16, np.uint8, np.uint16):
        values = values.astype(np.float32)
    out = np.empty(values.shape, np.float32)
    _engine.voxels_window(values, low, high, zscore, out)
    return out


def crop_or_pad(array: ArrayLike, shape: Sequence[int], fill: float = 0) -> Array:
    """Another shape around the same middle: what is too long is cut, what is too short gets a border.

    What cannot be even is longer by one at the end: along an axis, ``(old - new) // 2`` voxels are cut from the
    begin, or ``(new - old) // 2`` put before it.

    Args:
        array: the volume, of any type.
        shape: the new shape.
        fill: the value of the border.

    >>> crop_or_pad([[[1, 2, 3]]], (1, 2, 2), fill=9)
    array([[[1, 2],
            [9, 9]]])
    """
    values, extents = _volume(array), _extents(shape, "shape")
    out = np.empty(extents, values.dtype)
    border = np.array([fill]).astype(values.dtype)
    _engine.voxels_crop_pad(_bits(values), extents, _bits(border), _bits(out))
    return out


def flip(array: ArrayLike, axes: int | Iterable[int]) -> Array:
    """The mirror image across one axis or several, as ``numpy.flip`` shows it, in memory of its own.

    Args:
        array: the volume, of any type.
        axes: which axes are turned round.

    >>> flip([[[1, 2], [3, 4]]], axes=2)
    array([[[2, 1],
            [4, 3]]])
    """
    values = _volume(array)
    chosen = {_axis(axis) for axis in ([axes] if isinstance(axes, int) else axes)}
    out = np.empty_like(values)
    _engine.voxels_flip(_bits(values), [axis in chosen for axis in range(3)], _bits(out))
    return out


def plane(array: ArrayLike, axis: int, at: int) -> Array:
    """One slice across an axis, in memory of its own.

    Args:
        array: the volume, of any type.
        axis: the axis that is left out.
        at: which slice.

    >>> plane([[[1, 2], [3, 4]]], axis=2, at=1)
    array([[2, 4]])
    """
    values, axis = _volume(array), _axis(axis)
    if not -values.shape[axis] <= at < values.shape[axis]:
        raise IndexError(f"there is no slice {at} of {values.shape[axis]} across axis {axis}")
    out = np.empty([extent for other, extent in enumerate(values.shape) if other != axis], values.dtype)
    _engine.voxels_slice(_bits(values), axis, at % values.shape[axis], _bits(out))
    return out


def resample(array: ArrayLike, spacing: Sequence[float], to: Sequence[float], order: int = 1) -> Array:
    """The same volume with other distances between its voxels.

    A voxel is a box: the outer faces of the volume stay where they are, as well as whole numbers of voxels allow. The
    same as ``scipy.ndimage.zoom(array, spacing / to, order=order, grid_mode=True, mode="nearest")``, within rounding.

    Args:
        array: the volume. With order 1, what is neither f32 nor f64 becomes f32.
        spacing: how far neighbours along each axis are apart.
        to: how far they should be.
        order: 1 for straight lines between voxels, 0 for the nearest one, which is for labels.

    >>> resample([[[0.0, 4.0]]], spacing=(1, 1, 1), to=(1, 1, 0.5))
    array([[[0., 1., 3., 4.]]])
    """
    if order not in (0, 1):
        raise ValueError(f"order {order}: there are 0, the nearest voxel, and 1, straight lines between them")
    values = _floats(array) if order else _volume(array)
    extents = _engine.voxels_extents(values.shape, _three(spacing, "spacing"), _three(to, "to"))
    out = np.empty(extents, values.dtype)
    if order:
        _engine.voxels_linear(values, extents, out)
    else:
        _engine.voxels_nearest(_bits(values), extents, _bits(out))
    return out


def label(array: ArrayLike, values: int | Iterable[int]) -> Mask:
    """The mask of one label, or of several.

    Args:
        array: labels, of a type of whole numbers.
        values: those that are wanted.

    >>> label([[[0, 1, 2, 3]]], (1, 3))
    array([[[False,  True, False,  True]]])
    """
    labels = _volume(array)
    if labels.dtype.kind not in "iub":
        raise TypeError(f"labels are whole numbers, not {labels.dtype}")
    wanted = [values] if isinstance(values, (int, np.integer)) else list(values)
    # What the type cannot hold is not in the array.
    least, most = (0, 1) if labels.dtype == bool else _limits(labels.dtype)
    found = np.array([value for value in wanted if least <= value <= most], labels.dtype)
    out = np.empty(labels.shape, np.bool_)
    _engine.voxels_label(_bits(labels), _bits(found), _bits(out))
    return out


def patch(
    labels: ArrayLike,
    size: Sequence[int],
    label: int = 1,
    probability: float = 0.5,
    *,
    seed: int,
    epoch: int = 0,
    index: int = 0,
) -> tuple[slice, slice, slice]:
    """Where a random patch lies: with a probability, in the middle of it is a voxel of a label.

    Near a face it is moved inwards, and if there is no voxel of the label, it comes from anywhere. The same seed,
    epoch and index give the same patch, whoever asks.

    Args:
        labels: where to look for the label.
        size: how large it is; no larger than the volume.
        label: what should be in its middle.
        probability: how often.
        seed: of the run.
        epoch: the epoch.
        index: the sample's number.

    >>> labels = np.zeros((16, 16, 16), np.uint8)
    >>> labels[8, 8, 8] = 1
    >>> where = patch(labels, (4, 4, 4), probability=1.0, seed=0)
    >>> labels[where].shape, int(labels[where].sum())
    ((4, 4, 4), 1)
    """
    values, wanted = _volume(labels), label
    if values.dtype != np.uint8:
        values, wanted = _mask(values == label), 1
    elif not 0 <= label <= 255:
        values, wanted = np.zeros(values.shape, np.uint8), 1
    extents = _extents(size, "size")
    starts = _engine.voxels_patch(values, extents, wanted, probability, (seed, epoch, index))
    first, second, third = (
        slice(start, start + extent) for start, extent in zip(starts, extents, strict=True)
    )
    return first, second, third


def _morphology(step: str, mask: ArrayLike, iterations: int, border_value: int) -> Mask:
    if iterations < 1:
        raise ValueError(f"{iterations} iterations: there should be at least 1")
    values = _mask(mask)
    out = np.empty(values.shape, np.bool_)
    _engine.voxels_morphology(step, values, iterations, bool(border_value), _bits(out))
    return out


def _volume(array: ArrayLike) -> Array:
    """An array as the engine takes it: three axes, contiguous, in this machine's order of bytes."""
    values = np.asarray(array)
    if values.ndim != 3:
        raise ValueError(f"a volume has three axes, an array of shape {values.shape} does not")
    if values.size == 0:
        raise ValueError(f"an array of shape {values.shape} has no voxels")
    return np.require(values, values.dtype.newbyteorder("="), ["C", "A"])


def _mask(array: ArrayLike) -> NDArray[np.uint8]:
    values = _volume(array)
    if values.dtype != np.uint8:
        values = (values if values.dtype == bool else values != 0).view(np.uint8)
    return values


def _floats(array: ArrayLike) -> Array:
    values = _volume(array)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)


def _bits(array: Array) -> Array:
    """The same memory as numbers without a sign, of the same size."""
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 8:
        raise TypeError(
            f"a volume of {array.dtype} cannot be taken: its voxels should be numbers of up to 8 bytes"
        )
    return array.view(f"u{array.dtype.itemsize}")


def _float(dtype: DTypeLike) -> np.dtype[Any]:
    wanted = np.dtype(dtype)
    if wanted not in (np.float32, np.float64):
        raise TypeError(f"distances are of float32 or float64, not {wanted}")
    return wanted


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _three(values: float | Sequence[float], name: str) -> tuple[float, float, float]:
    numbers = [float(values)] * 3 if isinstance(values, (int, float)) else [float(value) for value in values]
    if len(numbers) != 3:
        raise ValueError(f"{name} {tuple(numbers)}: there should be one for each of three axes")
    return numbers[0], numbers[1], numbers[2]


def _extents(values: Sequence[int], name: str) -> tuple[int, int, int]:
    extents = [int(value) for value in values]
    if len(extents) != 3 or min(extents) < 1:
        raise ValueError(f"{name} {tuple(extents)}: there should be three, each at least 1")
    return extents[0], extents[1], extents[2]


def _axis(axis: int) -> int:
    if not -3 <= axis < 3:
        raise ValueError(f"there is no axis {axis} of three")
    return axis % 3


def _threads(threads: int) -> int:
    if threads < 1:
        raise ValueError(f"{threads} threads: there should be at least 1")
    return threads
