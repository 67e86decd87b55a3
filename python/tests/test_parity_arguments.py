"""Every argument of the constructor: what is refused and how, what it sets, what it does to the order.

The texts are written out, because users and trainers match on them, and are asked of both loaders.
"""

# The names of the tests say the behaviour.

import gc
import inspect
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
import zoo
from compare import Failure, assert_same, steps, with_warnings
from conftest import Loader
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
    default_convert,
)
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data.dataloader import _InfiniteConstantSampler

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

BOTH = pytest.mark.parametrize("loader_class", [TorchLoader, Loader], ids=["reference", "subject"])
WORKERS = pytest.mark.parametrize("workers", [0, 2])


def values(loader: Any) -> list:
    """One epoch of a loader of ints as lists."""
    return [batch.tolist() for batch in loader]


# --- what is refused ----------------------------------------------------------------------------

NEGATIVE_WORKERS = "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
NO_PREFETCH = (
    "prefetch_factor option could only be specified in multiprocessing."
    "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
)
NO_CONTEXT = (
    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
    "but got num_workers=0"
)
BAD_CONTEXT = (
    "multiprocessing_context option should specify a valid start method in "
    "['fork', 'spawn', 'forkserver'], but got multiprocessing_context='bad'"
)
NO_CONTEXT_OBJECT = (
    "multiprocessing_context option should be a valid context object or a string specifying "
    "the start method, but got multiprocessing_context=7"
)
ITERABLE = "DataLoader with IterableDataset: expected unspecified "
BATCH_SAMPLER = "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
NO_DROP = "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
STREAM = zoo.Stream(4)

REFUSED = [
    ({"num_workers": -1}, ValueError, NEGATIVE_WORKERS),
    ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
    ({"timeout": -0.5, "num_workers": 1}, ValueError, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, ValueError, NO_PREFETCH),
    ({"prefetch_factor": 0}, ValueError, NO_PREFETCH),
    ({"prefetch_factor": -1, "num_workers": 1}, ValueError, "prefetch_factor option should be non-negative"),
    ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
    ({"multiprocessing_context": "fork"}, ValueError, NO_CONTEXT),
    ({"multiprocessing_context": "bad"}, ValueError, NO_CONTEXT),
    ({"multiprocessing_context": "bad", "num_workers": 1}, ValueError, BAD_CONTEXT),
    ({"multiprocessing_context": 7, "num_workers": 1}, TypeError, NO_CONTEXT_OBJECT),
    ({"dataset": STREAM, "shuffle": True}, ValueError, ITERABLE + "shuffle option, but got shuffle=True"),
    ({"dataset": STREAM, "shuffle": 3}, ValueError, ITERABLE + "shuffle option, but got shuffle=3"),
    ({"dataset": STREAM, "sampler": [0]}, ValueError, ITERABLE + "sampler option, but got sampler=[0]"),
    (
        {"dataset": STREAM, "batch_sampler": [[0]]},
        ValueError,
        ITERABLE + "batch_sampler option, but got batch_sampler=[[0]]",
    ),
    (
        {"sampler": [0], "shuffle": True},
        ValueError,
        "sampler option is mutually exclusive with shuffle",
    ),
    ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, BATCH_SAMPLER),
    ({"batch_sampler": [[0]], "batch_size": None}, ValueError, BATCH_SAMPLER),
    ({"batch_sampler": [[0]], "shuffle": True}, ValueError, BATCH_SAMPLER),
    ({"batch_sampler": [[0]], "sampler": [0]}, ValueError, BATCH_SAMPLER),
    ({"batch_sampler": [[0]], "drop_last": True}, ValueError, BATCH_SAMPLER),
    ({"batch_size": None, "drop_last": True}, ValueError, NO_DROP),
    (
        {"dataset": [], "shuffle": True},
        ValueError,
        "num_samples should be a positive integer value, but got num_samples=0",
    ),
    *(
        (
            {"batch_size": size},
            ValueError,
            f"batch_size should be a positive integer value, but got batch_size={size}",
        )
        for size in (0, -3, True, 2.0, "4")
    ),
    (
        {"drop_last": 1},
        ValueError,
        "drop_last should be a boolean value, but got drop_last=1",
    ),
    (
        {"dataset": STREAM, "batch_size": 0},
        ValueError,
        "batch_size should be a positive integer value, but got batch_size=0",
    ),
]


@BOTH
@pytest.mark.parametrize(("arguments", "error", "text"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_refused_arguments(loader_class: type, arguments: dict, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        loader_class(**{"dataset": range(8)} | arguments)
    assert type(caught.value) is error
    assert str(caught.value) == text


# Each row breaks its own rule and all those after it that can be broken with it; its own is reported.
FIRST_OF_SEVERAL = [
    ({"num_workers": -1, "timeout": -1, "batch_size": 0}, NEGATIVE_WORKERS),
    ({"timeout": -1, "prefetch_factor": 2, "batch_size": 0}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2, "persistent_workers": True, "multiprocessing_context": "bad"}, NO_PREFETCH),
    (
        {"persistent_workers": True, "multiprocessing_context": "fork", "batch_size": 0},
        "persistent_workers option needs num_workers > 0",
    ),
    ({"multiprocessing_context": "fork", "dataset": STREAM, "shuffle": True}, NO_CONTEXT),
    (
        {"dataset": STREAM, "shuffle": True, "sampler": [0], "batch_sampler": [[0]]},
        ITERABLE + "shuffle option, but got shuffle=True",
    ),
    (
        {"dataset": STREAM, "sampler": [0], "batch_sampler": [[0]]},
        ITERABLE + "sampler option, but got sampler=[0]",
    ),
    (
        {"sampler": [0], "shuffle": True, "batch_sampler": [[0]], "batch_size": None, "drop_last": True},
        "sampler option is mutually exclusive with shuffle",
    ),
    ({"batch_sampler": [[0]], "batch_size": None, "drop_last": True}, BATCH_SAMPLER),
    ({"dataset": [], "shuffle": True, "batch_size": None, "drop_last": True}, NO_DROP),
    (
        {"dataset": [], "shuffle": True, "batch_size": 0},
        "num_samples should be a positive integer value, but got num_samples=0",
    ),
]


@BOTH
@pytest.mark.parametrize(("arguments", "text"), FIRST_OF_SEVERAL)
def test_of_several_mistakes_the_same_one_is_reported(loader_class: type, arguments: dict, text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared as a whole
        loader_class(**{"dataset": range(8)} | arguments)
    assert str(caught.value) == text


@BOTH
def test_the_context_is_checked_when_set_later(loader_class: type) -> None:
    loader = loader_class(range(4), num_workers=1)
    with pytest.raises(ValueError) as bad_name:  # noqa: PT011
        loader.multiprocessing_context = "bad"
    assert str(bad_name.value) == BAD_CONTEXT
    with pytest.raises(TypeError) as bad_type:
        loader.multiprocessing_context = 7
    assert str(bad_type.value) == NO_CONTEXT_OBJECT
    loader.multiprocessing_context = "spawn"
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    loader.multiprocessing_context = None
    assert loader.multiprocessing_context is None
    with pytest.raises(ValueError) as no_workers:  # noqa: PT011
        loader_class(range(4)).multiprocessing_context = "fork"
    assert str(no_workers.value) == NO_CONTEXT


# Torch's half-made iterator complains when it is collected.
@BOTH
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_prefetch_factor_of_zero_is_refused_by_iter(loader_class: type) -> None:
    loader = loader_class(range(4), num_workers=1, prefetch_factor=0)
    with pytest.raises(AssertionError) as caught:
        iter(loader)
    text = "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
    assert str(caught.value) == text
    del caught
    gc.collect()


@BOTH
def test_a_timeout_without_workers_is_refused_by_iter(loader_class: type) -> None:
    loader = loader_class(range(4), timeout=1)
    assert loader.timeout == 1
    with pytest.raises(AssertionError) as caught:
        iter(loader)
    assert str(caught.value) == "_SingleProcessDataLoaderIter requires timeout == 0"


@BOTH
@pytest.mark.parametrize(
    "attribute", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_some_attributes_cannot_be_set_afterwards(loader_class: type, attribute: str) -> None:
    class Mine(loader_class):
        pass

    for cls, name in ((loader_class, "DataLoader"), (Mine, "Mine")):
        loader = cls(range(4))
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            setattr(loader, attribute, getattr(loader, attribute))
        assert str(caught.value) == f"{attribute} attribute should not be set after {name} is initialized"


# --- the signature and the class ----------------------------------------------------------------


def test_the_signature_has_all_arguments_in_order_with_their_defaults() -> None:
    reference = inspect.signature(TorchLoader).parameters
    subject = inspect.signature(Loader).parameters
    ordered = [name for name in subject if name in reference]
    assert ordered == list(reference)
    for name, parameter in reference.items():
        assert subject[name].kind == parameter.kind, name
        assert subject[name].default == parameter.default, name
    added = [subject[name] for name in subject if name not in reference]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in added)


@BOTH
def test_thirteen_positions_and_no_more(loader_class: type) -> None:
    generator = torch.Generator()
    thirteen = [range(9), 2, False, None, None, 0, zoo.as_list, False, True, 0, None, None, generator]
    loader = loader_class(*thirteen)
    assert list(loader) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert loader.generator is generator
    with pytest.raises(TypeError):
        loader_class(*thirteen, 2)


@BOTH
def test_unknown_arguments_are_refused(loader_class: type) -> None:
    with pytest.raises(TypeError, match="no_such_argument"):
        loader_class(range(4), no_such_argument=1)
    with pytest.raises(TypeError, match="dataset"):
        loader_class()


@BOTH
def test_the_class_can_be_subscripted(loader_class: type) -> None:
    alias = loader_class[int]
    assert alias.__origin__ is loader_class
    loader = alias(range(4), batch_size=2)
    assert type(loader) is loader_class
    assert values(loader) == [[0, 1], [2, 3]]


def test_a_loader_is_a_torch_loader() -> None:
    assert issubclass(Loader, TorchLoader)
    assert Loader.__name__ == "DataLoader"
    assert isinstance(Loader(range(3)), TorchLoader)


@BOTH
def test_a_subclass_can_change_arguments_and_iteration(loader_class: type) -> None:
    class Doubled(loader_class):
        def __init__(self, dataset: Any, **arguments: Any) -> None:
            self.early = "set before"
            super().__init__(dataset, batch_size=2, **arguments)

        def __iter__(self) -> Iterator:
            for batch in super().__iter__():
                yield batch * 2

    for workers in (0, 1):
        loader = Doubled(range(4), num_workers=workers)
        assert loader.early == "set before"
        assert values(loader) == [[0, 2], [4, 6]]


# --- attributes ---------------------------------------------------------------------------------

ATTRIBUTES = (
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "pin_memory_device",
    "timeout",
    "worker_init_fn",
    "in_order",
    "drop_last",
    "generator",
    "collate_fn",
    "persistent_workers",
    "_auto_collation",
    "_dataset_kind",
    "_iterator",
    "_IterableDataset_len_called",
    "_DataLoader__initialized",
)

CONFIGURATIONS: list[dict] = [
    {},
    {"batch_size": 4, "drop_last": True},
    {"batch_size": None},
    {"shuffle": True},
    {"shuffle": 1},
    {"shuffle": False},
    {"sampler": [3, 1, 2]},
    {"sampler": [3, 1, 2], "batch_size": None},
    {"batch_sampler": [[3, 1], [2]]},
    {"num_workers": 2},
    {"num_workers": 2, "prefetch_factor": 7, "persistent_workers": True, "timeout": 2.5},
    {"num_workers": 2, "prefetch_factor": 0},
    {"num_workers": 1, "in_order": False, "worker_init_fn": zoo.tag_dataset},
    {"collate_fn": zoo.as_list},
    {"pin_memory": True, "pin_memory_device": "cuda"},
    {"dataset": zoo.Stream(8)},
    {"dataset": zoo.Stream(8), "batch_size": None},
    {"dataset": zoo.Stream(8), "batch_size": 3, "drop_last": True, "shuffle": False},
]


@pytest.mark.parametrize("arguments", CONFIGURATIONS, ids=lambda row: "-".join(row) or "defaults")
def test_attributes_hold_what_was_given_or_filled_in(arguments: dict) -> None:
    arguments = {"dataset": range(8)} | arguments
    reference, subject = TorchLoader(**arguments), Loader(**arguments)
    for attribute in ATTRIBUTES:
        mine, theirs = getattr(subject, attribute), getattr(reference, attribute)
        assert mine == theirs, attribute
        # An int that was not asked for says so in its class, but is an int.
        assert type(mine) is type(theirs) or (attribute == "prefetch_factor" and isinstance(mine, int)), (
            attribute
        )
    assert subject.dataset is arguments["dataset"]
    assert subject.multiprocessing_context is None
    for attribute in ("sampler", "batch_sampler", "_index_sampler"):
        assert isinstance(getattr(subject, attribute), type(getattr(reference, attribute))), attribute


@BOTH
def test_the_samplers_that_are_filled_in(loader_class: type) -> None:
    generator = torch.Generator()
    plain = loader_class(range(8), batch_size=3, drop_last=True)
    assert isinstance(plain.sampler, SequentialSampler)
    assert isinstance(plain.batch_sampler, BatchSampler)
    assert plain.batch_sampler.sampler is plain.sampler
    assert (plain.batch_sampler.batch_size, plain.batch_sampler.drop_last) == (3, True)
    shuffled = loader_class(range(8), shuffle=True, generator=generator)
    assert isinstance(shuffled.sampler, RandomSampler)
    assert shuffled.sampler.generator is generator
    assert not shuffled.sampler.replacement
    own = loader_class(range(8), batch_sampler=[[1]])
    assert own.batch_size is None
    assert own.drop_last is False
    assert own.batch_sampler == [[1]]
    assert isinstance(own.sampler, SequentialSampler)
    single = loader_class(range(8), batch_size=None)
    assert single.batch_sampler is None
    assert single._index_sampler is single.sampler
    stream = loader_class(zoo.Stream(8), batch_size=2)
    assert isinstance(stream.sampler, _InfiniteConstantSampler)
    assert isinstance(stream.batch_sampler, BatchSampler)


@BOTH
def test_the_collate_function_is_filled_in(loader_class: type) -> None:
    assert loader_class(range(8)).collate_fn is default_collate
    assert loader_class(range(8), batch_sampler=[[1]]).collate_fn is default_collate
    assert loader_class(range(8), batch_size=None).collate_fn is default_convert
    assert loader_class(zoo.Stream(8), batch_size=None).collate_fn is default_convert
    assert loader_class(range(8), collate_fn=zoo.as_list).collate_fn is zoo.as_list


@BOTH
def test_a_context_given_by_name_is_stored_as_an_object(loader_class: type) -> None:
    loader = loader_class(range(4), num_workers=1, multiprocessing_context="spawn")
    assert isinstance(loader.multiprocessing_context, multiprocessing.context.BaseContext)
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    context = multiprocessing.get_context("fork")
    assert loader_class(range(4), num_workers=1, multiprocessing_context=context).multiprocessing_context is (
        context
    )


@BOTH
def test_a_loader_can_be_rebuilt_from_its_attributes(loader_class: type) -> None:
    loader = loader_class(range(10), batch_size=3, shuffle=True, drop_last=True)
    names = [
        name
        for name in inspect.signature(TorchLoader).parameters
        if hasattr(loader, name) and name not in ("batch_size", "sampler", "drop_last")
    ]
    rebuilt = type(loader)(**{name: getattr(loader, name) for name in names})
    torch.manual_seed(3)
    first = values(loader)
    torch.manual_seed(3)
    assert values(rebuilt) == first


# --- length -------------------------------------------------------------------------------------


@BOTH
@WORKERS
def test_lengths(loader_class: type, workers: int) -> None:
    def length(dataset: Any, **arguments: Any) -> int:
        return len(loader_class(dataset, num_workers=workers, **arguments))

    assert length(range(10)) == 10
    assert length(range(10), batch_size=4) == 3
    assert length(range(10), batch_size=4, drop_last=True) == 2
    assert length(range(10), batch_size=None) == 10
    assert length(range(10), sampler=[1, 2, 3], batch_size=2) == 2
    assert length(range(10), batch_sampler=[[1], [2, 3]]) == 2
    assert length([]) == 0
    assert length(zoo.SizedStream(99, 10), batch_size=4) == 3
    assert length(zoo.SizedStream(99, 10), batch_size=4, drop_last=True) == 2
    assert length(zoo.SizedStream(99, 10), batch_size=None) == 10


@BOTH
def test_the_length_follows_a_growing_dataset(loader_class: type) -> None:
    dataset = list(range(4))
    loader = loader_class(dataset, batch_size=2)
    assert len(loader) == 2
    dataset.extend([4, 5, 6])
    assert len(loader) == 4
    assert values(loader) == [[0, 1], [2, 3], [4, 5], [6]]
    dataset.append(7)
    assert values(loader)[-1] == [6, 7]


@BOTH
def test_without_a_length_there_is_none(loader_class: type) -> None:
    for loader in (
        loader_class(zoo.Lengthless()),
        loader_class(zoo.Stream(4)),
        loader_class(range(4), sampler=iter([1, 2])),
        loader_class(range(4), batch_sampler=zoo.Endless()),
    ):
        with pytest.raises(TypeError, match=r"has no len\(\)"):
            len(loader)
    loader = loader_class(zoo.Lengthless(), sampler=[5, 900], batch_size=2)
    assert values(loader) == [[5, 900]]


@BOTH
@WORKERS
def test_the_iterator_has_the_length_of_the_index_sampler(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(range(10), batch_size=4, num_workers=workers))
    assert len(iterator) == 3
    next(iterator)
    assert len(iterator) == 3


# --- assignments take effect at the next iter() -------------------------------------------------


@BOTH
@WORKERS
def test_a_new_collate_function_takes_effect_at_the_next_iter(loader_class: type, workers: int) -> None:
    loader = loader_class(range(4), batch_size=2, num_workers=workers)
    running = iter(loader)
    loader.collate_fn = zoo.as_list
    assert next(running).tolist() == [0, 1]
    assert list(loader) == [[0, 1], [2, 3]]
    loader.collate_fn = default_collate
    assert values(loader) == [[0, 1], [2, 3]]


@BOTH
def test_a_new_number_of_workers_takes_effect_at_the_next_iter(loader_class: type) -> None:
    loader = loader_class(zoo.Who(6), batch_size=2)
    assert {worker for batch in loader for worker in batch["worker"].tolist()} == {-1}
    loader.num_workers = 2
    loader.prefetch_factor = 2
    iterator = iter(loader)
    assert len(iterator._workers) == 2
    assert {worker for batch in iterator for worker in batch["worker"].tolist()} <= {0, 1}
    loader.num_workers = 0
    assert {worker for batch in loader for worker in batch["worker"].tolist()} == {-1}


@BOTH
def test_a_new_worker_init_function_takes_effect_at_the_next_iter(loader_class: type) -> None:
    loader = loader_class(zoo.Who(4), batch_size=2, num_workers=1)
    assert next(iter(loader))["tag"].tolist() == [-1, -1]
    loader.worker_init_fn = zoo.tag_dataset
    assert next(iter(loader))["tag"].tolist() == [100, 100]


@BOTH
def test_a_new_context_and_prefetch_factor_take_effect_at_the_next_iter(loader_class: type) -> None:
    sampler = zoo.Recorder()
    loader = loader_class(range(30), batch_sampler=sampler, num_workers=1)
    iterator = iter(loader)
    assert sampler.drawn == 2
    del iterator
    sampler.drawn = 0
    loader.prefetch_factor = 5
    loader.multiprocessing_context = "fork"
    iterator = iter(loader)
    assert sampler.drawn == 5
    assert next(iterator).tolist() == [0, 1]


def test_a_new_generator_takes_effect_at_the_next_iter() -> None:
    def states(loader_class: type) -> list:
        torch.manual_seed(0)
        loader = loader_class(range(6), shuffle=True)
        loader.generator = torch.Generator().manual_seed(5)
        epoch = values(loader)
        return [epoch, torch.get_rng_state(), loader.generator.get_state()]

    assert_same(states(Loader), states(TorchLoader))


# --- warnings -----------------------------------------------------------------------------------


def test_too_many_workers_are_warned_of_at_construction_and_at_each_iter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    text = (
        "This DataLoader will create 2 worker processes in total. Our suggested max number of worker in "
        "current system is 1, which is smaller than what this DataLoader is going to create. Please be "
        "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the "
        "worker number to avoid potential slowness/freeze if necessary."
    )
    for loader_class in (TorchLoader, Loader):
        loader, at_construction = with_warnings(lambda cls=loader_class: cls(range(4), num_workers=2))
        assert at_construction == [(UserWarning, text)]
        _, at_iter = with_warnings(lambda loader=loader: [list(loader), list(loader)])
        assert at_iter == [(UserWarning, text)] * 2
        _, when_asked = with_warnings(loader.check_worker_number_rationality)
        assert when_asked == [(UserWarning, text)]
        _, none = with_warnings(lambda cls=loader_class: list(cls(range(4), num_workers=1)))
        assert none == []
        persistent, _ = with_warnings(
            lambda cls=loader_class: cls(range(4), num_workers=2, persistent_workers=True)
        )
        _, once = with_warnings(lambda loader=persistent: [list(loader), list(loader)])
        assert once == [(UserWarning, text)]


NO_ACCELERATOR = (
    "'pin_memory' argument is set as true but no accelerator is found, "
    "then device pinned memory won't be used."
)
OLD_DEVICE = (
    "pin_memory_device is deprecated, the current accelerator will be used as the device,"
    "ignore pin_memory_device='cuda:1'."
)


@BOTH
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
def test_pinning_without_an_accelerator_is_warned_of(loader_class: type, workers: int) -> None:
    def seen(**arguments: Any) -> list:
        loader, at_construction = with_warnings(
            lambda: loader_class([1.0, 2.0], num_workers=workers, **arguments)
        )
        assert at_construction == []
        batches, at_iter = with_warnings(lambda: list(loader))
        assert not batches[0].is_pinned()
        return [text for category, text in at_iter if category is UserWarning]

    assert seen(pin_memory=True) == [NO_ACCELERATOR]
    assert seen(pin_memory=True, pin_memory_device="cuda:1") == [OLD_DEVICE, NO_ACCELERATOR]
    assert seen(pin_memory_device="cuda:1") == []


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_that_pin_themselves_are_asked_to(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A pretended accelerator: enough for batches that hold no tensor, and not of a kind whose driver is asked.
    monkeypatch.setattr(torch.accelerator, "is_available", lambda *_, **__: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_, **__: torch.device("xpu"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda _index: None)

    def batches(loader_class: type) -> list:
        return list(
            loader_class(range(10), batch_size=4, collate_fn=zoo.Bag, num_workers=workers, pin_memory=True)
        )

    subject = batches(Loader)
    assert_same(subject, batches(TorchLoader))
    assert all(batch.pinned for batch in subject)


# --- start methods ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_start_by_every_method(method: str) -> None:
    def epoch(loader_class: type) -> list:
        torch.manual_seed(2)
        return list(
            loader_class(
                zoo.Made(zoo.nested_dict, 7),
                batch_size=3,
                shuffle=True,
                num_workers=1,
                multiprocessing_context=method,
                worker_init_fn=zoo.ignore_worker,
            )
        )

    assert_same(epoch(Loader), epoch(TorchLoader))


def test_workers_start_from_a_context_object() -> None:
    context = multiprocessing.get_context("fork")
    loader = Loader(range(5), batch_size=2, num_workers=2, multiprocessing_context=context)
    assert values(loader) == [[0, 1], [2, 3], [4]]


# --- timeout ------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("timeout", [1, 0.5])
def test_a_late_batch_is_an_error_and_is_not_lost(loader_class: type, timeout: float) -> None:
    gate = multiprocessing.get_context("fork").Event()
    iterator = iter(loader_class(zoo.Gated(gate), batch_size=2, num_workers=1, timeout=timeout))
    try:
        with pytest.raises(RuntimeError) as caught:
            next(iterator)
        assert str(caught.value) == f"DataLoader timed out after {timeout} seconds"
    finally:
        gate.set()
    # A batch may be late again on a slow machine; what counts is that it comes.
    entries = steps(iterator)
    late = [entry for entry in entries if isinstance(entry, Failure)]
    assert all("timed out" in failure.text for failure in late)
    on_time = [entry.tolist() for entry in entries if isinstance(entry, torch.Tensor)]
    assert on_time == [[0, 1], [2, 3]]


@BOTH
def test_a_timeout_that_is_not_reached_changes_nothing(loader_class: type) -> None:
    assert values(loader_class(range(5), batch_size=2, num_workers=2, timeout=60)) == [[0, 1], [2, 3], [4]]


# --- samplers -----------------------------------------------------------------------------------

ODD_INDICES = [
    3,
    -1,
    True,
    None,
    2.5,
    "key",
    b"key",
    (1, 2),
    np.int64(4),
    torch.tensor(5),
    ("nested", (1,)),
    frozenset({1}),
    slice(1, 3),
]


@WORKERS
@pytest.mark.parametrize("dataset", [zoo.Echo(), zoo.BulkEcho()], ids=["single", "bulk"])
def test_indices_of_any_type_reach_the_dataset(dataset: Any, workers: int) -> None:
    def batches(loader_class: type) -> list:
        return list(loader_class(dataset, sampler=ODD_INDICES, batch_size=5, num_workers=workers))

    subject = batches(Loader)
    assert_same(subject, batches(TorchLoader))
    assert sum(len(batch[0]) for batch in subject) == len(ODD_INDICES)


@WORKERS
@pytest.mark.parametrize(
    "batch",
    [[1, 2], (1, 2), range(3), np.array([2, 1]), torch.tensor([2, 1]), {4: "a", 5: "b"}, "text", []],
    ids=lambda batch: type(batch).__name__ + str(len(batch)),
)
def test_batches_of_indices_reach_the_dataset_as_they_are(batch: Any, workers: int) -> None:
    def epoch(loader_class: type, dataset: Any, collate_fn: Callable | None) -> list:
        return list(
            loader_class(dataset, batch_sampler=[batch, batch], num_workers=workers, collate_fn=collate_fn)
        )

    for dataset in (zoo.Echo(), zoo.BulkEcho()):
        for collate_fn in (zoo.as_list, None) if len(batch) else (zoo.as_list,):
            subject = epoch(Loader, dataset, collate_fn)
            assert_same(subject, epoch(TorchLoader, dataset, collate_fn))
            assert len(subject) == 2


@WORKERS
def test_string_keys_of_a_dict_dataset(workers: int) -> None:
    dataset = {"one": torch.tensor([1.0]), "two": torch.tensor([2.0]), "six": torch.tensor([6.0])}

    def batches(loader_class: type) -> list:
        return list(loader_class(dataset, sampler=dataset.keys(), batch_size=2, num_workers=workers))

    subject = batches(Loader)
    assert_same(subject, batches(TorchLoader))
    assert subject[1].tolist() == [[6.0]]


@WORKERS
def test_lists_of_indices_load_in_bulk_without_auto_batching(workers: int) -> None:
    dataset = torch.arange(20.0).view(10, 2)

    def batches(loader_class: type) -> list:
        sampler = BatchSampler(SequentialSampler(dataset), 4, drop_last=False)
        return list(loader_class(dataset, sampler=sampler, batch_size=None, num_workers=workers))

    subject = batches(Loader)
    assert_same(subject, batches(TorchLoader))
    assert [len(batch) for batch in subject] == [4, 4, 2]


@BOTH
@WORKERS
def test_the_indices_of_the_default_samplers_are_python_ints(loader_class: type, workers: int) -> None:
    for shuffle in (False, True):
        (batch,) = loader_class(zoo.Echo(), batch_size=10, shuffle=shuffle, num_workers=workers)
        assert set(batch[0]) == {"int"}


@BOTH
@WORKERS
def test_any_iterable_is_a_sampler(loader_class: type, workers: int) -> None:
    def epoch(**arguments: Any) -> list:
        return values(loader_class(range(100), num_workers=workers, **arguments))

    assert epoch(sampler={7: "a", 2: "b"}, batch_size=2) == [[7, 2]]
    assert epoch(sampler=(i for i in (4, 5, 6)), batch_size=2) == [[4, 5], [6]]
    assert epoch(sampler=torch.tensor([8, 9]), batch_size=1) == [[8], [9]]
    assert epoch(sampler=[], batch_size=2) == []
    assert epoch(batch_sampler=([i, i + 1] for i in (0, 50))) == [[0, 1], [50, 51]]
    assert epoch(batch_sampler={(1, 2): 0, (3,): 0}) == [[1, 2], [3]]


@BOTH
@WORKERS
def test_a_sampler_that_can_be_read_once_is_read_once(loader_class: type, workers: int) -> None:
    loader = loader_class(range(9), sampler=iter([1, 2]), num_workers=workers)
    assert values(loader) == [[1], [2]]
    assert values(loader) == []


@BOTH
@WORKERS
def test_a_sampler_without_an_end_is_read_as_far_as_needed(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(range(10), sampler=zoo.Endless(), batch_size=4, num_workers=workers))
    taken = [next(iterator).tolist() for _ in range(6)]
    assert list(chain.from_iterable(taken)) == [i % 10 for i in range(24)]


@BOTH
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_the_sampler_is_drawn_prefetch_factor_batches_ahead(loader_class: type, factor: int) -> None:
    sampler = zoo.Recorder()
    iterator = iter(loader_class(range(30), batch_sampler=sampler, num_workers=2, prefetch_factor=factor))
    assert sampler.drawn == 2 * factor
    for yielded in range(1, 6):
        assert next(iterator).tolist() == [yielded - 1, yielded]
        assert sampler.drawn == 2 * factor + yielded


@BOTH
def test_without_workers_the_sampler_is_drawn_as_needed(loader_class: type) -> None:
    sampler = zoo.Recorder()
    iterator = iter(loader_class(range(30), batch_sampler=sampler))
    assert sampler.drawn == 0
    next(iterator)
    assert sampler.drawn == 1


@BOTH
@WORKERS
def test_the_sampler_runs_where_the_loader_is_iterated(loader_class: type, workers: int) -> None:
    sampler = zoo.Recorder()
    list(loader_class(range(30), batch_sampler=sampler, num_workers=workers))
    assert sampler.places == {(os.getpid(), threading.get_ident())}


SAMPLERS: dict[str, Callable[[torch.Generator | None], Any]] = {
    "random": lambda generator: RandomSampler(range(20), generator=generator),
    "random, some": lambda generator: RandomSampler(range(20), num_samples=7, generator=generator),
    "random, more than there are": lambda generator: RandomSampler(
        range(20), num_samples=50, generator=generator
    ),
    "random, twice": lambda generator: RandomSampler(range(20), num_samples=40, generator=generator),
    "random with replacement": lambda generator: RandomSampler(
        range(20), replacement=True, generator=generator
    ),
    "random with replacement, many": lambda generator: RandomSampler(
        range(20), replacement=True, num_samples=70, generator=generator
    ),
    "weighted": lambda generator: WeightedRandomSampler(
        [i % 4 + 0.5 for i in range(20)], 30, generator=generator
    ),
    "weighted without replacement": lambda generator: WeightedRandomSampler(
        [i + 1.0 for i in range(20)], 9, replacement=False, generator=generator
    ),
    "subset": lambda generator: SubsetRandomSampler([3, 4, 19, 0, 7], generator=generator),
}


@WORKERS
@pytest.mark.parametrize("own_generator", [False, True], ids=["global", "own generator"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_random_samplers_draw_alike(name: str, own_generator: bool, workers: int) -> None:
    def epochs(loader_class: type) -> list:
        torch.manual_seed(11)
        generator = torch.Generator().manual_seed(12) if own_generator else None
        loader = loader_class(range(20), sampler=SAMPLERS[name](generator), batch_size=6, num_workers=workers)
        seen = [values(loader) for _ in range(2)]
        return [seen, torch.get_rng_state(), generator.get_state() if generator else None]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert subject[0][0] != subject[0][1]


@WORKERS
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_distributed_sampler(rank: int, drop_last: bool, workers: int) -> None:
    def epochs(loader_class: type) -> list:
        sampler = DistributedSampler(range(20), num_replicas=3, rank=rank, seed=4, drop_last=drop_last)
        loader = loader_class(range(20), sampler=sampler, batch_size=4, num_workers=workers)
        seen = []
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)
            seen.append(values(loader))
        return [*seen, len(loader)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert subject[0] != subject[1]
    assert sum(len(batch) for batch in subject[0]) == (6 if drop_last else 7)


# --- random state -------------------------------------------------------------------------------


def _nothing(loader: Any) -> None:
    """The loader is not iterated."""


def _only_iter(loader: Any) -> None:
    iter(loader)


def _one_batch(loader: Any) -> None:
    next(iter(loader))


def _one_epoch(loader: Any) -> None:
    list(loader)


def _two_epochs(loader: Any) -> None:
    list(loader)
    list(loader)


def _two_iterators(loader: Any) -> None:
    for _ in zip(loader, loader, strict=True):
        pass


@pytest.mark.parametrize("use", [_nothing, _only_iter, _one_batch, _one_epoch, _two_epochs, _two_iterators])
@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1}, {"num_workers": 2}], ids=str)
@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("own_generator", [False, True], ids=["global", "own generator"])
def test_the_generators_are_left_in_the_same_state(
    use: Callable, arguments: dict, shuffle: bool, own_generator: bool
) -> None:
    def states(loader_class: type) -> list:
        torch.manual_seed(21)
        generator = torch.Generator().manual_seed(22) if own_generator else None
        use(loader_class(range(10), batch_size=3, shuffle=shuffle, generator=generator, **arguments))
        return [torch.get_rng_state(), generator.get_state() if generator else None]

    torch.manual_seed(21)
    untouched = torch.get_rng_state()
    subject = states(Loader)
    assert_same(subject, states(TorchLoader))
    drawn_from_global = use is not _nothing and not own_generator
    assert torch.equal(subject[0], untouched) != drawn_from_global


def test_a_persistent_loader_draws_its_seed_once() -> None:
    def states(loader_class: type) -> list:
        torch.manual_seed(31)
        loader = loader_class(range(10), batch_size=3, shuffle=True, num_workers=2, persistent_workers=True)
        return [[values(loader), torch.get_rng_state()] for _ in range(3)]

    assert_same(states(Loader), states(TorchLoader))


@WORKERS
def test_the_base_seed_is_drawn_alike(workers: int) -> None:
    def seed(loader_class: type) -> int:
        torch.manual_seed(41)
        return iter(loader_class(range(4), num_workers=workers))._base_seed

    assert seed(Loader) == seed(TorchLoader)
