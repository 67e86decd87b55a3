"""What a loader keeps from epoch to epoch: its memory, and what it has learned of the samples."""

from __future__ import annotations

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
