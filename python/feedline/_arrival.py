"""How a batch reaches the accelerator: from page-locked memory, on a stream beside the training step.

A batch lies in shared memory that is used again and again, so that memory is page-locked once, where it lies:
no copy into other memory, and no thread that makes one. With ``device=`` the batch is then copied on a stream of
its own while the step runs, and its memory is kept until the copy is done.

The parts that need an accelerator stand behind two small interfaces, `Locker` and `Copier`. Their logic is
tested without one; what it gains on one has not been measured.
"""

from __future__ import annotations

import collections.abc
from collections import deque
from typing import Any, Protocol

import torch

from feedline._engine import Hold


class Locker(Protocol):
    """Page-locks memory."""

    def lock(self, address: int, size: int) -> bool:
        """Whether the memory is locked now."""

    def unlock(self, address: int) -> None:
        """Undo it."""


class CudaLocker:
    """Page-locks memory for CUDA."""

    def lock(self, address: int, size: int) -> bool:
        """Register it with the driver."""
        try:
            return int(torch.cuda.cudart().cudaHostRegister(address, size, 0)) == 0
        except RuntimeError:  # there is no driver after all
            return False

    def unlock(self, address: int) -> None:
        """Take it back from the driver."""
        torch.cuda.cudart().cudaHostUnregister(address)


def locker_for(device_type: str | None) -> Locker | None:
    """What can lock memory for a type of device; `None` if nothing can, and batches are pinned by copying."""
    return CudaLocker() if device_type == "cuda" else None


class PageLocks:
    """The memory of a loader that is page-locked: every piece once, until the loader goes."""

    def __init__(self, locker: Locker) -> None:
        self._locker = locker
        self._locked: dict[int, bool] = {}

    def lock(self, hold: Hold | None) -> bool:
        """Lock the memory of a batch, if it is not yet. Whether it is locked then."""
        if hold is None:
            return False
        if hold.address not in self._locked:
            self._locked[hold.address] = self._locker.lock(hold.address, len(hold))
        return self._locked[hold.address]

    def release(self) -> None:
        """Unlock all."""
        for address, locked in self._locked.items():
            if locked:
                self._locker.unlock(address)
        self._locked.clear()

    def __del__(self) -> None:
        self.release()


class Copier(Protocol):
    """Copies beside the step."""

    def copy(self, batch: Any) -> tuple[Any, Any]:
        """The batch on the device, and an event that tells when it is there."""

    def is_done(self, event: Any) -> bool:
        """Whether the copy has ended."""


class StreamCopier:
    """Copies on a stream of its own; work that is queued after it waits for the copy on the device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module = torch.get_device_module(device)
        self._stream = self._module.Stream(device)

    def copy(self, batch: Any) -> tuple[Any, Any]:
        """Queue the copy, and let the step's stream wait for it."""
        with self._module.stream(self._stream):
            moved = to_device(batch, self._device)
            event = self._stream.record_event()
        current = self._module.current_stream(self._device)
        current.wait_event(event)
        _each_tensor(moved, lambda tensor: tensor.record_stream(current))
        return moved, event

    def is_done(self, event: Any) -> bool:
        """Ask the device."""
        return bool(event.query())


class Arrivals:
    """Batches on their way to a device. Their host memory is kept until the copy is done."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._kept: deque[tuple[Any, Any]] = deque()

    def send(self, batch: Any) -> Any:
        """The batch on the device."""
        while self._kept and self._copier.is_done(self._kept[0][0]):
            self._kept.popleft()
        moved, event = self._copier.copy(batch)
        self._kept.append((event, batch))
        return moved

    @property
    def waiting(self) -> int:
        """How many batches are kept."""
        return len(self._kept)


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch with all its tensors on a device; containers are of the same types."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, (str, bytes)):
        return batch
    if isinstance(batch, collections.abc.Mapping):
        moved = {key: to_device(value, device) for key, value in batch.items()}
        return moved if type(batch) is dict else type(batch)(moved)  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(to_device(value, device) for value in batch)
    return batch.to(device) if hasattr(batch, "to") else batch


def _each_tensor(batch: Any, act: Any) -> None:
    if isinstance(batch, torch.Tensor):
        act(batch)
    elif isinstance(batch, collections.abc.Mapping):
        for value in batch.values():
            _each_tensor(value, act)
    elif isinstance(batch, (tuple, list)):
        for value in batch:
            _each_tensor(value, act)


class Arrival:
    """What happens to a batch last: pinned, if asked for, and sent to its device."""

    def __init__(self, pin: bool, pin_device: str | None, device: torch.device | None) -> None:
        self.pin = pin
        self._pin_device = pin_device
        self._device = device
        locker = locker_for(pin_device) if pin else None
        self.locks = PageLocks(locker) if locker is not None else None
        beside = device is not None and device.type not in ("cpu", "meta")
        self._arrivals = Arrivals(StreamCopier(device)) if beside and device is not None else None

    def __call__(self, batch: Any, hold: Hold | None = None) -> Any:
        """The batch as the user gets it."""
        if self.pin:
            if self.locks is not None:
                self.locks.lock(hold)
            # What lies in locked memory is pinned already and stays as it is.
            from torch.utils.data._utils.pin_memory import pin_memory

            batch = pin_memory(batch, self._pin_device)
        if self._arrivals is not None:
            return self._arrivals.send(batch)
        return batch if self._device is None else to_device(batch, self._device)
