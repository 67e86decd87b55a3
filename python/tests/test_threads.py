"""Worker threads: the same results as worker processes, for datasets that wait or release the GIL."""

from __future__ import annotations

import random
import threading
import time
from random import gauss, randint
from typing import Any

import numpy as np
import pytest
import torch
from compare import assert_same
from feedline import DataLoader
from feedline._choice import _held
from torch.utils.data import Dataset, get_worker_info

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]


class Drawing(Dataset):
    """Samples that draw from every global source."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        return (
            i,
            random.random(),
            randint(0, 10**9),
            random.choice([1, 2, 3]),
            np.random.rand(3),
            np.random.randint(0, 1000),
            torch.rand(2),
            torch.empty(2).uniform_(),
            torch.randint(0, 100, (3,)),
            torch.randperm(5),
        )


class Waiting(Dataset):
    """Samples that wait."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, i: int) -> int:
        time.sleep(0.004)
        return i


class Computing(Dataset):
    """Samples of nothing but Python."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, i: int) -> int:
        return sum(j * j for j in range(30_000)) % 7 + i


class Who(Dataset):
    """Samples that say who loaded them."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> tuple[int, int, bool]:
        info = get_worker_info()
        assert info is not None
        assert info.worker_method == "thread"
        assert info.dataset is self
        return info.id, info.num_workers, threading.current_thread() is threading.main_thread()


class Failing(Dataset):
    """The fifth sample fails."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> int:
        if i == 5:
            raise LookupError("no fifth")
        return i


def epoch(**arguments: Any) -> list[Any]:
    torch.manual_seed(3)
    return list(DataLoader(Drawing(), 8, **arguments))


def test_random_numbers_are_those_of_processes() -> None:
    reference = epoch(num_workers=2)
    assert_same(epoch(num_workers=1, workers="thread"), reference)
    assert_same(epoch(num_workers=4, workers="thread"), reference)


def test_the_main_thread_draws_as_if_there_were_no_workers() -> None:
    def draws(workers: int) -> list[Any]:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        loader = DataLoader(Drawing(), 8, num_workers=workers, workers="thread")
        return [
            (random.random(), gauss(0, 1), float(np.random.rand()), float(torch.rand(()))) for _ in loader
        ]

    assert draws(1) == draws(3)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    torch.empty((), dtype=torch.int64).random_()  # what a loader draws for its workers
    plain = [(random.random(), gauss(0, 1), float(np.random.rand()), float(torch.rand(()))) for _ in range(5)]
    assert draws(2) == plain


def test_every_thread_knows_which_worker_it_is() -> None:
    ids, counts, main = zip(*DataLoader(Who(), None, num_workers=3, workers="thread"), strict=True)
    assert set(ids) <= {0, 1, 2}
    assert set(counts) == {3}
    assert not any(main)
    assert get_worker_info() is None


def test_errors_are_those_of_processes() -> None:
    loader = DataLoader(Failing(), 4, num_workers=2, workers="thread")
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2, 3]
    with pytest.raises(LookupError, match="Caught LookupError in DataLoader worker process") as caught:
        next(iterator)
    assert "no fifth" in str(caught.value)
    assert "(while loading sample 5)" in caught.value.__notes__
    assert next(iterator).tolist() == [8, 9, 10, 11]


def test_threads_end_with_their_epoch() -> None:
    def ours() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("feedline")]

    for _ in range(5):
        list(DataLoader(Waiting(), 8, num_workers=4, workers="thread"))
        iterator = iter(DataLoader(Waiting(), 8, num_workers=4, workers="thread"))
        next(iterator)
        del iterator
    assert ours() == []


def test_a_hiccup_of_the_machine_is_not_python_that_is_held() -> None:
    waiting = [0.0003] * 100
    assert _held([*waiting, 0.05, 0.04], 0.0006) == 0
    assert _held([*waiting, *[0.005] * 20], 0.0006) > 0.5
    assert _held([0.005] * 3, 0.0006) > 0.8
    assert _held([], 0.0006) == 1


def test_auto_takes_threads_for_waiting_and_processes_for_python() -> None:
    waiting = DataLoader(Waiting(), 8, num_workers=2, workers="auto")
    assert [batch.tolist() for batch in waiting] == torch.arange(48).view(-1, 8).tolist()
    assert "worker threads" in waiting.explain()
    computing = DataLoader(Computing(), 8, num_workers=2, workers="auto")
    list(computing)
    assert "worker processes" in computing.explain()
    assert "Python is held" in computing.explain()
