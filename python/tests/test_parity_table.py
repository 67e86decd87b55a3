"""The same batches as torch's loader for every kind of sample, number of workers and order.

One row of the table is a dataset with the arguments of its loader. Each is loaded by both loaders from the
same seed; compared are the batches, the length, the warnings and the state the global generator is left in.
Torch's result is the same for any number of workers from one up, so it is computed with one and used for all.
"""

# The names of the tests say the behaviour.

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np
import pytest
import torch
import zoo
from compare import assert_same, with_warnings
from conftest import Loader
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data._utils.collate import default_collate_fn_map

pytestmark = pytest.mark.timeout(120)

SAMPLES = {
    make.__name__: partial(zoo.Made, make)
    for make in (
        zoo.an_int,
        zoo.a_float,
        zoo.an_odd_float,
        zoo.a_bool,
        zoo.int_or_float,
        zoo.bool_or_int,
        zoo.an_enum,
        zoo.huge_int,
        zoo.float32_tensor,
        zoo.float64_tensor,
        zoo.float16_tensor,
        zoo.bfloat16_tensor,
        zoo.int8_tensor,
        zoo.uint8_tensor,
        zoo.int64_tensor,
        zoo.bool_tensor,
        zoo.complex64_tensor,
        zoo.scalar_tensor,
        zoo.empty_tensor,
        zoo.transposed_tensor,
        zoo.expanded_tensor,
        zoo.strided_tensor,
        zoo.tensor_of_two_dtypes,
        zoo.tensor_subclass,
        zoo.float32_array,
        zoo.float64_array,
        zoo.int16_array,
        zoo.uint8_array,
        zoo.bool_array,
        zoo.complex128_array,
        zoo.fortran_array,
        zoo.sliced_array,
        zoo.scalar_array,
        zoo.picture_array,
        zoo.numpy_float,
        zoo.numpy_double,
        zoo.numpy_int,
        zoo.numpy_bool,
        zoo.tensor_and_label,
        zoo.nested_tuple,
        zoo.point,
        zoo.pair_of_dicts,
        zoo.nested_dict,
        zoo.dict_of_bytes_and_lists,
        zoo.ordered_dict,
        zoo.frozen_mapping,
        zoo.stubborn_mapping,
        zoo.labelled_mapping,
        zoo.triple,
        zoo.track,
        zoo.range_sample,
        zoo.empty_containers,
        zoo.measure,
        zoo.measures,
        zoo.text,
        zoo.special_text,
        zoo.raw_bytes,
        zoo.costly,
    )
}

DATASETS = {
    "bulk": (zoo.Bulk, {}),
    "falsy bulk": (partial(zoo.Unbulk, zoo.an_int), {}),
    "subset": (lambda: Subset(zoo.Made(zoo.tensor_and_label), range(20, 2, -1)), {}),
    "subset of a bulk dataset": (lambda: Subset(zoo.Bulk(), [3, 3, 1, 0, 21]), {}),
    "concatenation": (lambda: ConcatDataset([zoo.Made(zoo.an_int, 5), range(100, 109), [7, 8]]), {}),
    "tensor dataset": (lambda: TensorDataset(torch.arange(40.0).view(20, 2), torch.arange(20)), {}),
    "stack of columns": (lambda: StackDataset(range(18), zoo.Made(zoo.text, 18)), {}),
    "stack of named columns": (lambda: StackDataset(a=range(18), b=zoo.Made(zoo.float32_array, 18)), {}),
    "list": (lambda: [float(i) for i in range(21)], {}),
    "tuple of dicts": (lambda: tuple({"i": i} for i in range(13)), {}),
    "range": (lambda: range(5, 65, 3), {}),
    "string": (lambda: "a string is a dataset", {}),
    "tensor": (lambda: torch.arange(44).view(22, 2), {}),
    "array": (lambda: np.arange(44, dtype=np.float32).reshape(22, 2), {}),
    "files": (zoo.Files, {}),
    "large samples": (partial(zoo.Made, zoo.large_tensor, 5), {"batch_size": 2}),
    "ragged samples": (partial(zoo.Made, zoo.ragged), {"collate_fn": zoo.padded}),
    "batches left as lists": (partial(zoo.Made, zoo.nested_dict), {"collate_fn": zoo.as_list}),
    "batches without a batch dimension": (
        partial(zoo.Made, zoo.float64_tensor),
        {"collate_fn": zoo.summed},
    ),
    "batches that pin themselves": (
        partial(zoo.Made, zoo.an_int),
        {"collate_fn": zoo.Bag, "pin_memory": True},
    ),
    "batches of one": (partial(zoo.Made, zoo.nested_dict, 7), {"batch_size": 1}),
    "short last batch dropped": (
        partial(zoo.Made, zoo.tensor_and_label, 23),
        {"batch_size": 4, "drop_last": True},
    ),
    "last batch full": (partial(zoo.Made, zoo.an_int, 24), {"batch_size": 6, "drop_last": True}),
    "fewer samples than a batch": (partial(zoo.Made, zoo.float32_tensor, 3), {"batch_size": 8}),
    "nothing left after dropping": (
        partial(zoo.Made, zoo.an_int, 3),
        {"batch_size": 8, "drop_last": True},
    ),
    "one sample": (partial(zoo.Made, zoo.point, 1), {"batch_size": 4}),
    "no batches": (partial(zoo.Made, zoo.nested_tuple, 9), {"batch_size": None}),
    "no batches of text": (partial(zoo.Made, zoo.text, 9), {"batch_size": None}),
    "no batches of mappings": (partial(zoo.Made, zoo.labelled_mapping, 9), {"batch_size": None}),
    "no batches of transposed tensors": (
        partial(zoo.Made, zoo.transposed_tensor, 9),
        {"batch_size": None},
    ),
    "no batches, collated by the user": (
        partial(zoo.Made, zoo.an_int, 9),
        {"batch_size": None, "collate_fn": str},
    ),
    "deep prefetch": (partial(zoo.Made, zoo.nested_dict), {"prefetch_factor": 5}),
}

# Not shuffled: the first sample of a batch decides its shape, and the order decides which one that is.
FIRST_DECIDES = {
    "sizes that differ between batches": partial(zoo.Made, zoo.two_sizes, 40),
    "structures that differ between batches": partial(zoo.Made, zoo.two_kinds, 40),
    "keys only later samples have": partial(zoo.Made, zoo.growing_dict, 40),
}


@pytest.fixture(autouse=True)
def _measures_can_be_collated() -> Iterator[None]:
    default_collate_fn_map[zoo.Measure] = zoo.collate_measures
    yield
    del default_collate_fn_map[zoo.Measure]


def load(loader_class: type, make_dataset: Callable, arguments: dict) -> tuple:
    """Batches, length, state of the generator and warnings of one epoch."""

    def epoch() -> list:
        torch.manual_seed(1234)
        loader = loader_class(make_dataset(), **arguments)
        return [list(loader), len(loader), torch.get_rng_state()]

    seen, warnings = with_warnings(epoch)
    return seen, [warning for warning in warnings if "will create" not in warning[1]]


@lru_cache(maxsize=4)
def expected(make_dataset: Callable, processes: bool, arguments: frozenset) -> tuple:
    """What torch delivers, which depends on whether there are workers and not on how many."""
    return load(TorchLoader, make_dataset, dict(arguments) | {"num_workers": int(processes)})


def assert_parity(make_dataset: Callable, workers: int, **arguments: object) -> list:
    if workers == 0:
        arguments.pop("prefetch_factor", None)
    reference, expected_warnings = expected(make_dataset, workers > 0, frozenset(arguments.items()))
    subject, warnings = load(Loader, make_dataset, arguments | {"num_workers": workers})
    assert_same(subject, reference)
    assert warnings == expected_warnings
    return subject[0]


@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("make", SAMPLES)
def test_samples_of_every_kind_are_collated_alike(make: str, workers: int, shuffle: bool) -> None:
    batches = assert_parity(SAMPLES[make], workers, batch_size=5, shuffle=shuffle)
    assert len(batches) == 5


@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("row", DATASETS)
def test_datasets_of_every_kind_are_loaded_alike(row: str, workers: int, shuffle: bool) -> None:
    make_dataset, special = DATASETS[row]
    batches = assert_parity(make_dataset, workers, **{"batch_size": 4, "shuffle": shuffle} | special)
    assert bool(batches) == (row != "nothing left after dropping")


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("row", FIRST_DECIDES)
def test_the_first_sample_of_each_batch_decides_its_shape(row: str, workers: int) -> None:
    batches = assert_parity(FIRST_DECIDES[row], workers, batch_size=4)
    assert len(batches) == 10


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_after_the_first_are_alike(workers: int) -> None:
    def epochs(loader_class: type) -> list:
        torch.manual_seed(5)
        loader = loader_class(zoo.Made(zoo.nested_dict), batch_size=5, shuffle=True, num_workers=workers)
        return [list(loader) for _ in range(3)]

    first, second, third = epochs(Loader)
    assert_same([first, second, third], epochs(TorchLoader))
    assert first[0]["label"].tolist() != second[0]["label"].tolist()
