"""Loading without workers: batches are written sample by sample, and must be what torch collates of them."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from compare import assert_same
from feedline import DataLoader
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

pytestmark = pytest.mark.timeout(120)

Pair = namedtuple("Pair", ["left", "right"])

#: A sample of every kind, and one of another structure that can follow it in the same batch, or cannot.
CHANGES: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    "int to bool": (lambda i: i, bool),
    "int to float": (lambda i: i, float),
    "int beyond 64 bits": (lambda i: i, lambda i: 1 << 70),
    "float to int": (lambda i: i / 3, lambda i: i),
    "bool to int": (lambda i: i % 2 == 0, lambda i: i),
    "int to text": (lambda i: i, str),
    "text to int": (str, lambda i: i),
    "numpy scalar": (lambda i: np.float32(i / 3), lambda i: np.float64(i / 3)),
    "tensor's dtype": (lambda i: torch.full((2, 3), i), lambda i: torch.full((2, 3), i / 2)),
    "tensor's shape": (lambda i: torch.full((2, 3), i), lambda i: torch.full((3, 2), i)),
    "tensor with a gradient": (
        lambda i: torch.full((3,), i / 2),
        lambda i: torch.ones(3, requires_grad=True),
    ),
    "array's dtype": (lambda i: np.full((2, 2), i), lambda i: np.full((2, 2), i, np.float32)),
    "array's shape": (lambda i: np.full((2, 2), i), lambda i: np.full((2, 3), i)),
    "empty array": (lambda i: np.empty((0, 3)), lambda i: np.empty((0, 3), np.float32)),
    "tuple's length": (lambda i: (i, f"{i}"), lambda i: (i, f"{i}", i)),
    "list": (lambda i: [i, i / 2], lambda i: [i, i]),
    "named tuple": (lambda i: Pair(i, f"{i}"), lambda i: Pair(i / 2, f"{i}")),
    "dict's keys": (lambda i: {"a": i, "b": f"{i}"}, lambda i: {"a": i, "c": f"{i}"}),
    "nested": (
        lambda i: {"a": (torch.tensor([i]), [f"{i}", np.int16(i)]), "b": b"x"},
        lambda i: {"a": (torch.tensor([i]), [f"{i}", np.int32(i)]), "b": b"x"},
    ),
    "nothing": (lambda i: i, lambda i: None),
}


class Changing(Dataset):
    """Samples whose structure changes at some of them, and that count how often they are asked for."""

    def __init__(self, one: Callable[[int], Any], other: Callable[[int], Any], at: set[int]) -> None:
        self.one, self.other, self.at = one, other, at
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 32

    def __getitem__(self, i: int) -> Any:
        self.asked.append(i)
        return (self.other if i in self.at else self.one)(i)


def journal(cls: type, dataset: Changing) -> list[Any]:
    """Batches, and the error that ended them."""
    seen: list[Any] = []
    try:
        seen += list(cls(dataset, 4))
    except Exception as error:
        seen.append((type(error).__name__, str(error)))
    return [*seen, dataset.asked]


@pytest.mark.parametrize("at", [{2}, {4, 13, 22, 31}, set(range(8, 32))], ids=["once", "often", "for good"])
@pytest.mark.parametrize("name", CHANGES)
def test_samples_that_change_are_collated_as_torch_does_and_are_loaded_once(name: str, at: set[int]) -> None:
    mine = journal(DataLoader, Changing(*CHANGES[name], at))
    theirs = journal(TorchLoader, Changing(*CHANGES[name], at))
    assert_same(mine, theirs)


def test_a_sample_that_says_stop_ends_the_epoch_as_under_torch() -> None:
    def stop(i: int) -> int:
        raise StopIteration

    for at in ({0}, {6}):
        same = [journal(cls, Changing(lambda i: i, stop, at)) for cls in (DataLoader, TorchLoader)]
        assert_same(*same)


def test_memory_is_used_again_but_not_while_a_tensor_of_it_lives() -> None:
    loader = DataLoader(Changing(lambda i: torch.full((10_000,), i), int, set()), 4)
    assert len({batch.data_ptr() for batch in loader}) == 2
    kept = [batch[1] for batch in loader]
    assert len({part.data_ptr() for part in kept}) == len(kept)
    list(loader)
    assert [int(part[0]) for part in kept] == list(range(1, 32, 4))


def test_a_forked_process_has_its_own_copy() -> None:
    loader = DataLoader(Changing(lambda i: torch.full((10_000,), i), int, set()), 4)
    batches = iter(loader)
    first = next(batches)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # torch's own threads are not in a fork
        first.fill_(-1)
        same = [int(batch[0, 0]) for batch in batches] == list(range(4, 32, 4))
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert int(first[0, 0]) == 0
    assert [int(batch[0, 0]) for batch in batches] == list(range(4, 32, 4))
