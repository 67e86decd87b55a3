"""What a loader keeps from epoch to epoch: its memory, and what it has learned of the samples."""

from __future__ import annotations

import os

import pytest
import torch
from feedline import DataLoader
from torch.utils.data import Dataset

pytestmark = pytest.mark.timeout(120)


class Images(Dataset):
    """Samples of some size."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((3, 64, 64), float(i))


def test_later_epochs_know_the_structure_and_use_the_same_memory() -> None:
    loader = DataLoader(Images(), 4, num_workers=2)
    addresses = [{batch.data_ptr() for batch in loader} for _ in range(3)]
    assert loader._learned.structure is not None
    assert addresses[1] | addresses[2] <= addresses[0]


def test_memory_is_not_used_again_while_a_tensor_of_it_lives() -> None:
    loader = DataLoader(Images(), 4, num_workers=2)
    kept = [batch[1] for batch in loader]
    again = list(loader)
    assert not {part.untyped_storage().data_ptr() for part in kept} & {
        batch.untyped_storage().data_ptr() for batch in again
    }
    assert [int(part[0, 0, 0]) for part in kept] == list(range(1, 32, 4))


def test_threads_have_memory_of_their_own_process_and_processes_share_theirs() -> None:
    loader = DataLoader(Images(), 4, num_workers=2, workers="thread")
    expected = list(loader)
    assert loader._shared is not None
    assert loader._shared.fd is None
    # Somebody changes their mind between two epochs; what was delivered stays.
    loader.workers = "process"
    again = list(loader)
    assert loader._shared.fd is not None
    assert all(torch.equal(one, other) for one, other in zip(expected, again, strict=True))
    loader.workers = "thread"
    assert len(list(loader)) == 8
    assert loader._shared.fd is None
    assert [int(batch[0, 0, 0, 0]) for batch in expected] == list(range(0, 32, 4))


def test_a_forked_process_keeps_the_batches_it_held_and_loads_with_memory_of_its_own() -> None:
    loader = DataLoader(Images(), 4, num_workers=2, workers="thread")
    iterator = iter(loader)
    held = next(iterator)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        good = bool((held[:, 0, 0, 0] == torch.arange(4)).all())
        good &= [int(batch[0, 0, 0, 0]) for batch in loader] == list(range(0, 32, 4))
        os.write(write, b"good" if good else b"bad ")
        os._exit(0)
    rest = [int(batch[0, 0, 0, 0]) for batch in iterator]
    os.waitpid(child, 0)
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read() == b"good"
    assert rest == list(range(4, 32, 4))
    assert bool((held[:, 0, 0, 0] == torch.arange(4)).all())
