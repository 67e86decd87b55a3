"""A worker: takes rows or batches from the board, loads them, and puts them into shared memory.

The same loop runs in worker processes and in worker threads. It knows nothing of order, windows or the other
workers; it takes what stands on the board until the board says that it is over.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _DatasetKind
from torch.utils.data._utils import worker as torch_worker

from feedline import _parcel, _structure
from feedline._demand import Demand
from feedline._engine import Claim, Columns, Commons, Seat, exit_with
from feedline._failure import Failed, stand_ins
from feedline._place import StreamState
from feedline._seeds import Seeds
from feedline._thread_rng import ThreadSeeds, info_rng

#: Kinds of tickets.
ROWS = 0
BATCH = 1

#: What a parcel is.
MADE = 0
FAILED = 1
ENDED = 2
EMPTY = 3

#: What a worker ends with that was interrupted from the keyboard.
INTERRUPTED = 130

#: How long a worker waits before it looks whether Python has a signal to handle.
LOOK = 5.0

#: The signal at which a worker writes down where it is.
WHERE_ARE_YOU = signal.SIGRTMIN + 4


#: What it is, the batch, the samples that failed, the state of the stream after it.
Parcel = tuple[int, Any, list[Failed], Any]


class Ground:
    """Shared memory that can be given to a process: inherited, or sent as a file descriptor."""

    def __init__(self, commons: Commons) -> None:
        self.commons = commons

    def __reduce__(self) -> Any:
        assert self.commons.fd is not None
        return _attach, (reduction.DupFd(self.commons.fd),)


def _attach(descriptor: Any) -> Ground:
    return Ground(Commons.attach(descriptor.detach()))


@dataclass
class Setup:
    """All that a worker must know."""

    ground: Ground
    place: int
    workers: int
    kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    init_fn: Any
    base_seed: int
    rng: str
    on_error: str
    parent: int
    batch_size: int | None = None
    #: The epoch that is under way.
    generation: int = 0
    threads: bool = False
    #: If rows are made without Python.
    native: Any = None
    #: If there are only as many threads as can work at the same time: what finds out how many that is.
    demand: Demand | None = None
    #: Of a stream: what a former worker of the same number was asked for and has delivered; and, for each
    #: worker, where it is to begin.
    skip: tuple[Any, ...] = ()
    streams: list[dict[str, Any]] | None = None


def process_main(setup: Setup, worker: int) -> None:
    """What a worker process does."""
    if not exit_with(setup.parent) and _is_gone(setup.parent):
        return
    try:
        torch.set_num_threads(1)
        # What is here now stays until the end: to look through it for garbage again and again takes time and,
        # because looking writes to it, memory of its own.
        gc.freeze()
        _seed_process(setup.base_seed, worker)
        seat = Seat(setup.ground.commons, setup.place, worker)
        seat.mark(_write_stacks_on_request())
        Worker(setup, worker, seat).run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)  # the main process has it too, and says so


def thread_main(setup: Setup, worker: int) -> None:
    """What a worker thread does."""
    Worker(setup, worker, Seat(setup.ground.commons, setup.place, worker)).run()


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _seed_process(base_seed: int, worker: int) -> None:
    seed = base_seed + worker
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(torch_worker._generate_state(base_seed, worker))


def _write_stacks_on_request() -> int:
    """Arrange that a signal makes this process write its Python stacks to a file; return its descriptor."""
    import faulthandler

    try:
        descriptor = os.memfd_create("feedline-stacks")
        faulthandler.register(WHERE_ARE_YOU, file=descriptor, all_threads=True, chain=False)
    except (AttributeError, OSError, ValueError, RuntimeError):
        return 0
    return descriptor


class _LocalInfo(threading.local):
    """The worker's info, in a worker thread."""

    info: Any = None


_local = _LocalInfo()


def use_thread_local_info() -> None:
    """Let ``get_worker_info`` answer for the thread that asks, wherever it was imported to."""
    if hasattr(torch_worker, "_feedline_local"):
        return
    torch_worker._feedline_local = _local  # type: ignore[attr-defined]

    def get_worker_info():  # type: ignore[no-untyped-def]
        return _feedline_local.info or _worker_info  # type: ignore[name-defined]  # noqa: F821

    # The function itself must stay the same object: others hold it.
    torch_worker.get_worker_info.__code__ = get_worker_info.__code__


class Worker:
    """Loads what it takes from the board."""

    def __init__(self, setup: Setup, worker: int, seat: Any, seeds: Any = None) -> None:
        self._setup = setup
        self._seat: Seat = seat
        self._where = f"in DataLoader worker process {worker}"
        self._worker = worker
        self._generation = setup.generation
        self._streams = setup.streams
        self._fetcher: Any = None
        self._init_error: ExceptionWrapper | None = None
        self._claimed: Any = None
        self._replaced: list[Failed] = []
        self._row = 0
        self._seeds: Any = seeds
        self._skip = setup.skip
        streams = setup.kind == _DatasetKind.Iterable
        if seeds is None and setup.rng == "sample" and not streams:
            self._seeds = ThreadSeeds(setup.base_seed) if setup.threads else Seeds(setup.base_seed)
            self._seeds.epoch(setup.generation)
        self._get: Callable[[Any], Any] = (
            self._get_or_replace if setup.on_error == "replace" else getter(setup.dataset)
        )
        # Who has volumes has imported them, and numpy, which torch can do without.
        cases = sys.modules.get("feedline.cases")
        self._make = cases.maker(setup.dataset) if cases and setup.on_error != "replace" else None
        if (demand := setup.demand) is not None:
            self._get = demand.watched(self._get)
            self._make = self._make and demand.watched(self._make)

    def run(self) -> None:
        """Work until the board says that it is over."""
        with self._as_worker(), self._seeds if isinstance(self._seeds, ThreadSeeds) else nullcontext():
            try:
                if self._setup.init_fn is not None:
                    self._setup.init_fn(self._worker)
                self._new_fetcher()
            except Exception:
                self._init_error = ExceptionWrapper(where=self._where)
            while not self._seat.is_over:
                claim = self._claim()
                if claim is not None:
                    self._do(claim)
                elif not self._setup.threads and _is_gone(self._setup.parent):
                    return  # where a process cannot be watched, look now and then

    def _claim(self) -> Claim | None:
        """Something to do; what can be done without Python is done by then."""
        native = self._setup.native
        if native is None or self._init_error is not None:
            return self._seat.claim(LOOK)
        return self._seat.serve_files(native.files, (self._setup.base_seed, self._generation), LOOK)

    @property
    def seeds(self) -> Any:
        """What seeds its samples, if they are."""
        return self._seeds

    @contextmanager
    def _as_worker(self) -> Iterator[None]:
        setup = self._setup
        info = torch_worker.WorkerInfo(
            id=self._worker,
            num_workers=setup.workers,
            seed=setup.base_seed + self._worker,
            dataset=setup.dataset,
            rng=info_rng(self._seeds) if isinstance(self._seeds, ThreadSeeds) else None,
            worker_method="thread" if setup.threads else "multiprocessing",
        )
        if setup.threads:
            _local.info = info
        else:
            torch_worker._worker_info = info
        try:
            yield
        finally:
            _local.info = None
            if not setup.threads:
                torch_worker._worker_info = None

    def _new_fetcher(self) -> None:
        setup = self._setup
        streams, self._streams = self._streams, None
        place = None if streams is None else streams[self._worker]
        if place is not None:
            StreamState.load_dataset(setup.dataset, place["state"])
        self._fetcher = _DatasetKind.create_fetcher(
            setup.kind, setup.dataset, setup.auto_collation, setup.collate_fn, setup.drop_last
        )
        if place is not None and place["ended"]:
            self._fetcher.ended = True
        elif place is not None and place["state"] is not None:
            StreamState.load_iterator(self._fetcher.dataset_iter, place["state"])
        elif place is not None:
            # A stream without a state can only be read again.
            index = [None] * (setup.batch_size or 1) if setup.auto_collation else None
            self._pass_over([index] * place["delivered"])
        skip, self._skip = self._skip, ()
        self._pass_over(skip)

    def _pass_over(self, indices: Iterable[Any]) -> None:
        for index in indices:
            # What failed before was delivered as an error, and may fail again.
            with suppress(Exception):
                self._fetcher.fetch(index)

    def _do(self, claim: Claim) -> None:
        self._claimed = None
        if claim.generation != self._generation:
            self._generation = claim.generation
            if self._seeds is not None:
                self._seeds.epoch(claim.generation)
            if self._setup.kind == _DatasetKind.Iterable:
                self._fetcher = None
        if claim.kind == ROWS:
            self._make_rows(claim)
        else:
            self._make_batch(claim)

    # Rows

    def _make_rows(self, claim: Claim) -> None:
        if (error := self._init_error) is not None:
            self._init_error = None
            failed = Failed(claim.first, None, error).pickled()
            self._seat.done(claim, pickle.dumps(([], [failed])))
            return
        listed = None
        if claim.pickled:
            listed = self._claimed = list(pickle.loads(self._seat.indices(claim)))
        elif self._setup.on_error == "replace":
            self._claimed = self._seat.indices(claim)
        while True:
            self._replaced, self._row = [], claim.first
            if self._seeds is not None:
                self._seeds.begin()
            objects, failures = self._fill(claim, listed)
            if self._seeds is None or not self._seeds.must_repeat():
                break
        failures += self._replaced
        self._seat.done(claim, pickle.dumps((objects, failures)) if objects or failures else None)

    def _fill(self, claim: Claim, listed: list[Any] | None) -> tuple[list[list[Any]], list[Any]]:
        setup = self._setup
        if setup.native is not None:
            address = setup.base_seed, claim.generation
            return self._seat.fill_files(claim, setup.native.files, self._get, self, listed, address)
        seeded = self._seeds is not None and self._seeds.active
        return self._seat.fill(claim, self._get, self, listed, seeded, self._make)

    def seed(self, index: Any) -> None:
        """Called before a sample is loaded."""
        if self._seeds is not None:
            self._seeds.seed(index)

    def describe(self, sample: Any) -> bytes | None:
        """Called with the first sample, to find out its structure; with none if all are like the prototype."""
        native = self._setup.native
        return _structure.describe(sample if native is None or sample is not None else native.prototype)

    def columns(self, described: bytes) -> Columns:
        """Called once for each structure."""
        return _structure.Structure(described).columns

    def failed(self, unit: int, index: Any, error: Exception) -> Failed:
        """Called with the exception of a sample."""
        return Failed(unit, index, self._wrap(error)).pickled()

    def _wrap(self, error: BaseException) -> ExceptionWrapper:
        if error.__traceback__ is None:
            # It was raised by code without Python frames, a list's for example. Give it one.
            try:
                raise error
            except BaseException:
                return ExceptionWrapper(where=self._where)
        return ExceptionWrapper(exc_info=(type(error), error, error.__traceback__), where=self._where)

    def _get_or_replace(self, index: Any) -> Any:
        """The sample, or another one of the same batch in its place. Called for one row after the other."""
        row, self._row = self._row, self._row + 1
        try:
            return self._setup.dataset[index]
        except Exception as error:
            for other in stand_ins(self._claimed, row):
                if self._seeds is not None and self._seeds.active:
                    self._seeds.seed(other)
                with suppress(Exception):
                    sample = self._setup.dataset[other]
                    self._replaced.append(Failed(row, index, self._wrap(error), other).pickled())
                    return sample
            raise

    # Batches

    def _make_batch(self, claim: Claim) -> None:
        try:
            parcel = self._parcel(claim)
        except Exception:
            parcel = (FAILED, Failed(0, None, ExceptionWrapper(where=self._where)).pickled(), [], None)
        try:
            pickled, buffers = _parcel.pack(parcel)
        except Exception as error:
            failed = Failed(0, None, self._wrap(error)).pickled()
            pickled, buffers = _parcel.pack((FAILED, failed, [], None))
        self._seat.deliver(claim, pickled, buffers)

    def _parcel(self, claim: Claim) -> Parcel:
        if (error := self._init_error) is not None:
            self._init_error = None
            return FAILED, Failed(0, None, error).pickled(), [], None
        index = self._seat.indices(claim)
        if isinstance(index, bytes):
            index = pickle.loads(index)
        if self._setup.kind == _DatasetKind.Iterable:
            return self._stream(index)
        while True:
            if self._seeds is not None:
                self._seeds.begin()
            try:
                made = self.fetch(index)
            except Exception as raised:
                made = FAILED, self.failed(0, index, raised), [], None
            if self._seeds is None or not self._seeds.must_repeat():
                return made

    def _stream(self, index: Any) -> Parcel:
        if self._fetcher is None:
            self._new_fetcher()
        try:
            kind, made = MADE, self._fetcher.fetch(index)
        except StopIteration:
            self._fetcher.ended = True
            kind, made = ENDED, None
        except Exception as error:
            kind, made = FAILED, self.failed(0, None, error)
        state = StreamState.of(self._setup.dataset, self._fetcher.dataset_iter)
        return kind, made, [], (state, self._fetcher.ended)

    def fetch(self, index: Any) -> Parcel:
        """A batch of a map-style dataset."""
        setup = self._setup
        self._claimed, self._replaced, self._row = index, [], 0
        seeds = self._seeds if self._seeds is not None and self._seeds.active else None
        if not setup.auto_collation:
            if seeds is not None:
                seeds.seed(index)
            return MADE, setup.collate_fn(setup.dataset[index]), [], None
        getitems = getattr(setup.dataset, "__getitems__", None)
        if getitems:
            if seeds is not None:
                seeds.seed(index)
            return MADE, self._collate(index, getitems(index)), [], None
        if seeds is None and setup.on_error != "skip":
            get = self._get
            return MADE, self._collate(index, [get(one) for one in index]), self._replaced, None
        samples, failures = [], []
        for unit, one in enumerate(index):
            if seeds is not None:
                seeds.seed(one)
            try:
                samples.append(self._get(one))
            except Exception as error:
                if setup.on_error != "skip":
                    raise
                failures.append(self.failed(unit, one, error))
        if failures and not samples:
            return EMPTY, None, failures, None
        failed = {failure.unit for failure in failures}
        there = [one for unit, one in enumerate(index) if unit not in failed] if failed else index
        return MADE, self._collate(there, samples), failures + self._replaced, None

    def _collate(self, index: Any, samples: list[Any]) -> Any:
        """Torch's words for volumes of different shapes name no file."""
        try:
            return self._setup.collate_fn(samples)
        except RuntimeError as error:
            cases = sys.modules.get("feedline.cases")
            with suppress(Exception):
                if cases and (note := cases.unlike(self._setup.dataset, index, samples)):
                    error.add_note(note)
            raise


def getter(dataset: Any) -> Callable[[Any], Any]:
    """``dataset[index]`` as a function."""
    # A method of the class is what the subscript calls; anything else (an instance's attribute) is not.
    method = getattr(type(dataset), "__getitem__", None)
    if method is None:
        return lambda index: dataset[index]
    return (
        dataset.__getitem__
        if "__getitem__" not in getattr(dataset, "__dict__", {})
        else (lambda index: method(dataset, index))
    )


def read_stacks(pid: int, descriptor: int, patience: float = 0.5) -> str:
    """Where a worker process is in its Python code."""
    import select
    import time

    path = f"/proc/{pid}/fd/{descriptor}"
    try:
        before = os.stat(path).st_size
        os.kill(pid, WHERE_ARE_YOU)
        deadline = time.monotonic() + patience
        size = before
        while time.monotonic() < deadline:
            select.select([], [], [], 0.02)
            now = os.stat(path).st_size
            if now > before and now == size:
                break
            size = now
        with open(path, "rb") as file:
            file.seek(before)
            return file.read().decode(errors="replace")
    except OSError:
        return ""
