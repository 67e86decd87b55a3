"""Random numbers belong to samples: who loads a sample, and how, does not change what it draws."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from compare import assert_same
from conftest import SUBJECT_IS_TORCH, Loader
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, default_collate

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.skipif(SUBJECT_IS_TORCH, reason="under torch random numbers belong to workers"),
]


class Drawing(Dataset):
    """Every sample is its index and what a function draws for it."""

    def __init__(self, draw: Callable[[int], list], n: int = 30) -> None:
        self.draw = draw
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[int, torch.Tensor]:
        return i, torch.tensor(self.draw(i), dtype=torch.float64)


def from_python(i: int) -> list:
    return [random.random(), random.gauss(0, 1), random.randrange(1000)]


def from_numpy(i: int) -> list:
    # One number of the normal distribution leaves a second one behind.
    return [np.random.rand(), np.random.randn(), np.random.permutation(100)[0]]


def from_torch(i: int) -> list:
    return [torch.rand(()).item(), torch.randn(3)[0].item(), torch.randperm(100)[0].item()]


def from_all(i: int) -> list:
    return from_torch(i) + from_numpy(i) + from_python(i)


def as_many_as_the_index(i: int) -> list:
    return [
        [random.random() for _ in range(i + 1)][-1],
        np.random.rand(i + 1)[-1],
        torch.rand(i + 1)[-1].item(),
    ]


def late(i: int) -> list:
    """Each source is used for the first time when others, or none, have been used for a while."""
    python = random.random() if i % 7 == 5 else 0.0
    numpy = np.random.rand() if i % 11 == 9 else 0.0
    tensor = torch.rand(()).item() if i >= 17 else 0.0
    return [python, numpy, tensor]


def only_the_last(i: int) -> list:
    return from_all(i) if i == 29 else [0.0] * 9


def stacked(batch: list) -> list:
    return default_collate(batch)


DRAWS = [from_python, from_numpy, from_torch, from_all, as_many_as_the_index, late, only_the_last]

MANNERS: dict[str, dict] = {
    "one worker": {"num_workers": 1},
    "two workers": {"num_workers": 2},
    "four workers": {"num_workers": 4},
    "larger batches": {"num_workers": 2, "batch_size": 7},
    "rows of single samples": {"num_workers": 2, "batch_size": 1},
    "one worker, whole batches": {"num_workers": 1, "dispatch": "batch"},
    "two workers, whole batches": {"num_workers": 2, "dispatch": "batch"},
    "two workers, a function": {"num_workers": 2, "collate_fn": stacked},
    "four workers, a function": {"num_workers": 4, "collate_fn": stacked},
    "single samples": {"num_workers": 2, "batch_size": None},
    "in any order": {"num_workers": 4, "in_order": False},
    "persistent": {"num_workers": 2, "persistent_workers": True},
}


def drawn(draw: Callable, shuffle: bool = False, seed: int = 11, **arguments: Any) -> dict[int, list]:
    """What every sample of an epoch has drawn."""
    torch.manual_seed(seed)
    loader = Loader(Drawing(draw), shuffle=shuffle, **{"batch_size": 4} | arguments)
    return by_index(loader)


def by_index(loader: Any) -> dict[int, list]:
    found = {}
    for index, numbers in loader:
        for i, row in zip(
            torch.as_tensor(index).reshape(-1), numbers.reshape(-1, numbers.shape[-1]), strict=True
        ):
            assert i.item() not in found
            found[i.item()] = row.tolist()
    return found


@pytest.mark.parametrize("draw", DRAWS)
def test_samples_draw_the_same_whoever_loads_them(draw: Callable) -> None:
    reference = drawn(draw, num_workers=1)
    assert sorted(reference) == list(range(30))
    for manner, arguments in MANNERS.items():
        assert drawn(draw, **arguments) == reference, manner


@pytest.mark.parametrize("draw", [from_all, late])
def test_samples_draw_the_same_in_any_order(draw: Callable) -> None:
    # A permutation is drawn after the seed of the epoch, so that seed is the same.
    assert drawn(draw, shuffle=True, num_workers=2) == drawn(draw, shuffle=False, num_workers=2)


@pytest.mark.parametrize("draw", DRAWS)
def test_the_same_seed_gives_the_same_numbers_and_another_others(draw: Callable) -> None:
    first = drawn(draw, num_workers=2)
    assert drawn(draw, num_workers=2) == first
    assert drawn(draw, num_workers=2, seed=12) != first


@pytest.mark.parametrize("draw", [from_python, from_numpy, from_torch, from_all])
def test_different_samples_draw_different_numbers(draw: Callable) -> None:
    samples = drawn(draw, num_workers=2)
    for numbers in zip(*samples.values(), strict=True):
        # Numbers below 100 or 1000 may meet.
        assert len(set(numbers)) > (25 if isinstance(numbers[0], float) and numbers[0] < 1 else 15)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("draw", [from_python, from_numpy, from_torch, from_all])
def test_different_epochs_draw_different_numbers(draw: Callable, persistent: bool) -> None:
    torch.manual_seed(3)
    loader = Loader(Drawing(draw), batch_size=4, num_workers=2, persistent_workers=persistent)
    first, second, third = by_index(loader), by_index(loader), by_index(loader)
    for i in range(30):
        assert len({tuple(epoch[i]) for epoch in (first, second, third)}) == 3


@pytest.mark.parametrize("collate", [None, stacked])
def test_persistent_epochs_do_not_depend_on_the_workers(collate: Any) -> None:
    def epochs(workers: int) -> list[dict]:
        torch.manual_seed(5)
        loader = Loader(
            Drawing(late), batch_size=4, num_workers=workers, persistent_workers=True, collate_fn=collate
        )
        return [by_index(loader) for _ in range(3)]

    assert epochs(1) == epochs(2) == epochs(4)


def test_an_epoch_left_early_does_not_change_the_next() -> None:
    def second_epoch(taken: int) -> dict:
        torch.manual_seed(5)
        loader = Loader(Drawing(from_all), batch_size=4, num_workers=2, persistent_workers=True)
        iterator = iter(loader)
        for _ in range(taken):
            next(iterator)
        return by_index(loader)

    assert second_epoch(1) == second_epoch(3) == second_epoch(8)


@pytest.mark.parametrize("draw", [from_all, late])
def test_what_a_worker_drew_at_its_start_does_not_matter(draw: Callable) -> None:
    assert drawn(draw, num_workers=2, worker_init_fn=from_all) == drawn(draw, num_workers=2)


def states() -> dict[str, Any]:
    kind, keys, position, *gauss = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), position, gauss),
        "torch": torch.get_rng_state(),
    }


@pytest.mark.parametrize("taken", [1, 3, 99])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"collate_fn": stacked}, {"persistent_workers": True}])
def test_the_main_process_is_left_as_torch_leaves_it(arguments: dict, shuffle: bool, taken: int) -> None:
    def run(loader_class: type) -> list[dict]:
        random.seed(1)
        np.random.seed(2)
        torch.manual_seed(3)
        loader = loader_class(Drawing(from_all), batch_size=4, num_workers=2, shuffle=shuffle, **arguments)
        left = []
        for _ in range(2):
            for number, _ in enumerate(loader, start=1):
                left.append(states())
                if number == taken:
                    break
            left.append(states())
        return left

    assert_same(run(Loader), run(TorchLoader))
