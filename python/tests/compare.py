"""Comparing what two loaders deliver, element by element.

`assert_same` is stricter than `==`: the types of containers, the order of keys, dtypes, shapes and the bits
of the values have to agree. `journal` turns an iteration into a list that can be compared although parts of
it failed.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

# An iterator with a mistake may never end. No test delivers as many batches as this.
MOST_STEPS = 2000

WORKER_HEADER = re.compile(r"^Caught (\w+) in DataLoader worker process (\d+)\.\nOriginal ")


def assert_same(subject: Any, reference: Any, where: str = "batch") -> None:
    """Fails unless both are of the same types and hold the same values, and says where they part."""
    assert type(subject) is type(reference), f"{where}: {type(subject)} is not {type(reference)}"
    if isinstance(reference, torch.Tensor):
        _same_tensor(subject, reference, where)
    elif isinstance(reference, np.ndarray):
        assert subject.dtype == reference.dtype, where
        np.testing.assert_array_equal(subject, reference, err_msg=where)
    elif isinstance(reference, str | bytes | range):
        assert subject == reference, where
    elif isinstance(reference, Mapping):
        assert list(subject) == list(reference), f"{where}: keys"
        for key in reference:
            assert_same(subject[key], reference[key], f"{where}[{key!r}]")
        _same_attributes(subject, reference, where)
    elif isinstance(reference, Sequence):
        assert len(subject) == len(reference), f"{where}: {len(subject)} elements, not {len(reference)}"
        for position, (mine, theirs) in enumerate(zip(subject, reference, strict=True)):
            assert_same(mine, theirs, f"{where}[{position}]")
        _same_attributes(subject, reference, where)
    elif isinstance(reference, float):
        assert repr(subject) == repr(reference), where
    elif hasattr(reference, "__dict__"):
        _same_attributes(subject, reference, where)
    else:
        assert subject == reference, where


def _same_attributes(subject: Any, reference: Any, where: str) -> None:
    """Compares what a container or an object of the user's carries beside its elements."""
    if hasattr(reference, "__dict__"):
        assert_same(vars(subject), vars(reference), f"{where}.__dict__")


def _same_tensor(subject: torch.Tensor, reference: torch.Tensor, where: str) -> None:
    for attribute in ("dtype", "device", "layout", "is_nested", "requires_grad"):
        mine, theirs = getattr(subject, attribute), getattr(reference, attribute)
        assert mine == theirs, f"{where}: {attribute} is {mine}, not {theirs}"
    if reference.is_nested:
        assert_same(list(subject.unbind()), list(reference.unbind()), f"{where}.unbind()")
        return
    assert subject.shape == reference.shape, f"{where}: shape {subject.shape}, not {reference.shape}"
    if reference.layout is not torch.strided:
        assert torch.equal(subject.to_dense(), reference.to_dense()), where
        return
    assert subject.is_contiguous() == reference.is_contiguous(), f"{where}: contiguity"
    assert _bits(subject) == _bits(reference), f"{where}: {subject} is not {reference}"


def _bits(tensor: torch.Tensor) -> bytes:
    """The values as bytes, so that NaN equals itself and -0.0 is not 0.0."""
    plain = tensor.detach().as_subclass(torch.Tensor).contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().tobytes()


def clone(value: Any) -> Any:
    """A deep copy with memory of its own, as it is now."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: clone(element) for key, element in value.items()}
    if isinstance(value, list):
        return [clone(element) for element in value]
    return value


class Failure:
    """An exception as a step of a journal: its type, its text and what a worker wrapped around it."""

    def __init__(self, error: BaseException) -> None:
        """Takes the exception apart and frees its traceback.

        The traceback holds the iterator, whose end stops the workers, and in torch's loader it is part of a
        reference cycle. Found by the collector, the iterator cannot reach its workers any more and waits five
        seconds for each of them.
        """
        error.__traceback__ = None
        self.type = type(error)
        self.text = str(error)
        # A KeyError may show its argument as a literal, on one line and in quotes; the argument is the message.
        self.quoted = isinstance(error, KeyError) and self.text[:1] in {"'", '"'}
        message = str(error.args[0]) if self.quoted else self.text
        header = WORKER_HEADER.match(message)
        self.wrapped = header is not None
        self.caught = header.group(1) if header else None
        self.worker = int(header.group(2)) if header else None
        self.arguments = error.args
        self.context_suppressed = error.__suppress_context__
        self.last_line = message.rstrip("\n").rsplit("\n", 1)[-1]

    def __repr__(self) -> str:
        """Shown when journals differ."""
        return f"<{self.type.__name__}: {self.text!r}>"


def failure_of(action: Callable[[], Any]) -> Failure:
    """The exception `action` ends with; unlike `pytest.raises` it keeps nothing alive."""
    try:
        result = action()
    except BaseException as error:
        return Failure(error)
    raise AssertionError(f"no exception, but {result!r}")


def journal(loader: Any, limit: int = MOST_STEPS) -> list:
    """Every batch and, as a `Failure`, every exception of one epoch; errors do not end the iteration."""
    return steps(iter(loader), limit)


def steps(iterator: Iterator, limit: int = MOST_STEPS) -> list:
    """Like `journal`, for an iterator that exists already."""
    entries: list = []
    while len(entries) < limit:
        try:
            entries.append(next(iterator))
        except StopIteration:
            return entries
        except Exception as error:
            entries.append(Failure(error))
    return entries


def assert_same_journal(subject: list, reference: list, worker_known: bool = False) -> None:
    """Same batches and same failures in the same places; `worker_known` also compares who failed."""
    assert len(subject) == len(reference), f"{subject} is not as long as {reference}"
    for position, (mine, theirs) in enumerate(zip(subject, reference, strict=True)):
        where = f"step {position}"
        if not isinstance(theirs, Failure):
            assert not isinstance(mine, Failure), f"{where}: {mine}"
            assert_same(mine, theirs, where)
            continue
        assert isinstance(mine, Failure), f"{where}: {mine} instead of {theirs}"
        for attribute in ("type", "wrapped", "caught", "quoted", "last_line"):
            assert getattr(mine, attribute) == getattr(theirs, attribute), f"{where}: {attribute}: {mine}"
        if worker_known:
            assert mine.worker == theirs.worker, f"{where}: {mine}"


def with_warnings(action: Callable[[], Any]) -> tuple[Any, list[tuple[type, str]]]:
    """The result of `action` and every warning it gave, in order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return result, [(warning.category, str(warning.message)) for warning in caught]


def multiset(batches: list[torch.Tensor]) -> list[list]:
    """Batches of ints as sorted lists, for comparing without regard to the order of delivery."""
    return sorted(batch.tolist() for batch in batches)
