"""Values of a shared cache: a pickle, with the memory of arrays and tensors beside it.

The pickle says what the value is made of, and goes only from one process of a program to another. Arrays and tensors
made from it lie in the memory they are given: arrays refuse to be written to.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

from feedline._engine import Kept


class _Packer(pickle.Pickler):
    """A pickler that puts arrays and tensors beside the pickle."""

    def __init__(self, file: io.BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(file, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))

    def reducer_override(self, value: Any) -> Any:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and type(value) in (numpy.ndarray, numpy.memmap):
            return NotImplemented if value.dtype.hasobject else _reduce_array(value)
        if torch is not None and isinstance(value, torch.Tensor):
            return _reduce_tensor(value)
        return NotImplemented


def _reduce_array(array: Any) -> Any:
    """How an array is made again; that its buffer is read-only is part of the pickle."""
    dtype = array.dtype if array.dtype.kind == "V" or array.dtype.metadata else array.dtype.str
    if array.nbytes == 0:
        return _array, (None, dtype, array.shape, False)
    import numpy as np

    turned = array.flags.f_contiguous and not array.flags.c_contiguous
    flat: Any = np.ascontiguousarray(array.T if turned else array).reshape(-1).view("u1")
    return _array, (pickle.PickleBuffer(memoryview(flat).toreadonly()), dtype, array.shape, turned)


def _array(buffer: Any, dtype: Any, shape: tuple[int, ...], turned: bool) -> Any:
    import numpy as np

    if buffer is None:
        array = np.empty(shape, dtype)
        array.flags.writeable = False
        return array
    flat = np.frombuffer(buffer, dtype)
    return flat.reshape(shape[::-1]).T if turned else flat.reshape(shape)


def _reduce_tensor(tensor: Any) -> Any:
    """As in batches. Torch has no tensors that cannot be written to."""
    import torch

    from feedline._parcel import is_plain, reduce_tensor

    # Only plain ones: others travel in ways that work once.
    if type(tensor) is not torch.Tensor or not is_plain(tensor):
        raise TypeError(
            f"a tensor ({type(tensor).__qualname__}, {tensor.layout}, on {tensor.device}) is not plain: dense, on "
            "the CPU, of no class of its own, without history of gradients"
        )
    return reduce_tensor(tensor)


def pack(value: Any) -> list[Any]:
    """The pickle, and what goes beside it."""
    file = io.BytesIO()
    buffers: list[memoryview] = []
    _Packer(file, buffers).dump(value)
    return [file.getbuffer(), *buffers]


def unpack(parts: list[Any]) -> Any:
    """The value that was packed, in the memory of the parts."""
    return pickle.loads(parts[0], buffers=parts[1:])


def unpack_kept(kept: Kept) -> Any:
    """The value in an entry, which it keeps in use."""
    memory = memoryview(kept)  # type: ignore[arg-type]
    return unpack([memory[start : start + length] for start, length in kept.parts()])
