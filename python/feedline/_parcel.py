"""Batches of any kind, on their way from a worker: a pickle, with the memory of tensors and arrays beside it.

The buffers are copied once, into shared memory that was used before, and the consumer's tensors and arrays lie
in that memory. What cannot travel like this (sparse or nested tensors, classes of their own) goes the way that
``torch.multiprocessing`` has for it.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections import ChainMap
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing  # registers how tensors travel

from feedline._engine import Collected


class _Packer(pickle.Pickler):
    """A pickler that puts plain tensors beside the pickle, as pickle itself does with arrays."""

    def __init__(self, file: io.BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(file, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
        reducers: Any = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        others: Any = copyreg.dispatch_table
        self.dispatch_table = ChainMap(reducers, others)

    def reducer_override(self, value: Any) -> Any:
        return reduce_tensor(value) if type(value) is torch.Tensor and is_plain(value) else NotImplemented


def reduce_tensor(value: torch.Tensor) -> Any:
    """How a plain tensor is made again, with its memory as a buffer."""
    dense = value.detach()
    stride = None
    if not dense.is_contiguous():
        # Other orders of the axes, channels last for example, are kept; gaps and overlaps are not.
        order = sorted(range(dense.ndim), key=lambda axis: (-value.stride()[axis], axis))
        turned = dense.permute(order)
        if turned.is_contiguous():
            stride, dense = value.stride(), turned
        else:
            dense = dense.contiguous()
    flat = dense.reshape(-1)
    memory: Any = flat.view(torch.uint8).numpy() if flat.numel() else None
    buffer = None if memory is None else pickle.PickleBuffer(memory)
    return _tensor, (buffer, value.dtype, value.shape, stride, value.requires_grad)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is no more than its memory and how it lies there."""
    return (
        tensor.layout is torch.strided
        and tensor.is_cpu
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor.is_neg()
        and not tensor.is_conj()
        and (tensor.is_leaf or not tensor.requires_grad)
    )


def _tensor(
    buffer: Any, dtype: torch.dtype, shape: torch.Size, stride: tuple[int, ...] | None, requires_grad: bool
) -> torch.Tensor:
    if buffer is None:
        tensor = torch.empty(shape, dtype=dtype)
    else:
        tensor = torch.frombuffer(buffer, dtype=dtype)
        tensor = tensor.view(shape) if stride is None else tensor.as_strided(shape, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def pack(batch: Any) -> tuple[bytes, list[memoryview]]:
    """A pickle, and what goes beside it."""
    file = io.BytesIO()
    buffers: list[memoryview] = []
    _Packer(file, buffers).dump(batch)
    return file.getvalue(), buffers


def unpack(collected: Collected) -> Any:
    """The batch that was packed. Its tensors and arrays keep the memory they lie in."""
    places = collected.buffers()
    _, note = collected.notes[0]
    pickled = memoryview(note)[8 * (len(places) + 1) :]
    if not places:
        return pickle.loads(pickled)
    memory = memoryview(collected.hold)  # type: ignore[arg-type]
    return pickle.loads(pickled, buffers=[memory[start : start + length] for start, length in places])
