"""Loading without workers: as torch does it, or, for data that is already in memory, by gathering whole batches."""

from __future__ import annotations

import traceback
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import Subset, TensorDataset, _DatasetKind
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from feedline import _structure
from feedline._failure import failure, stand_ins
from feedline._place import Placed, StreamState
from feedline._report import Report
from feedline._worker import getter

if TYPE_CHECKING:
    from feedline._loader import DataLoader

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

#: In place of a batch of which nothing is left.
_NOTHING = object()

#: Batches larger than this are gathered by workers, beside the consumer.
LARGEST = 4 << 20


class InlineIter(Placed, _SingleProcessDataLoaderIter):
    """Torch's own loop, which also knows its place."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        loader._report = Report("made by the consumer itself", "num_workers is 0")
        self._stack: _structure.Stack | None = None
        if loader._makes_rows():
            self._stack = loader._stack_of_rows()
            self._get = getter(self._dataset)
        self._native = loader._native()
        self._arrival = loader._arrival_of(self)
        self._on_error = loader.on_error
        self._failures = loader._failures
        place = self._begin(loader, 0)
        self._read = self._progress.delivered
        if self._native is not None:
            self._go_native(loader)
        self._streams = self._dataset_kind == _DatasetKind.Iterable
        if self._streams:
            if place is not None and place.streams:
                self._resume_stream(place.streams)
            dataset, fetcher, progress = self._dataset, self._dataset_fetcher, self._progress
            self._progress.streams = lambda: [
                {
                    "delivered": progress.delivered,
                    "ended": fetcher.ended,
                    "state": StreamState.of(dataset, fetcher.dataset_iter),
                }
            ]

    def _go_native(self, loader: DataLoader[Any]) -> None:
        """Make samples without Python, where that works."""
        loader._report = Report("made by the consumer itself, without Python", "num_workers is 0")
        assert self._native is not None
        native, get = self._native, getter(self._dataset)
        self._address = int(self._base_seed), self._progress.generation

        def native_get(index: Any) -> Any:
            try:
                return native.get(index, *self._address)
            except (OSError, ValueError, TypeError, IndexError, OverflowError):
                return get(index)  # as the dataset has it, its error included

        self._get = native_get
        if self._stack is None:
            self._stack = loader._stack_of_rows()

    def _resume_stream(self, streams: list[dict[str, Any]]) -> None:
        if len(streams) != 1:
            raise ValueError(
                f"the state was saved with {len(streams)} workers; a stream goes on only with as many, not with 0"
            )
        state = streams[0]["state"]
        StreamState.load_dataset(self._dataset, state)
        if streams[0]["ended"]:
            self._dataset_fetcher.ended = True
        elif state is not None:
            self._dataset_fetcher = _DatasetKind.create_fetcher(
                self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
            )
            StreamState.load_iterator(self._dataset_fetcher.dataset_iter, state)
        else:
            for _ in range(streams[0]["delivered"]):
                self._dataset_fetcher.fetch(self._next_index())

    def _next_data(self) -> Any:
        try:
            index = self._next_index()
        except StopIteration:
            self._progress.under_way = False
            raise
        number = self._read
        self._read += 1
        try:
            data = self._fetch(number, index)
        except StopIteration:
            # A stream says so when it has ended; of a map-style dataset it is an error that looks like an end.
            self._progress.under_way = not self._streams
            raise
        finally:
            self._progress.note(number, self._sampler_state())
        return self._next_data() if data is _NOTHING else self._arrival(data)

    def _fetch(self, number: int, index: Any) -> Any:
        """A batch, with what is to become of samples that fail."""
        if self._on_error == "raise" or self._streams:
            if self._stack is None or type(index) is not list or not index:
                return self._dataset_fetcher.fetch(index)
            made = None
            if self._native is not None:
                with suppress(TypeError, OverflowError):  # for indices that are not plain numbers
                    made = self._stack.native(
                        self._native.files, self._native.prototype, index, self._address
                    )
            return self._stack.batch(self._get, index) if made is None else made
        by_sample = self._auto_collation and not _structure.gives_batches(self._dataset)
        if not by_sample:
            try:
                return self._dataset_fetcher.fetch(index)
            except Exception as error:
                self._failed(number, 0, index, error)
                return _NOTHING
        samples = []
        for unit, one in enumerate(index):
            try:
                samples.append(self._dataset[one])
            except Exception as error:
                stand_in = self._stand_in(index, unit)
                self._failed(number, unit, one, error, *stand_in[:1])
                if stand_in:
                    samples.append(stand_in[1])
                elif self._on_error == "replace":
                    raise
        return self._collate_fn(samples) if samples else _NOTHING

    def _stand_in(self, index: Any, unit: int) -> tuple[Any, ...]:
        """The index of another sample of the batch, and the sample; empty if there is none, or none is wanted."""
        for other in stand_ins(index, unit) if self._on_error == "replace" else ():
            with suppress(Exception):
                return other, self._dataset[other]
        return ()

    def _failed(self, number: int, unit: int, index: Any, error: Exception, replaced_by: Any = None) -> None:
        text = "".join(traceback.format_exception(error))
        self._failures.append(failure(self._epoch, number, unit, index, text, replaced_by))


class Gather:
    """Batches of a dataset that is in memory: a few index operations instead of a call for every sample."""

    def __init__(self, parts: list[Any], subset: Any, as_list: bool) -> None:
        self._parts = parts
        self._subset = subset
        self._as_list = as_list

    @classmethod
    def of(cls, dataset: Any) -> Gather | None:
        """If the dataset is one of tensors or arrays (or a subset of one)."""
        subset = None
        while type(dataset) is Subset:
            indices = dataset.indices
            if type(indices) is not list and type(indices) is not range:
                return None
            subset = indices if subset is None else [indices[one] for one in subset]
            dataset = dataset.dataset
        if type(dataset) is TensorDataset:
            parts, as_list = list(dataset.tensors), True
        else:
            parts, as_list = [dataset], False
        if not parts or not all(_is_plain(part) for part in parts):
            return None
        return cls(parts, subset, as_list)

    @property
    def row_bytes(self) -> int:
        """Bytes of a sample."""
        return sum(part.nbytes // max(1, len(part)) for part in self._parts)

    def report(self, _workers: int) -> Report:
        """How batches are made, and why so."""
        return Report("gathered from memory", "the dataset is tensors or arrays, collated by default")

    def batch(self, indices: list[int]) -> Any:
        """What ``default_collate`` would make of these samples. IndexError if there is one that is not there."""
        if self._subset is not None:
            indices = [self._subset[one] for one in indices]
        chosen = torch.tensor(indices, dtype=torch.int64)
        gathered = [_gather(part, chosen) for part in self._parts]
        return gathered if self._as_list else gathered[0]


def _is_plain(part: Any) -> bool:
    if type(part) is torch.Tensor:
        return part.ndim > 0 and _structure.is_plain_tensor(part)
    return np is not None and type(part) is np.ndarray and part.ndim > 0 and _structure.has_tensor_dtype(part)


def _gather(part: Any, chosen: torch.Tensor) -> torch.Tensor:
    # Indexing knows negative indices and checks the bounds, as a dataset's subscript does.
    if type(part) is torch.Tensor:
        return part[chosen]
    return torch.from_numpy(part[chosen.numpy()])


class GatherIter(Placed, _MultiProcessingDataLoaderIter):
    """Iterates over batches that are gathered from memory. It draws from the sampler as far ahead as torch."""

    def __init__(self, loader: DataLoader[Any], gather: Gather) -> None:
        _BaseDataLoaderIter.__init__(self, loader)
        self._gather = gather
        self._workers: list[Any] = []
        self._shutdown = True
        loader._report = gather.report(loader.num_workers)
        self._arrival = loader._arrival_of(self)
        self._ahead = (loader.prefetch_factor or 0) * loader.num_workers
        self._drawn: deque[tuple[int, Any, Any]] = deque()
        self._epochs = -1
        self._reset(loader, first_iter=True)

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        _BaseDataLoaderIter._reset(self, loader, first_iter)
        self._drawn.clear()
        self._epochs += 1
        self._begin(loader, self._epochs)
        self._number = self._progress.delivered
        for _ in range(self._ahead):
            self._draw()

    def _draw(self) -> None:
        try:
            index = self._next_index()
        except StopIteration:
            return
        number, self._number = self._number, self._number + 1
        if number not in self._progress.beyond:
            self._drawn.append((number, index, self._sampler_state()))

    def _next_data(self) -> Any:
        if not self._ahead:
            self._draw()
        if not self._drawn:
            self._progress.under_way = False
            raise StopIteration
        number, index, state = self._drawn.popleft()
        try:
            data = self._make(number, index)
        finally:
            if self._ahead:
                self._draw()
            self._progress.note(number, state)
        return self._arrival(data)

    def _make(self, number: int, index: Any) -> Any:
        try:
            return self._gather.batch(index)
        except (TypeError, IndexError, ValueError, RuntimeError):
            # Something torch would complain about, in its own words.
            return self._make_slowly(number, index)

    def _make_slowly(self, number: int, index: Any) -> Any:
        fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )
        if not self._num_workers:
            return fetcher.fetch(index)
        try:
            return fetcher.fetch(index)
        except Exception:
            worker = number % self._num_workers
            error = ExceptionWrapper(where=f"in DataLoader worker process {worker}")
        return error.reraise()

    def _shutdown_workers(self) -> None:
        """There are none."""

    def __del__(self) -> None:
        """There is nothing to end."""
