"""Page locks and devices: the logic, with stand-ins for an accelerator."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from feedline import DataLoader, _arrival

pytestmark = pytest.mark.timeout(120)

Pair = namedtuple("Pair", "x y")


class Hold:
    """A batch's memory that is nowhere."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __len__(self) -> int:
        return 4096


class Locker:
    """Writes down what it is asked to lock."""

    def __init__(self, works: bool = True) -> None:
        self.works = works
        self.log: list[tuple[str, int]] = []

    def lock(self, address: int, size: int) -> bool:
        assert size == 4096
        self.log.append(("lock", address))
        return self.works

    def unlock(self, address: int) -> None:
        self.log.append(("unlock", address))


def test_memory_is_locked_once_and_unlocked_in_the_end() -> None:
    locker = Locker()
    locks = _arrival.PageLocks(locker)
    for address in (1, 2, 1, 1, 2):
        assert locks.lock(Hold(address))
    assert not locks.lock(None)
    assert locker.log == [("lock", 1), ("lock", 2)]
    locks.release()
    assert locker.log[2:] == [("unlock", 1), ("unlock", 2)]


def test_memory_that_cannot_be_locked_is_not_tried_again_nor_unlocked() -> None:
    locker = Locker(works=False)
    locks = _arrival.PageLocks(locker)
    assert not locks.lock(Hold(1))
    assert not locks.lock(Hold(1))
    locks.release()
    assert locker.log == [("lock", 1)]


class Copier:
    """A device that copies when it is told to."""

    def __init__(self) -> None:
        self.done = 0

    def copy(self, batch: Any) -> tuple[Any, Any]:
        return f"device {batch}", batch

    def is_done(self, event: Any) -> bool:
        return event < self.done


def test_host_memory_is_kept_until_the_copy_is_done() -> None:
    copier = Copier()
    arrivals = _arrival.Arrivals(copier)
    assert [arrivals.send(batch) for batch in range(3)] == ["device 0", "device 1", "device 2"]
    assert arrivals.waiting == 3
    copier.done = 2
    arrivals.send(3)
    assert arrivals.waiting == 2


def test_batches_of_every_kind_are_moved_with_their_types() -> None:
    device = torch.device("cpu")
    batch = {"a": torch.ones(2), "b": [Pair(torch.zeros(1), "text"), (torch.ones(1), b"bytes", 3)]}
    moved = _arrival.to_device(batch, device)
    assert type(moved["b"][0]) is Pair
    assert type(moved["b"][1]) is tuple
    assert moved["b"][0].y == "text"
    assert torch.equal(moved["a"], torch.ones(2))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_arrive_on_the_device_asked_for(workers: int) -> None:
    loader = DataLoader(list(range(8)), 4, num_workers=workers, device="cpu")
    assert loader.device == torch.device("cpu")
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    meta = DataLoader(list(range(8)), 4, num_workers=workers, device="meta")
    assert all(batch.device.type == "meta" for batch in meta)
