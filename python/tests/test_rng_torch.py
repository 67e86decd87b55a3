"""With `rng="torch"` random numbers in workers are torch's, bit by bit.

By default the subject seeds each sample by its index, so that augmentations do not depend on the number of
workers. `rng="torch"` gives each worker torch's one stream instead and sends batch k to worker k modulo n.
"""

# The names of the tests say the behaviour.

from typing import Any

import pytest
import torch
import zoo
from compare import assert_same
from conftest import SUBJECT_IS_TORCH, Loader
from torch.utils.data import DataLoader as TorchLoader

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(SUBJECT_IS_TORCH, reason="torch's own loader has no rng argument"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

WORKERS = pytest.mark.parametrize("workers", [0, 1, 2, 3])


def assert_parity(dataset: Any, epochs: int = 2, seed: int = 17, **arguments: Any) -> list:
    """The subject's epochs, after comparing them and the state of the generator with torch's."""

    def load(loader_class: type, **special: Any) -> list:
        torch.manual_seed(seed)
        loader = loader_class(dataset, **arguments, **special)
        return [[list(loader), torch.get_rng_state()] for _ in range(epochs)]

    subject = load(Loader, rng="torch")
    assert_same(subject, load(TorchLoader))
    return [batches for batches, _ in subject]


@WORKERS
@pytest.mark.parametrize("shuffle", [False, True])
def test_random_numbers_of_samples(shuffle: bool, workers: int) -> None:
    # Without workers Python's and NumPy's generators are the user's; only torch's is seeded here.
    if workers == 0:
        first, second = assert_parity(zoo.Made(_torch_noise, 14), batch_size=3, shuffle=shuffle)
        assert not torch.equal(first[0], second[0])
        return
    first, second = assert_parity(zoo.Noisy(), batch_size=3, shuffle=shuffle, num_workers=workers)
    assert not torch.equal(first[0]["torch"], second[0]["torch"])


def _torch_noise(i: int) -> torch.Tensor:
    return torch.rand(2) + i


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_go_to_the_workers_in_turn(workers: int) -> None:
    (epoch,) = assert_parity(zoo.Noisy(20), epochs=1, batch_size=2, num_workers=workers)
    assert [batch["worker"].tolist() for batch in epoch] == [[k % workers] * 2 for k in range(10)]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_seed_of_a_worker_is_the_one_it_reports(workers: int) -> None:
    (epoch,) = assert_parity(zoo.Noisy(), epochs=1, batch_size=2, num_workers=workers)
    for batch in epoch:
        assert batch["seed"].tolist() == batch["initial"].tolist()
    assert len({seed for batch in epoch for seed in batch["seed"].tolist()}) == workers


@pytest.mark.parametrize("workers", [1, 2])
def test_persistent_workers_go_on_with_their_streams(workers: int) -> None:
    first, second, _third = assert_parity(
        zoo.Noisy(), epochs=3, batch_size=3, shuffle=True, num_workers=workers, persistent_workers=True
    )
    assert first[0]["seed"].tolist() == second[0]["seed"].tolist()
    assert first[0]["python"].tolist() != second[0]["python"].tolist()


@pytest.mark.parametrize("workers", [1, 2])
def test_the_init_function_draws_from_the_same_streams(workers: int) -> None:
    first, _ = assert_parity(zoo.Noisy(), batch_size=3, num_workers=workers, worker_init_fn=zoo.draw_at_start)
    assert first[0]["extra"].all()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": None},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": 4, "collate_fn": zoo.as_list},
        {"batch_size": 2, "prefetch_factor": 5},
        {"sampler": [3, 3, 3, 1]},
        {"batch_sampler": [[0, 1], [5], [2, 3, 4]]},
    ],
    ids="-".join,
)
def test_random_numbers_for_every_way_of_batching(arguments: dict, workers: int) -> None:
    first, second = assert_parity(zoo.Noisy(), num_workers=workers, **arguments)
    assert first
    assert len(first) == len(second)


@pytest.mark.parametrize("workers", [1, 2])
def test_random_numbers_follow_the_generator_of_the_loader(workers: int) -> None:
    def load(loader_class: type, **special: Any) -> list:
        generator = torch.Generator().manual_seed(23)
        loader = loader_class(
            zoo.Noisy(), batch_size=3, shuffle=True, num_workers=workers, generator=generator, **special
        )
        return [*loader, *loader, generator.get_state()]

    assert_same(load(Loader, rng="torch"), load(TorchLoader))


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_random_numbers_of_streams(persistent: bool, workers: int) -> None:
    first, second = assert_parity(
        zoo.NoisyStream(), batch_size=2, num_workers=workers, persistent_workers=persistent
    )
    assert not torch.equal(first[0]["torch"], second[0]["torch"])


@pytest.mark.parametrize("workers", [1, 2])
def test_random_numbers_after_an_epoch_left_early(workers: int) -> None:
    def load(loader_class: type, **special: Any) -> list:
        torch.manual_seed(29)
        loader = loader_class(zoo.Noisy(), batch_size=2, num_workers=workers, **special)
        seen = [next(iter(loader)), next(iter(loader))]
        return [*seen, *loader]

    assert_same(load(Loader, rng="torch"), load(TorchLoader))


def test_the_same_seed_gives_the_same_numbers_again() -> None:
    arguments = {"epochs": 1, "batch_size": 3, "num_workers": 2}
    assert_same(assert_parity(zoo.Noisy(), **arguments), assert_parity(zoo.Noisy(), **arguments))
