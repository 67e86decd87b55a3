"""``feedline.DataLoader``: a ``torch.utils.data.DataLoader`` whose workers share the rows of a batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.multiprocessing
import torch.utils.data
from torch.utils.data import IterDataPipe, MapDataPipe, Subset, _DatasetKind
from torch.utils.data.dataloader import _BaseDataLoaderIter

from feedline import _structure
from feedline._arrival import Arrival
from feedline._auto import Auto, Tuning
from feedline._choice import choose
from feedline._engine import Commons
from feedline._inline import LARGEST, Gather, GatherIter, InlineIter
from feedline._iterator import WorkerIter
from feedline._lower import ForeignError, Lowered, Native, UnknownError, lower
from feedline._pace import Learned
from feedline._place import Place, Progress, encode, generator_of, load_sampler, set_generator
from feedline._report import Report
from feedline._text import TextBatches, TextIter, text_of
from feedline._trace import Traced, TraceFile

T_co = TypeVar("T_co", covariant=True)

#: The path of a loader that has not been asked for anything.
NOT_YET = "not made yet"


@dataclass(frozen=True)
class Options:
    """What can be asked of Feedline beyond torch."""

    workers: str
    dispatch: str
    rng: str
    on_error: str
    strict_window: bool
    #: Why the kind of workers was chosen, if it was.
    why_workers: str = ""


class Unasked(int):
    """A ``prefetch_factor`` that nobody has asked for, also when a trainer hands it to a new loader."""


class TracedInlineIter(Traced, InlineIter):
    """With a timeline."""


class TracedGatherIter(Traced, GatherIter):
    """With a timeline."""


class TracedTextIter(Traced, TextIter):
    """With a timeline."""


def _check(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} option should be one of {choices}, but got {name}={value!r}")
    return value


class DataLoader(torch.utils.data.DataLoader[T_co]):
    """A drop-in for ``torch.utils.data.DataLoader``.

    It takes the arguments of torch's loader, which mean the same, and these:

    Args:
        workers: ``"process"``, ``"thread"``, or ``"auto"``, which measures some samples and chooses.
        dispatch: ``"auto"``: workers share the rows of a batch where default collation applies;
            ``"batch"``: every batch is made by one worker, as under torch.
        rng: ``"sample"``: ``random``, ``numpy.random`` and ``torch`` are seeded for every sample by
            (seed, epoch, index), so that augmentations do not depend on the number of workers;
            ``"torch"``: torch's random streams, one for each worker.
        native: ``"auto"``: a dataset whose steps are all known (`feedline.ImageFolder`, `feedline.Text`, or
            torchvision's with transforms as they come) is loaded without Python, by threads; ``"off"``;
            ``"require"`` raises an error that says what is not known.
        on_error: what becomes of a sample that cannot be loaded: ``"raise"`` its error in place of its batch,
            ``"skip"`` it, or ``"replace"`` it by another one of the same batch. `failures` lists them.
        num_workers: also ``"auto"``: workers are added and dismissed while training runs, so that it does not wait,
            with as few as that takes; none, where it takes longer to hand samples over than to make them. Batches
            are the same.
        prefetch_factor: also ``"auto"``: what fits into a share of the memory, as if nothing was asked for.
        on_stats: under ``num_workers="auto"``, called with the figures of every decision: a dict of floats, for
            TensorBoard or a log.
        device: where batches arrive, copied beside the training step.
        trace: a file to write to what each worker loads when, and when the training loop waits: a timeline that
            ui.perfetto.dev and chrome://tracing open.

    >>> loader = DataLoader(list(range(10)), batch_size=4, num_workers=2)
    >>> [batch.tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    >>> state = loader.state_dict()  # a place in the run, as plain data
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int | str = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | str | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        workers: str = "process",
        dispatch: str = "auto",
        rng: str = "sample",
        on_error: str = "raise",
        native: str = "auto",
        device: torch.device | str | None = None,
        trace: str | os.PathLike[str] | None = None,
        on_stats: Callable[[dict[str, float]], object] | None = None,
    ) -> None:
        # By the names of the arguments, because trainers build loaders anew from their attributes.
        self.workers = _check("workers", workers, ("process", "thread", "auto"))
        self.dispatch = _check("dispatch", dispatch, ("auto", "batch"))
        self.rng = _check("rng", rng, ("sample", "torch"))
        self.on_error = _check("on_error", on_error, ("raise", "skip", "replace"))
        self.native = _check("native", native, ("auto", "off", "require"))
        self._lowered: Lowered | None = None
        self._texts: TextBatches | None = None
        self._chosen: tuple[str, str] | None = None
        self.device = None if device is None else torch.device(device)
        self.trace = None if trace is None else os.fspath(trace)
        self._traced: TraceFile | None = None
        self._arrival: Arrival | None = None
        self._learned = Learned()
        self._failures: list[dict[str, Any]] = []
        self._shared: Commons | None = None
        self._shared_by = 0
        self._stack: _structure.Stack | None = None
        self._resume: Place | None = None
        self._epochs = 0
        self._left_to_python = ""
        self._progress: Progress | None = None
        self._report = Report(NOT_YET, "iteration has not begun")
        self.on_stats = on_stats
        self._tuning: Tuning | None = None
        num_workers = self._number_of_workers(num_workers)
        if isinstance(prefetch_factor, str):
            _check("prefetch_factor", prefetch_factor, ("auto",))
            prefetch_factor = None
        if collate_fn is None and (batch_size is not None or batch_sampler is not None):
            # Texts differ in length: they know how they are made equally long.
            text = text_of(dataset)
            collate_fn = None if text is None else text.collate
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=None if isinstance(prefetch_factor, Unasked) else prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )

        if (prefetch_factor is None or isinstance(prefetch_factor, Unasked)) and self.num_workers > 0:
            self.prefetch_factor = Unasked(self.prefetch_factor or 0)

    def _number_of_workers(self, asked: int | str) -> int:
        """As a number, which says of itself whether it is one to begin with."""
        if isinstance(asked, str):
            _check("num_workers", asked, ("auto",))
        elif not isinstance(asked, Auto):
            return asked
        if self.rng == "torch":
            raise ValueError(
                "num_workers='auto' needs rng='sample': torch's random streams belong to workers, "
                "so that samples would depend on how many there happen to be"
            )
        self._tuning = Tuning(on_stats=self.on_stats)
        return Auto(self._tuning.workers)

    def _tuning_now(self) -> Tuning | None:
        """What has been found out about the number of workers, if it is not given."""
        if not isinstance(self.num_workers, Auto):
            return None
        if self._tuning is None:
            self._tuning = Tuning(on_stats=self.on_stats)
        return self._tuning

    def _stack_of_rows(self) -> _structure.Stack | None:
        """Where the consumer puts the rows of batches that it makes itself."""
        # Where address space is short, torch's way does as well.
        with suppress(OSError):
            self._stack = self._stack or _structure.Stack()
        return self._stack

    @property
    def _options(self) -> Options:
        kind, why = self._chosen or (self.workers, "")
        strict = not isinstance(self.prefetch_factor, Unasked)
        return Options(kind, self.dispatch, self.rng, self.on_error, strict, why)

    def _is_grouped(self) -> bool:
        """Whether many samples are made of the same large thing, which is kept for as long as they are made."""
        return _is_of_volumes(self.dataset)

    def _commons(self, private: bool) -> Commons:
        """The memory of this loader's batches, kept from epoch to epoch; in a forked process, its own.

        Threads need not share it with other processes, and private memory can have huge pages.
        """
        if self._shared is not None and self._shared_by == os.getpid():
            if (self._shared.fd is None) == private:
                return self._shared
            self._arrival = None  # it has locked pages of the other
        self._shared, self._shared_by = Commons.private() if private else Commons(), os.getpid()
        self._learned = Learned()
        return self._shared

    def _makes_rows(self) -> bool:
        """Whether batches can be made row by row: default collation of samples that are asked for one by one."""
        return (
            self._auto_collation
            and self._dataset_kind == _DatasetKind.Map
            and self._options.rng != "torch"
            and _structure.collates_by_default(self.collate_fn)
            and not _structure.gives_batches(self.dataset)
        )

    def _native(self) -> Native | None:
        """The dataset as it can be loaded without Python, if it can."""
        if self.native == "off" or text_of(self.dataset) is not None or _is_of_volumes(self.dataset):
            return None
        try:
            lowered = lower(self.dataset, self._lowered, self._asks_for_python())
        except UnknownError as why:
            self._lowered = None
            if self.native == "require":
                raise ValueError(f"native='require', but {why}") from None
            self._left_to_python = "" if isinstance(why, ForeignError) else str(why)
            return None
        if lowered is not self._lowered:
            self._lowered, self._learned = lowered, Learned()
        self._left_to_python = ""
        return lowered.native

    def _asks_for_python(self) -> str:
        """What in the loader's own arguments needs samples that Python has made."""
        if not (self._auto_collation and self._dataset_kind == _DatasetKind.Map):
            return "samples are not collated, or come as a stream"
        if not _structure.collates_by_default(self.collate_fn):
            return "there is a collate_fn"
        if self._options.dispatch == "batch" or self._options.rng == "torch":
            return "torch's way was asked for: dispatch is 'batch', or rng is 'torch'"
        if self.worker_init_fn is not None:
            return "there is a worker_init_fn, which may change the dataset"
        return ""

    def _text(self) -> TextBatches | None:
        """The batches of a dataset of texts, if they can be made without Python."""
        text = text_of(self.dataset)
        if text is None or self.native == "off":
            return None
        why = ""
        if not self._auto_collation or self.collate_fn != text.collate:
            why = "samples are not collated" if not self._auto_collation else "there is a collate_fn"
        elif self.worker_init_fn is not None:
            why = "there is a worker_init_fn, which may change the dataset"
        elif self.timeout > 0:
            why = "there is a timeout, which only workers that can be left behind keep"
        if why and self.native == "require":
            raise ValueError(f"native='require', but {why}")
        self._left_to_python = why
        if why:
            return None
        if self._texts is None or not self._texts.is_of(self.dataset):
            self._texts = TextBatches(self.dataset)
        return self._texts

    def _gather(self) -> Gather | None:
        """How to gather batches from memory, if the dataset is there and nothing but its numbers matters."""
        plain = (
            self._auto_collation
            and self._dataset_kind == _DatasetKind.Map
            and self._options.dispatch == "auto"
            and _structure.collates_by_default(self.collate_fn)
            and self.worker_init_fn is None
            and self.timeout == 0
        )
        gather = Gather.of(self.dataset) if plain else None
        if gather is None or gather.row_bytes * (self.batch_size or 1) > LARGEST:
            return None
        return gather

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if isinstance(self.dataset, (IterDataPipe, MapDataPipe)):
            return super()._get_iterator()
        if self.num_workers > 0:
            if not self.prefetch_factor:
                return super()._get_iterator()  # torch refuses that
            self.check_worker_number_rationality()
        if (texts := self._text()) is not None:
            return TracedTextIter(self, texts) if self.trace else TextIter(self, texts)
        if (gather := self._gather()) is not None and self.native != "require":
            return TracedGatherIter(self, gather) if self.trace else GatherIter(self, gather)
        if self.num_workers > 0 and self._chosen is None:
            if self.native != "off" and _is_of_volumes(self.dataset):
                self._chosen = "thread", "volumes are read and changed without the GIL"
            elif self.workers == "auto" and self._native() is None:
                self._choose_workers()
        self._become_processes()
        if self.num_workers > 0:
            return WorkerIter(self)
        return TracedInlineIter(self) if self.trace else InlineIter(self)

    def _become_processes(self) -> bool:
        """Choose processes, if threads were chosen and have turned out to wait for each other. Whether it is so."""
        if (
            self.workers != "auto"
            or self._options.workers != "thread"
            or _is_of_volumes(self.dataset)
            or not self._report.is_held_by_python()
        ):
            return False
        self._chosen = (
            "process",
            "threads were found to wait for each other, because one can run Python at a time",
        )
        return True

    def _trace_file(self) -> TraceFile:
        """Where the timeline goes; begun with the first iterator."""
        assert self.trace is not None
        if self._traced is None:
            self._traced = TraceFile(self.trace)
        return self._traced

    def _choose_workers(self) -> None:
        """Decide between processes and threads, once."""
        kind, why = "process", "every worker must have its own copy of a stream"
        dataset: Any = self.dataset
        if self._dataset_kind == _DatasetKind.Map and len(dataset) > 0:
            kind, why = choose(dataset, self.multiprocessing_context or torch.multiprocessing.get_context())
        self._chosen = kind, why

    def __iter__(self) -> _BaseDataLoaderIter:
        """An iterator over the batches of an epoch."""
        if self._resume is not None:
            self._iterator = None  # persistent workers begin anew, where the state says
            if not self._resume.under_way and not self._resume.keeps_seed:
                # The epoch to come draws its seed first.
                set_generator(generator_of(self), self._resume)
                load_sampler(self, self._resume)
                self._resume = None
        former: Any = self._iterator
        if isinstance(former, WorkerIter):  # which it is only if its workers persist
            # A stream's workers read parts of it by their number: others must begin anew; and so must those of
            # another kind, with the seeds of these: batches do not depend on who makes them.
            tuning, progress = self._tuning_now(), self._progress
            other = progress is not None and not progress.under_way and self._become_processes()
            if other and progress is not None:
                self._resume = progress.place()
            if other or (tuning is not None and former.is_stale(tuning)):
                former._shutdown_workers()
                self._iterator = None
        return super().__iter__()

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iterator is: what it has delivered, not what it has loaded ahead.

        The state is small, plain data. It can be loaded into a loader of the same dataset with any number of
        workers (of a stream, with the same number).
        """
        if self._resume is not None:
            return self._resume.as_dict()
        if self._progress is not None:
            return self._progress.place().as_dict()
        return Place(generator=encode(generator_of(self))).as_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iterator begin where a state was saved. An empty state is the beginning of a run.

        The order comes from the loader's generator, or torch's own if it has none: that is set to its state of
        then, so that all later epochs follow as well.
        """
        self._resume = Place.from_dict(state) if state else None
        self._iterator, self._progress = None, None

    def _arrival_of(self, iterator: Any) -> Arrival:
        """What happens to batches last. Page locks are kept from epoch to epoch, like the memory they lock."""
        if self._arrival is None or self._arrival.pin != iterator._pin_memory:
            self._arrival = Arrival(iterator._pin_memory, iterator._pin_memory_device, self.device)
        return self._arrival

    def stats(self) -> dict[str, Any]:
        """The figures of the latest iterator: where the consumer's and the workers' time went."""
        return self._report.stats()

    def explain(self) -> str:
        """In sentences: how batches are made and why so, what limits now, and what could be changed."""
        said = self._report.explain()
        if (
            isinstance(self.num_workers, Auto)
            and self._report.tuning is None
            and self._report.path != NOT_YET
        ):
            said += " num_workers='auto' has nothing to choose: " + (
                "texts have as many threads as there are processors."
                if self._report.workers
                else "no workers are needed."
            )
        if self._left_to_python:
            said += f" Samples are made by Python, because {self._left_to_python}."
        return said

    def summary(self) -> str:
        """What the latest iterator did, in a line."""
        return self._report.summary()

    def failures(self) -> list[dict[str, Any]]:
        """The samples that could not be loaded, in all epochs so far."""
        return list(self._failures)

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or pickled: all but memory and processes."""
        state = dict(self.__dict__)
        state.update(_shared=None, _stack=None, _arrival=None, _traced=None, _learned=Learned())
        state.update(_iterator=None, _progress=None, _lowered=None, _texts=None, _tuning=None)
        state["_failures"] = list(self._failures)
        state["_report"] = Report(NOT_YET, "iteration has not begun")
        return state


def _is_of_volumes(dataset: Any) -> bool:
    """Whether a dataset consists of volumes, or is a subset of some."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    # Who has volumes has imported them, and numpy, which torch can do without.
    cases = sys.modules.get("feedline.cases")
    return cases is not None and isinstance(dataset, cases.Volumes)
