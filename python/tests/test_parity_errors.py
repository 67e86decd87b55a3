"""What goes wrong goes wrong as with torch's loader: type, text, place, and what comes after it.

A worker's error carries the number of the worker. Where rows of one batch are spread over the workers that
number is the subject's own affair; it is compared with one worker and where batches are made as a whole.
"""

# The names of the tests say the behaviour.

from collections.abc import Callable
from typing import Any

import pytest
import torch
import zoo
from compare import Failure, assert_same, assert_same_journal, failure_of, journal, with_warnings
from conftest import Loader
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]

BOTH = pytest.mark.parametrize("loader_class", [TorchLoader, Loader], ids=["reference", "subject"])
WORKERS = pytest.mark.parametrize("workers", [0, 1, 2])


def assert_parity(dataset: Any, worker_known: bool = False, **arguments: Any) -> list:
    """The subject's journal, after comparing it with torch's."""
    reference = journal(TorchLoader(dataset, **arguments))
    subject = journal(Loader(dataset, **arguments))
    assert_same_journal(subject, reference, worker_known or arguments.get("num_workers") == 1)
    return subject


# --- exceptions of the dataset ------------------------------------------------------------------

RAISERS = [
    zoo.raise_value,
    zoo.raise_key,
    zoo.raise_key_like,
    zoo.raise_index,
    zoo.raise_os,
    zoo.raise_missing_file,
    zoo.raise_unicode,
    zoo.raise_zero_division,
    zoo.raise_plain,
    zoo.raise_two_arguments,
    zoo.raise_keyword,
    zoo.raise_picky,
    zoo.raise_message,
    zoo.raise_without_text,
    zoo.raise_assertion,
    zoo.raise_not_implemented,
    zoo.raise_chained,
    zoo.raise_noted,
]


@WORKERS
@pytest.mark.parametrize("fail", RAISERS, ids=lambda fail: fail.__name__)
def test_an_exception_in_a_sample_fails_its_batch_and_no_other(fail: Callable, workers: int) -> None:
    entries = assert_parity(zoo.Faulty(fail), batch_size=4, num_workers=workers)
    assert [isinstance(entry, Failure) for entry in entries] == [False, True, False]
    if workers:
        text = entries[1].text.strip("'")
        assert text.startswith("Caught ")
        assert "Traceback (most recent call last):" in text
        assert f"in {fail.__name__}" in text
        assert "in __getitem__" in text


@BOTH
def test_the_text_of_a_worker_error_in_full(loader_class: type) -> None:
    loader = loader_class(zoo.Faulty(zoo.raise_value, bad=[0]), num_workers=1)
    failure = failure_of(lambda: list(loader))
    assert failure.type is ValueError
    lines = failure.text.splitlines()
    assert lines[0] == "Caught ValueError in DataLoader worker process 0."
    assert lines[1] == "Original Traceback (most recent call last):"
    assert lines[-1] == "ValueError: bad sample 0"
    assert lines[-2].strip() == 'raise ValueError(f"bad sample {i}")'
    assert failure.arguments == (failure.text,)


@BOTH
def test_the_text_of_a_key_error_can_be_read(loader_class: type) -> None:
    failure = failure_of(lambda: list(loader_class(zoo.Faulty(zoo.raise_key), num_workers=1)))
    assert failure.type is KeyError
    assert failure.text.startswith("Caught KeyError in DataLoader worker process 0.\nOriginal Traceback ")
    assert failure.last_line == "KeyError: 'key 5'"
    assert not failure.quoted
    derived = failure_of(lambda: list(loader_class(zoo.Faulty(zoo.raise_key_like), num_workers=1)))
    assert derived.type is zoo.KeyLikeError
    assert derived.caught == "KeyLikeError"
    assert derived.quoted


@BOTH
@pytest.mark.parametrize(
    "fail",
    [zoo.raise_two_arguments, zoo.raise_keyword, zoo.raise_picky, zoo.raise_unicode],
)
def test_an_exception_that_cannot_be_made_from_a_text_becomes_a_runtime_error(
    loader_class: type, fail: Callable
) -> None:
    failure = failure_of(lambda: list(loader_class(zoo.Faulty(fail), num_workers=1)))
    assert failure.type is RuntimeError
    assert failure.wrapped
    assert failure.caught != "RuntimeError"
    assert failure.context_suppressed


@BOTH
def test_an_exception_with_a_message_field_is_made_by_that_field(loader_class: type) -> None:
    failure = failure_of(lambda: list(loader_class(zoo.Faulty(zoo.raise_message), num_workers=1)))
    assert failure.type is zoo.MessageError
    assert failure.caught == "MessageError"
    assert failure.arguments == (failure.text,)


@BOTH
def test_causes_and_notes_stand_in_the_text(loader_class: type) -> None:
    chained = failure_of(lambda: list(loader_class(zoo.Faulty(zoo.raise_chained), num_workers=1)))
    assert "ZeroDivisionError: division by zero" in chained.text
    assert "The above exception was the direct cause" in chained.text
    assert chained.last_line == "ValueError: chained 5"
    noted = failure_of(lambda: list(loader_class(zoo.Faulty(zoo.raise_noted), num_workers=1)))
    assert noted.last_line == "a note"


@WORKERS
def test_of_several_bad_samples_in_a_batch_the_first_is_reported(workers: int) -> None:
    dataset = zoo.Faulty(zoo.raise_value, bad=[6, 1, 3, 7, 8, 9, 10, 11])
    entries = assert_parity(dataset, batch_size=4, num_workers=workers)
    reported = [failure.last_line.removeprefix("ValueError: ") for failure in entries]
    assert reported == ["bad sample 1", "bad sample 6", "bad sample 8"]


@WORKERS
def test_every_batch_may_fail(workers: int) -> None:
    entries = assert_parity(zoo.Faulty(zoo.raise_plain, range(12)), batch_size=2, num_workers=workers)
    assert len(entries) == 6
    assert all(entry.type is zoo.PlainError for entry in entries)


@WORKERS
def test_errors_without_auto_batching(workers: int) -> None:
    entries = assert_parity(zoo.Faulty(zoo.raise_key), batch_size=None, num_workers=workers)
    assert [isinstance(entry, Failure) for entry in entries].index(True) == 5


@WORKERS
def test_errors_of_a_dataset_that_fetches_in_bulk(workers: int) -> None:
    entries = assert_parity(zoo.FaultyBulk(zoo.raise_value), batch_size=4, num_workers=workers)
    assert entries[1].last_line.endswith("bad sample 5")


@BOTH
@WORKERS
def test_a_for_loop_ends_with_the_error_and_the_next_epoch_is_whole(loader_class: type, workers: int) -> None:
    for persistent in (False, True) if workers else (False,):
        dataset = zoo.Faulty(zoo.raise_value)
        loader = loader_class(dataset, batch_size=4, num_workers=workers, persistent_workers=persistent)
        for _ in range(2):
            seen: list = []
            failure = failure_of(lambda: seen.extend(batch.tolist() for batch in loader))  # noqa: B023
            assert failure.type is ValueError
            assert failure.last_line.endswith("bad sample 5")
            assert seen == [[0, 1, 2, 3]]


@BOTH
@WORKERS
def test_stop_iteration_of_a_sample_ends_the_loop_but_not_the_iterator(
    loader_class: type, workers: int
) -> None:
    loader = loader_class(zoo.Faulty(zoo.raise_stop), batch_size=4, num_workers=workers)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3]]
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2, 3]
    assert failure_of(lambda: next(iterator)).type is StopIteration
    assert next(iterator).tolist() == [8, 9, 10, 11]
    assert failure_of(lambda: next(iterator)).type is StopIteration


@WORKERS
def test_an_index_out_of_range_of_a_list(workers: int) -> None:
    entries = assert_parity([1, 2, 3], sampler=[0, 1, 99, 2], batch_size=2, num_workers=workers)
    assert entries[1].type is IndexError
    assert entries[1].last_line.endswith("list index out of range")


@WORKERS
def test_a_dataset_without_getitem(workers: int) -> None:
    (entry,) = assert_parity(Dataset(), sampler=[0], num_workers=workers)
    assert entry.type is NotImplementedError
    assert "Subclasses of Dataset should implement __getitem__." in entry.text


@BOTH
@WORKERS
def test_a_dataset_without_a_length_cannot_be_iterated_in_order(loader_class: type, workers: int) -> None:
    loader = loader_class(zoo.Lengthless(), num_workers=workers)
    failure = failure_of(lambda: list(loader))
    assert (failure.type, failure.text) == (TypeError, "object of type 'Lengthless' has no len()")


# --- exceptions of other parts ------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_errors_of_the_collate_function_name_the_worker_of_the_batch(workers: int) -> None:
    entries = assert_parity(
        range(24), worker_known=True, batch_size=2, num_workers=workers, collate_fn=zoo.fail_collate
    )
    failure = entries[2]
    assert failure.type is LookupError
    assert failure.last_line.endswith("cannot collate [4, 5]")
    if workers:
        assert failure.worker == 2 % workers
        assert "in fail_collate" in failure.text


@BOTH
@pytest.mark.parametrize("workers", [1, 2])
def test_errors_of_the_worker_init_function_come_with_the_first_batch(
    loader_class: type, workers: int
) -> None:
    iterator = iter(loader_class(range(8), num_workers=workers, worker_init_fn=zoo.fail_init))
    failure = failure_of(lambda: next(iterator))
    assert failure.type is PermissionError
    assert failure.caught == "PermissionError"
    assert failure.worker in range(workers)
    assert failure.last_line == f"PermissionError: worker {failure.worker} may not"
    assert "in fail_init" in failure.text


@BOTH
def test_the_worker_init_function_is_not_called_without_workers(loader_class: type) -> None:
    assert len(list(loader_class(range(3), worker_init_fn=zoo.fail_init))) == 3


@WORKERS
def test_errors_of_a_stream_that_cannot_be_iterated(workers: int) -> None:
    def outcome(loader_class: type) -> Failure:
        loader = loader_class(zoo.UnstartableStream(), num_workers=workers)
        return failure_of(lambda: next(iter(loader)))

    subject = outcome(Loader)
    assert_same_journal([subject], [outcome(TorchLoader)], worker_known=True)
    assert subject.type is OSError
    assert subject.wrapped == bool(workers)
    assert "the stream cannot be opened" in subject.last_line


@BOTH
def test_without_workers_a_stream_that_cannot_be_iterated_fails_iter(loader_class: type) -> None:
    loader = loader_class(zoo.UnstartableStream())
    failure = failure_of(lambda: iter(loader))
    assert (failure.type, failure.text) == (OSError, "the stream cannot be opened")


@BOTH
@WORKERS
@pytest.mark.parametrize("bad", [0, 5, 19])
def test_errors_of_the_sampler_are_not_wrapped(loader_class: type, bad: int, workers: int) -> None:
    loader = loader_class(range(20), sampler=zoo.BrokenSampler(bad), batch_size=2, num_workers=workers)
    seen: list = []
    failure = failure_of(lambda: seen.extend(batch.tolist() for batch in loader))
    assert (failure.type, failure.text) == (ArithmeticError, f"no index {bad}")
    assert seen == [[i, i + 1] for i in range(0, 2 * len(seen), 2)]
    assert 2 * len(seen) <= bad


# Torch's half-made iterator complains when it is collected.
@BOTH
@WORKERS
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_sampler_that_cannot_be_iterated_fails_iter(loader_class: type, workers: int) -> None:
    loader = loader_class(range(20), batch_sampler=zoo.UnstartableSampler(), num_workers=workers)
    failure = failure_of(lambda: iter(loader))
    assert (failure.type, failure.text) == (ArithmeticError, "no indices at all")


@BOTH
def test_with_workers_the_first_error_of_the_sampler_fails_iter(loader_class: type) -> None:
    loader = loader_class(range(20), sampler=zoo.BrokenSampler(0), num_workers=2)
    assert failure_of(lambda: iter(loader)).text == "no index 0"
    loader = loader_class(range(20), sampler=zoo.BrokenSampler(0), num_workers=0)
    iterator = iter(loader)
    assert failure_of(lambda: next(iterator)).text == "no index 0"


# --- samples the default collation refuses ------------------------------------------------------

UNCOLLATABLE = {
    zoo.sizes_that_differ: "stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at "
    "entry 3",
    zoo.dimensions_that_differ: "stack expects each tensor to be equal size, but got [2] at entry 0 and "
    "[2, 2] at entry 1",
    zoo.array_sizes_that_differ: "stack expects each tensor to be equal size, but got [2, 0] at entry 0 and "
    "[2, 1] at entry 1",
    zoo.keys_that_differ: "'b'",
    zoo.lengths_that_differ: "each element in list of batch should be of equal size",
    zoo.nested_lengths_that_differ: "each element in list of batch should be of equal size",
    zoo.none_sample: "found <class 'NoneType'>",
    zoo.none_sometimes: "found <class 'NoneType'>",
    zoo.none_later: "Could not infer dtype of NoneType",
    zoo.none_inside: "found <class 'NoneType'>",
    zoo.object_sample: "found <class 'object'>",
    zoo.set_sample: "found <class 'set'>",
    zoo.type_sample: "found <class 'type'>",
    zoo.complex_sample: "found <class 'complex'>",
    zoo.text_array: "found <U3",
    zoo.bytes_array: "found |S3",
    zoo.object_array: "found object",
    zoo.numpy_text: "found <class 'numpy.datetime64'>",
    zoo.foreign_endian_array: "byte order",
    zoo.backward_array: "negative",
    zoo.too_large_int: "",
    zoo.int_then_text: "",
    zoo.tuple_then_int: "object of type 'int' has no len()",
    zoo.dict_then_int: "'int' object is not subscriptable",
    zoo.sparse_tensor: "Batches of sparse tensors are not currently supported by the default collate_fn; "
    "please provide a custom collate_fn to handle them appropriately.",
    zoo.compressed_tensor: "Batches of sparse tensors are not currently supported by the default collate_fn; "
    "please provide a custom collate_fn to handle them appropriately.",
    zoo.nested_tensor: "Batches of nested tensors are not currently supported by the default collate_fn; "
    "please provide a custom collate_fn to handle them appropriately.",
}


@WORKERS
@pytest.mark.parametrize("make", UNCOLLATABLE, ids=lambda make: make.__name__)
def test_samples_that_cannot_be_collated(make: Callable, workers: int) -> None:
    entries = assert_parity(zoo.Made(make, 10), batch_size=4, num_workers=workers)
    assert len(entries) == 3
    failure = entries[0]
    assert isinstance(failure, Failure)
    assert UNCOLLATABLE[make] in failure.text
    if workers:
        assert failure.wrapped
        assert failure.caught == failure.type.__name__


@WORKERS
@pytest.mark.parametrize("make", [zoo.sizes_that_shrink, zoo.tensor_then_int])
def test_samples_that_torch_refuses_in_two_ways(make: Callable, workers: int) -> None:
    # A worker of torch's stumbles over the memory it prepares before it compares the samples, and its text is
    # about that. The text of the comparison, which torch gives without workers, is as good.
    (subject,) = journal(Loader(zoo.Made(make, 4), batch_size=4, num_workers=workers))
    accepted = [journal(TorchLoader(zoo.Made(make, 4), batch_size=4, num_workers=n))[0] for n in (0, 1)]
    known = {(failure.type, failure.last_line.rsplit(": ", 1)[-1]) for failure in accepted}
    assert len(known) == 2
    assert (subject.type, subject.last_line.rsplit(": ", 1)[-1]) in known
    assert subject.wrapped == bool(workers)


@BOTH
def test_an_unsupported_type_is_named_in_full(loader_class: type) -> None:
    failure = failure_of(lambda: next(iter(loader_class([None, None], batch_size=2))))
    assert failure.type is TypeError
    assert failure.text == (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        "found <class 'NoneType'>"
    )


@WORKERS
@pytest.mark.parametrize("make", [zoo.needs_gradient, zoo.int_then_float_tensor])
def test_tensors_that_only_some_processes_can_stack(make: Callable, workers: int) -> None:
    assert len(assert_parity(zoo.Made(make, 10), batch_size=4, num_workers=workers)) == 3


@WORKERS
def test_one_batch_that_cannot_be_collated_does_not_harm_the_others(workers: int) -> None:
    samples = (
        [torch.zeros(2)] * 4 + [torch.zeros(2), torch.zeros(3), torch.zeros(2), None] + [torch.ones(5)] * 4
    )
    entries = assert_parity(samples, batch_size=4, num_workers=workers)
    assert [isinstance(entry, Failure) for entry in entries] == [False, True, False]
    assert entries[2].shape == (4, 5)


@WORKERS
def test_a_batch_without_indices(workers: int) -> None:
    entries = assert_parity(range(9), batch_sampler=[[1, 2], [], [3]], num_workers=workers)
    assert entries[1].type is IndexError


@WORKERS
@pytest.mark.parametrize("make", [zoo.sparse_tensor, zoo.nested_tensor, zoo.none_inside, zoo.set_sample])
def test_samples_of_any_kind_travel_with_a_collate_function(make: Callable, workers: int) -> None:
    entries = assert_parity(zoo.Made(make, 5), batch_size=2, num_workers=workers, collate_fn=zoo.as_list)
    assert [len(entry) for entry in entries] == [2, 2, 1]


@WORKERS
@pytest.mark.parametrize("make", [zoo.sparse_tensor, zoo.nested_tensor, zoo.none_sample, zoo.text_array])
def test_samples_of_any_kind_travel_without_auto_batching(make: Callable, workers: int) -> None:
    entries = assert_parity(zoo.Made(make, 3), batch_size=None, num_workers=workers)
    assert not any(isinstance(entry, Failure) for entry in entries)


# --- exceptions that are no Exception, processes that die ----------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (zoo.raise_interrupt, KeyboardInterrupt),
        (zoo.raise_system_exit, SystemExit),
        (zoo.raise_generator_exit, GeneratorExit),
    ],
)
def test_without_workers_every_exception_arrives_as_it_is(
    loader_class: type, fail: Callable, error: type
) -> None:
    iterator = iter(loader_class(zoo.Faulty(fail), batch_size=4))
    next(iterator)
    assert failure_of(lambda: next(iterator)).type is error
    assert next(iterator).tolist() == [8, 9, 10, 11]


# The subject tries again with a new worker before it gives up, and warns of that.
@BOTH
@pytest.mark.filterwarnings("ignore:DataLoader worker:RuntimeWarning")
@pytest.mark.parametrize("fail", [zoo.end_process, zoo.raise_system_exit, zoo.raise_generator_exit])
def test_a_sample_that_always_ends_its_worker_is_an_error(loader_class: type, fail: Callable) -> None:
    failure = failure_of(lambda: list(loader_class(zoo.Faulty(fail, bad=[1]), batch_size=4, num_workers=1)))
    assert failure.type is RuntimeError
    assert failure.text.startswith("DataLoader worker (pid")
    assert len(list(loader_class(range(4), num_workers=1))) == 4


# --- pickling -----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_arguments_that_cannot_be_pickled(loader_class: type, method: str) -> None:
    class Local(Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> int:
            return i

    def start(dataset: Any, **arguments: Any) -> Failure:
        loader = loader_class(dataset, num_workers=1, multiprocessing_context=method, **arguments)
        return failure_of(lambda: iter(loader))

    for dataset, arguments, text in (
        (Local(), {}, "Can't pickle local object 'test_arguments_that_cannot_be_pickled.<locals>.Local'"),
        (range(3), {"collate_fn": lambda batch: batch}, "Can't pickle local object"),
        (range(3), {"worker_init_fn": lambda worker: None}, "Can't pickle local object"),
        ((i for i in range(3)), {"sampler": [0]}, "cannot pickle 'generator' object"),
    ):
        failure, warnings = with_warnings(lambda d=dataset, a=arguments: start(d, **a))
        assert failure.type in (AttributeError, TypeError)
        assert text in failure.text
        ours = [text for category, text in warnings if category is UserWarning]
        assert len(ours) == 1
        assert ours[0].startswith("Got pickle error when attempting to start a worker Process. ")


@BOTH
def test_forked_workers_need_no_pickling(loader_class: type) -> None:
    class Local(Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> int:
            return i

    loader = loader_class(Local(), num_workers=2, collate_fn=lambda batch: batch)
    assert_same(list(loader), [[0], [1], [2]])
