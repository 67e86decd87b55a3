"""The consumer's side of an epoch: posts batches on the board, and takes them off in order.

    sampler ─► post ─► board ◄─► workers
                         │
      batch ◄─ build ◄─ collect

It runs in the thread that iterates, and nowhere else: samplers and user code see what they see under torch.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import warnings
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.utils.data import _DatasetKind
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

from feedline import _parcel, _structure
from feedline._auto import Totals, Watch
from feedline._demand import Demand
from feedline._engine import Board, Collected, Hold
from feedline._failure import Failed, OwnError, Raise, failure
from feedline._hand import NOT_MADE, Hand
from feedline._machine import Private
from feedline._order import Order, views
from feedline._pace import Pace
from feedline._place import Place, Placed
from feedline._report import Report
from feedline._sheaf import Sheaf
from feedline._stretch import Stretch
from feedline._team import Processes, Threads, death
from feedline._trace import JOURNAL, Trace
from feedline._worker import (
    BATCH,
    EMPTY,
    ENDED,
    FAILED,
    INTERRUPTED,
    ROWS,
    Ground,
    Setup,
    read_stacks,
)

if TYPE_CHECKING:
    from feedline._loader import DataLoader

#: How long to wait before looking whether a worker has died.
LOOK = 0.05

#: How long to wait for the one worker that was woken before all are.
ALONE = 0.002

#: How often one sample may kill its worker before that is an error.
DEATHS = 2

#: How often a worker may die before it has loaded anything, one time after the other.
STILLBORN = 3


@dataclass
class Deaths:
    """How often a worker died at which unit of a batch, and those given up because of that."""

    at: dict[int, int] = field(default_factory=dict)
    given_up: list[Failed] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Delivery:
    """A batch on its way, or several tiny ones that follow each other."""

    number: int
    index: Any
    #: Of each batch.
    rows: int
    kind: int
    worker: int
    sampler: Any = None
    ticket: int = -1
    size: int = 0
    batches: int = 1
    #: Hardly any batch has this; and what is made for every batch is what a tiny one costs.
    deaths: Deaths | None = None

    @property
    def given_up(self) -> list[Failed]:
        """The units that ended too many workers."""
        return self.deaths.given_up if self.deaths is not None else []


class WorkerIter(Placed, _MultiProcessingDataLoaderIter):
    """Iterates over batches that workers make."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        # Torch's own workers are not wanted, all the rest of it is.
        self._shutdown = True
        _BaseDataLoaderIter.__init__(self, loader)
        self._prefetch_factor: int = loader.prefetch_factor or 0
        self._in_order = loader.in_order
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._options = options = loader._options
        self._native = loader._native()
        threads = self._native is not None or options.workers == "thread"
        self._ground = Ground(loader._commons(private=threads))
        self._learned = loader._learned
        self._streams = self._dataset_kind == _DatasetKind.Iterable
        self._rows_wanted = options.dispatch != "batch" and (self._native is not None or loader._makes_rows())
        self._tuning = loader._tuning_now()
        auto = self._tuning is not None
        # Where the user's code makes whole batches, batch k is worker k mod n's, as under torch.
        self._bound_to_worker = self._streams or (self._in_order and not self._rows_wanted and not auto)
        self._failures = loader._failures
        self._arrival = loader._arrival_of(self)
        self._trace = Trace(loader._trace_file()) if loader.trace else None
        # Seats for as many workers as there may ever be.
        self._seats = self._num_workers
        # If it changes by itself: when to look, and with what the consumer makes batches where workers do not pay.
        self._watch: Watch | None = None
        self._private: Private | None = None
        self._hand: Hand | None = None
        self._stretch = Stretch()
        self._inline = False
        self._loader_stack: Any = None
        if self._tuning is not None:
            self._begin_tuned(loader)
        self._board = Board(self._ground.commons, self._seats, JOURNAL if self._trace else 0)
        self._pace = Pace(
            self._num_workers,
            options.strict_window,
            self._prefetch_factor,
            self._learned,
            native=self._native is not None,
            grouped=loader._is_grouped(),
        )
        self._deliveries: deque[Delivery] = deque()
        # Whether several batches may go on one ticket: not where each has to know of a stand-in, or of a worker that
        # could not begin. And those of such batches that are here already.
        self._may_bind = (
            self._rows_wanted
            and self._native is None
            and not (options.strict_window or self._trace or self._pin_memory or loader.worker_init_fn)
            and options.on_error != "replace"
        )
        self._order: Order | None = None
        self._sheaf: Sheaf | None = None
        self._leaving: list[Delivery] = []
        self._epochs = -1
        # What to warn of; which workers were interrupted, and when that was seen.
        self._to_say: list[str] = []
        self._interrupted: dict[int, float] = {}
        # For each worker: units done when it was started, and how many died before they had done any.
        self._units_before = [0] * self._seats
        self._stillborn = [0] * self._seats
        self._looked = time.monotonic()
        # Whether something was posted for which one worker must do.
        self._unheard = False
        # Seconds in which the consumer had no batch, and those of them in which it slept.
        self._waited = self._blocked = 0.0
        # Batches and units handed over, in all epochs.
        self._batches_out = self._units_out = 0
        self._pid = os.getpid()
        self._hold: Hold | None = None
        setup = Setup(
            ground=self._ground,
            place=self._board.place,
            workers=self._seats,
            kind=self._dataset_kind,
            dataset=self._dataset,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            init_fn=loader.worker_init_fn,
            base_seed=int(self._base_seed),
            rng=options.rng,
            on_error=options.on_error,
            parent=os.getpid(),
            batch_size=loader.batch_size,
            native=self._native,
        )
        self._setup = setup
        self._team: Processes | Threads
        if threads:
            self._team = Threads(setup)
            if loader._is_grouped() and not (auto or self._bound_to_worker):
                # Samples are large, and what they are made of is: a thread that waits for a processor has both.
                setup.demand = Demand(self._num_workers)
        else:
            context = loader.multiprocessing_context or torch.multiprocessing
            self._team = Processes(context, setup)
        self._report = loader._report = Report(*self._path(), workers=self._num_workers, tuning=self._tuning)
        self._report.under_gil = self._native is None and isinstance(self._team, Threads)
        self._began = time.monotonic()
        itself = weakref.ref(self)

        def refresh(report: Report) -> None:
            if (living := itself()) is not None:
                living._tell(report)

        self._report.refresh = refresh
        self._shutdown = False
        if setup.demand is not None:
            self._pace.set_workers(setup.demand.workers(), self._num_workers)
        self._reset(loader, first_iter=True)
        if setup.demand is not None:
            self._resize(setup.demand.workers())
        else:
            self._resize(0 if self._inline else self._num_workers)

    def _begin_tuned(self, loader: DataLoader[Any]) -> None:
        """Begin with as many workers as have proved right so far."""
        tuning = self._tuning
        assert tuning is not None
        self._num_workers = tuning.workers
        if self._streams:
            # Each reads a part of its own, by its number among all of them.
            place = loader._resume
            if place is not None and place.streams:
                self._num_workers = len(place.streams)
            self._seats = self._num_workers
            tuning.fixed = "Workers share the stream by their number, so that changes only between epochs"
            return
        self._seats = tuning.most
        context: Any = loader.multiprocessing_context or torch.multiprocessing
        self._watch = Watch(tuning, context.get_start_method() not in (None, "fork"))
        # Where it matters who does it, or how long that may take, or it is written down, workers do it.
        self._may_be_inline = not (loader.worker_init_fn or self._timeout or self._trace)
        self._loader_stack = loader._stack_of_rows() if self._rows_wanted else None
        self._inline = tuning.inline and self._may_be_inline

    def is_stale(self, tuning: Any) -> bool:
        """Whether another number of workers has been decided on, which these cannot change to."""
        return self._streams and tuning.workers != self._num_workers

    def _resize(self, workers: int) -> None:
        """Let there be so many workers."""
        team, staying = self._team, sorted(set(self._team.members) - self._team.leaving)
        for worker in staying[workers:]:
            team.leaving.add(worker)
            self._board.dismiss(worker, True)
        free = (seat for seat in range(self._seats) if seat not in team.members)
        for _, seat in zip(range(workers - len(staying)), free, strict=False):
            try:
                team.hire(seat)
            except (OSError, RuntimeError):
                now = len(set(team.members) - team.leaving)
                if self._watch is None or not now:
                    raise
                self._watch.tuning.could_not_start(now)
                break
        if self._watch is None:
            return
        present = len(set(team.members) - team.leaving)
        self._num_workers = max(1, present)
        self._board.set_present(present)
        self._pace.set_workers(present)

    def _suit_demand(self) -> None:
        """Let there be as many threads as can work at the same time, if that is more than there are."""
        demand, present = self._setup.demand, len(self._team.members)
        if demand is None or self._shutdown or (wanted := demand.workers()) <= present:
            return
        with suppress(OSError, RuntimeError):  # those that are there will do
            self._resize(wanted)
        self._pace.set_workers(len(self._team.members), self._num_workers)
        self._post_some()

    # Tuning itself

    def _tune(self, now: float) -> None:
        """Change the number of workers, if it is time to."""
        watch = self._watch
        if watch is None or not watch.is_due(now):
            return
        if self._inline and self._deliveries:
            return  # they are still the workers', who must not be dismissed before these are done
        if self._team.leaving:
            # Only them: of others there may be something to say, and a warning may be an exception.
            for worker in set(self._team.dead()) & self._team.leaving:
                self._see_off(worker)
        self._read_memory(now)
        window = self._pace.window(self._is_in_rows())
        decided = watch.look(self._totals(now), self._num_workers, window, self._may_be_inline)
        if decided is None:
            return
        if decided == 0 and not self._inline:
            self._inline = True  # workers wait until that has proved right
        elif decided:
            self._inline = False
            self._resize(decided)
        elif watch.tuning.is_sure:
            self._resize(0)

    def _totals(self, now: float) -> Totals:
        busy, made, processor = self._board.work()
        rest = time.process_time() - (processor if isinstance(self._team, Threads) else 0.0)
        return Totals(
            now,
            self._batches_out,
            self._pace.rows,
            self._units_out,
            made,
            self._waited,
            self._blocked,
            busy,
            processor,
            rest,
        )

    def _read_memory(self, now: float) -> None:
        """What is left of it, and what a worker holds."""
        tuning = self._tuning
        if tuning is None or not tuning.read_machine(now):
            return
        self._pace.set_memory(tuning.free)
        rows = self._pace.rows // max(1, self._batches_out)
        learned = self._learned
        held = learned.structure.bytes(rows) if learned.structure else learned.parcel_bytes
        if isinstance(self._team, Processes) and self._team.members:
            pid = next(iter(self._team.members.values())).pid
            if self._private is None or self._private.pid != pid:
                self._private = Private(pid)
            held += self._private.bytes(now)
        tuning.worker_bytes = held

    def _next_own(self) -> Any:
        """The next batch, made by the consumer itself."""
        if self._stretch.left and (made := self._make_unseen()) is not NOT_MADE:
            return self._arrival(made)
        began, pace, unseen = time.monotonic(), self._pace, self._count_unseen()
        pace.asked(began)
        outcome = self._make_own()
        if outcome is None:
            self._finish()
        now = time.monotonic()
        hidden = self._stretch.hidden(unseen, began, now)
        pace.steps -= hidden
        self._waited += now - began + hidden
        self._tune(now)
        pace.handed_over(now)
        self._stretch.begin(unseen, now, self._may_go_unseen())
        if isinstance(outcome[0], Raise):
            outcome[0].now()
        return self._arrival(outcome[0], None)

    def _make_unseen(self) -> Any:
        """A batch as plain as the last one; `NOT_MADE` if it is not, or there are no more."""
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            self._exhausted = True
            return NOT_MADE
        stretch, rows = self._stretch, len(index)
        stretch.left -= 1
        stretch.batches += 1
        stretch.rows += rows
        self._progress.delivered += 1
        made = self._own_rows(index if type(index) is list else list(index))
        if made is NOT_MADE:
            stretch.batches -= 1
            stretch.rows -= rows
            self._progress.delivered -= 1
            self._count_unseen()
            self._drawn.append((self._sent, index, None))
            self._sent += 1
        return made

    def _count_unseen(self) -> int:
        """Count what went unseen."""
        batches, rows = self._stretch.counted()
        if batches:
            self._sent += batches
            self._yielded += batches
            self._batches_out += batches
            self._units_out += rows
            self._pace.rows += rows
        return batches

    def _may_go_unseen(self) -> bool:
        """Whether nothing but its number is to be noted of the next batch."""
        hand, progress = self._hand, self._progress
        if not (
            self._inline and hand is not None and hand.is_plain and self._watch and self._watch.tuning.is_sure
        ):
            return False
        self._own_rows = hand.rows
        plain = not self._drawn and not progress.beyond and self._sent == progress.delivered
        return plain and self._stateful_sampler is None and self._is_in_rows()

    def _make_own(self) -> tuple[Any] | None:
        """A batch that the consumer makes itself, or what became of it; ``None`` if there are no more."""
        while self._drawn or (not self._exhausted and self._draw()):
            number, index, sampler = self._drawn.popleft()
            if number in self._progress.beyond:
                continue
            rows = len(index) if self._auto_collation and hasattr(index, "__len__") else 1
            delivery = Delivery(number, index, rows, ROWS if self._is_in_rows() else BATCH, -1, sampler)
            if self._hand is None:
                self._hand = Hand(self._setup, self._loader_stack if self._is_in_rows() else None)
            try:
                parcel = self._hand.make(list(index) if isinstance(index, memoryview) else index)
            finally:
                self._note_delivery(delivery)
            made = self._outcome(delivery, *parcel[:3])
            if made is not None:
                return made
        return None

    def _path(self) -> tuple[str, str]:
        """How batches are made, and why so."""
        if self._inline:
            return "made by the consumer itself", "auto found that it costs less than to hand them over"
        if self._native is not None and self._learned.rows_fit:
            return (
                f"made by {self._num_workers} threads without Python, which share the rows of a batch",
                "all steps of the dataset are known",
            )
        threads = self._native is not None or self._options.workers == "thread"
        what = "worker threads" if threads else "worker processes"
        if self._setup.demand is not None and 0 < (present := len(self._team.members)) < self._num_workers:
            what = f"{what}, of which {present} are enough to use all processors"
        whole = f"made whole, each by one of {self._num_workers} {what}"
        if self._options.why_workers:
            what = f"{what} ({self._options.why_workers})"
        if self._streams:
            return whole, "the dataset is a stream, and every worker reads its own"
        if self._rows_wanted and self._learned.rows_fit:
            return (
                f"made by {self._num_workers} {what}, which share the rows of a batch",
                "samples are collated by default",
            )
        if self._rows_wanted:
            return whole, "samples have no fixed structure"
        if self._options.dispatch == "batch" or self._options.rng == "torch":
            return whole, "it was asked for"
        if _structure.gives_batches(self._dataset):
            return whole, "the dataset has __getitems__"
        return whole, "there is a collate_fn" if self._auto_collation else "samples are not collated"

    @property
    def _workers(self) -> list[Any]:  # type: ignore[override]
        return list(self._team.members.values())

    # Posting

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        _BaseDataLoaderIter._reset(self, loader, first_iter)
        self._sheaf, self._order = None, views(self._index_sampler)
        if self._order is not None:
            self._sampler_iter = self._order
        for delivery in self._deliveries:
            self._board.revoke(delivery.ticket)
        self._leaving += self._deliveries
        self._deliveries.clear()
        self._epochs += 1
        # The next epoch has other seeds, and what happened between the two has nothing to do with loading.
        self._hand = None
        self._count_unseen()
        self._stretch.forget()
        if self._watch is not None:
            self._watch.pause()
        self._epoch_began = self._totals(time.monotonic())
        place = self._begin(loader, self._epochs)
        if self._trace:
            self._trace.begin(self._epoch)
        # A worker process addresses random numbers by this; it only has to differ from epoch to epoch.
        self._generation = self._progress.generation
        self._epochs = max(self._epochs, self._generation)
        self._setup.base_seed = int(self._base_seed)
        self._setup.generation = self._generation
        self._sent = self._drawn_before = self._progress.delivered
        self._first_due = self._drawn_before + self._prefetch_factor * self._num_workers
        self._cycle = self._progress.next_worker
        self._active = [True] * self._num_workers
        self._streamed: list[list[Any]] = [[] for _ in range(self._num_workers)]
        self._drawn: deque[tuple[int, Any, Any]] = deque()
        self._exhausted = False
        # How many the sampler has, once somebody has asked; 0 if it does not say.
        self._batches: int | None = None
        self._yielded = 0
        if self._streams:
            self._open_streams(place)
        self._post_some()

    def _open_streams(self, place: Place | None) -> None:
        """Every worker reads its own stream, and each has a place."""
        fresh: dict[str, Any] = {"delivered": 0, "ended": False, "state": None}
        streams = [dict(fresh) for _ in range(self._num_workers)]
        if place is not None:
            if place.streams is None or len(place.streams) != self._num_workers:
                found = 0 if place.streams is None else len(place.streams)
                raise ValueError(
                    f"the state was saved with {found} workers, this loader has {self._num_workers}; "
                    "a stream goes on only with as many"
                )
            streams = place.streams
            self._active = [not stream["ended"] for stream in streams]
        self._stream_places = streams
        self._setup.streams = [dict(stream) for stream in streams]
        self._progress.streams = lambda: streams

    def _post_some(self) -> None:
        """Keep as many batches on their way as the pace allows."""
        in_rows = self._is_in_rows()
        if not self._inline and self._pace.is_low(len(self._deliveries), self._pace.window(in_rows)):
            self._pace.begin_posting(self._blocked)
            while len(self._deliveries) < self._pace.window(in_rows) and self._try_put_index():
                pass
        self._draw_due()

    def _draw_due(self) -> None:
        """Ask the sampler as early as torch would, even if it is too early to begin with what it says."""
        while self._sent < self._due and not self._exhausted and not self._streams:
            self._draw()

    @property
    def _due(self) -> int:
        """How many batches torch would have drawn by now."""
        return self._first_due + self._yielded

    def _may_draw(self) -> bool:
        """Whether to ask the sampler.

        Beyond what torch would have asked for by now, only if it has more than one batch left: to find its end,
        for which it looks when it gives the last one, a sampler may draw random numbers.
        """
        if self._exhausted or self._sent < self._due:
            return not self._exhausted
        return self._sent < self._length() - 1

    def _length(self) -> int:
        """How many batches the sampler has; 0 if it does not say."""
        if self._batches is None:
            self._batches = 0
            with suppress(TypeError, NotImplementedError):
                self._batches = len(self._index_sampler)
        return self._batches

    def _is_in_rows(self) -> bool:
        return self._rows_wanted and self._learned.rows_fit

    def _try_put_index(self) -> bool:  # type: ignore[override]
        if not self._board.has_room:
            return False
        if self._bound_to_worker and not any(self._active):
            self._exhausted = True
            return False
        if self._may_bind and not self._drawn and self._put_several():
            return True
        if not self._drawn and not (self._may_draw() and self._draw()):
            return False
        number, index, sampler = self._drawn.popleft()
        if number in self._progress.beyond:
            return True  # delivered before the state was saved from which this epoch goes on
        rows = len(index) if self._auto_collation and hasattr(index, "__len__") else 1
        in_rows = self._is_in_rows() and rows > 0 and isinstance(index, (list, tuple, memoryview))
        worker = self._next_worker() if self._bound_to_worker else -1
        kind = ROWS if in_rows else BATCH
        delivery = Delivery(number, index, rows, kind, worker, sampler)
        self._post(delivery)
        self._deliveries.append(delivery)
        return True

    def _put_several(self) -> bool:
        """Post several batches on one ticket, if they are that tiny. The last is not among them; see `_may_draw`."""
        order, structure = self._order, self._learned.structure
        if order is None or structure is None or structure.objects or self._progress.beyond:
            return False
        rows = order.size
        most = min(self._pace.on_a_ticket(rows, structure.bytes(rows)), self._length() - 1 - self._sent)
        index = order.several(most) if most > 1 and self._is_in_rows() else ()
        if not index:
            return False
        delivery = Delivery(self._sent, index, rows, ROWS, -1, batches=len(index) // rows)
        self._sent += delivery.batches
        self._post(delivery)
        self._deliveries.append(delivery)
        return True

    def _draw(self) -> bool:
        try:
            index = self._next_index()
        except StopIteration:
            self._exhausted = True
            return False
        self._drawn.append((self._sent, index, self._sampler_state()))
        self._sent += 1
        return True

    def _next_worker(self) -> int:
        for _ in range(self._num_workers):
            worker = self._cycle
            self._cycle = (self._cycle + 1) % self._num_workers
            if self._active[worker]:
                break
        return worker

    def _post(self, delivery: Delivery) -> None:
        known = self._learned
        units, run, size, schema = 1, 1, known.parcel_bytes, 0
        if delivery.kind == ROWS:
            units, size = delivery.batches * delivery.rows, 0
            run = units
            if delivery.batches == 1:
                run = self._pace.run(units, delivery.number - self._drawn_before)
            if known.structure is not None:
                schema, size = known.schema, known.structure.bytes(units)
        delivery.size = size
        only = delivery.worker if self._bound_to_worker else None
        quiet = delivery.kind == ROWS and run == units and self._pace.may_be_quiet(units)
        self._unheard |= quiet
        ticket = units, run, delivery.kind, only, self._generation, size, schema, quiet
        try:
            delivery.ticket = self._board.post(delivery.index, *ticket)
        except (TypeError, OverflowError):
            # Not integers: any index travels as a pickle.
            delivery.ticket = self._board.post(pickle.dumps(delivery.index), *ticket)
        if self._trace:
            self._trace.posted(delivery.ticket, self._epoch, delivery.number)

    # Waiting

    def _next_data(self) -> Any:
        if self._sheaf is not None and (bound := self._next_bound()) is not None:
            return bound[0]
        if self._inline and not self._deliveries:
            return self._next_own()
        if self._stretch.batches:
            self._count_unseen()
        began, pace = time.monotonic(), self._pace
        pace.asked(began)
        if not self._shutdown and (pace.is_large or not self._deliveries):
            self._post_some()  # now that the consumer has let go of the batch before the last
        while True:
            delivery = self._wait(began)
            if delivery is None and self._inline and not self._shutdown:
                return self._next_own()  # what was on the board turned out to be nothing
            if delivery is None:
                self._finish()
            if delivery.batches > 1:
                self._open(delivery)
                self._post_some()
                self._waited += time.monotonic() - began
                if self._sheaf is not None and (bound := self._next_bound()) is not None:
                    return bound[0]
                began = time.monotonic()
                continue
            try:
                made = self._take(delivery)
            finally:
                if delivery.ticket < 0:
                    self._note_delivery(delivery)
                if pace.is_large:
                    self._draw_due()
                else:
                    self._post_some()
            if made is not None:
                now = time.monotonic()
                self._waited += now - began
                self._tune(now)
                self._suit_demand()
                pace.handed_over(now)
                if self._trace:
                    self._trace.waited(self._epoch, delivery.number, round(1e9 * began))
                outcome = made[0]
                if isinstance(outcome, Raise):
                    outcome.now()
                hold, self._hold = self._hold, None
                return self._arrival(outcome, hold)

    def _open(self, delivery: Delivery) -> None:
        """Several batches have come."""
        collected = self._collect(delivery)
        if collected.odd:
            self._part(delivery)
            return
        failures = delivery.given_up
        for _, note in collected.notes:
            failures = failures + pickle.loads(note)[1]
        self._pace.measure(self._board, delivery)
        structure = self._learned.learn(collected.schema, self._board)
        self._sheaf = Sheaf(structure, collected, delivery.number, delivery.rows, delivery.batches, failures)

    def _part(self, delivery: Delivery) -> None:
        """One of several batches has another structure: each is made again, alone."""
        rows, index = delivery.rows, delivery.index
        for place in reversed(range(delivery.batches)):
            own = index[place * rows : (place + 1) * rows]
            alone = Delivery(delivery.number + place, own, rows, ROWS, -1)
            self._post(alone)
            self._deliveries.appendleft(alone)

    def _next_bound(self) -> tuple[Any] | None:
        """The next of several batches that came together; ``None`` if nothing of them is left to hand over."""
        began, pace, sheaf = time.monotonic(), self._pace, self._sheaf
        assert sheaf is not None
        pace.asked(began)
        made = None
        while made is None and not sheaf.is_empty:
            failures = sheaf.failures()
            keep = self._survivors(sheaf.number, sheaf.rows, failures) if failures else None
            if isinstance(keep, Raise):
                made = (keep,)
            elif keep is None or keep:
                made = (sheaf.build(keep),)
            self._note_batch(sheaf.number, sheaf.rows, sheaf.size, sheaf.rows)
            sheaf.drop()
        now = time.monotonic()
        self._waited += now - began
        if sheaf.is_empty:
            self._sheaf = None
            self._tune(now)
        if made is None:
            return None
        pace.handed_over(now)
        outcome = made[0]
        if isinstance(outcome, Raise):
            outcome.now()
        return (self._arrival(outcome, None),)

    def _finish(self) -> NoReturn:
        """There are no more batches in this epoch."""
        self._progress.under_way = False
        self._end_of_epoch()
        if not self._persistent_workers:
            self._shutdown_workers()
        elif self._trace:
            self._trace.end()
        raise StopIteration

    def _note_delivery(self, delivery: Delivery) -> None:
        """A batch has left: handed over, or failed, or left out."""
        units = delivery.rows if delivery.kind == ROWS else 1
        self._note_batch(delivery.number, delivery.rows, delivery.size, units, delivery.sampler)

    def _note_batch(self, number: int, rows: int, size: int, units: int, sampler: Any = None) -> None:
        self._pace.delivered(rows, size)
        self._progress.note(number, sampler)
        self._yielded += 1
        self._batches_out += 1
        self._units_out += units

    def _end_of_epoch(self) -> None:
        """Let what was seen decide with how many the next one begins."""
        if self._tuning is None or self._shutdown:
            return
        watch = self._watch or Watch(self._tuning, False)
        now = time.monotonic()
        epoch = self._totals(now).since(self._epoch_began)
        watch.end(now, epoch, self._watch is not None and self._may_be_inline)

    def _wait(self, began: float) -> Delivery | None:
        """The next batch that is done; ``None`` if there are no more."""
        if self._leaving:
            self._clear_leaving()
        while self._deliveries and not self._shutdown:
            if self._in_order and self._board.is_done(self._deliveries[0].ticket):
                return self._deliveries.popleft()
            candidates = [self._deliveries[0]] if self._in_order else list(self._deliveries)
            hungry = self._may_run_ahead()
            limit = ALONE if self._unheard else LOOK
            if self._timeout > 0:
                limit = min(limit, max(0.0, began + self._timeout - time.monotonic()))
            slept = time.monotonic()
            wake = self._board.wait([delivery.ticket for delivery in candidates], hungry, limit)
            self._blocked += time.monotonic() - slept
            if wake == 1:
                done = next(d for d in candidates if self._board.is_done(d.ticket))
                self._deliveries.remove(done)
                return done
            if wake == 2:
                self._pace.ran_ahead()
                self._try_put_index()
                continue
            if self._unheard:
                self._unheard = False
                self._board.ring()
                continue
            self._look_after_workers()
            self._tune(time.monotonic())
            self._suit_demand()
            if self._timeout > 0 and time.monotonic() - began >= self._timeout:
                raise self._timed_out(candidates[0])
        return None

    def _may_run_ahead(self) -> bool:
        if (
            self._inline
            or self._options.strict_window
            or self._bound_to_worker
            or not (self._drawn or self._may_draw())
        ):
            return False
        return self._pace.may_run_ahead(sum(delivery.size for delivery in self._deliveries))

    def _clear_leaving(self) -> None:
        """Take batches of an epoch that was left early off the board as they end."""
        for delivery in [delivery for delivery in self._leaving if self._board.is_done(delivery.ticket)]:
            self._collect(delivery)
            self._leaving.remove(delivery)

    def _timed_out(self, delivery: Delivery) -> RuntimeError:
        """The error in torch's words, with notes on who is stuck where."""
        error = RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        for worker, gauge in enumerate(self._board.gauges()):
            at = gauge[0]
            if at is None or at[0] != delivery.ticket:
                continue
            note = f"worker {worker} has been at {self._name(delivery, at[1])} for {at[2]:.1f} seconds"
            if gauge[7] and (stacks := read_stacks(self._pid_of(worker), gauge[7])):
                note += f"; its Python stack is\n{stacks.rstrip()}"
            error.add_note(note)
        return error

    def _pid_of(self, worker: int) -> int:
        member: Any = self._team.members[worker]
        return int(member.pid)

    def _name(self, delivery: Delivery, unit: int) -> str:
        """What a unit is, in words."""
        if self._streams:
            return f"batch {delivery.number} of its stream"
        if delivery.kind == ROWS:
            batch, row = divmod(unit, delivery.rows)
            return f"sample {delivery.index[unit]!r} (row {row} of batch {delivery.number + batch})"
        shown = repr(list(delivery.index) if isinstance(delivery.index, memoryview) else delivery.index)
        return f"batch {delivery.number} (samples {shown if len(shown) < 200 else shown[:200] + '…'})"

    # Workers that die

    def _look_after_workers(self) -> None:
        self._looked = time.monotonic()
        self._replace_dead()
        # Last, because a warning may be an exception.
        said, self._to_say = self._to_say, []
        for text in said:
            warnings.warn(text, RuntimeWarning, 5)

    def _replace_dead(self) -> None:
        for worker in self._team.dead():
            if worker in self._team.leaving:
                self._see_off(worker)
                continue
            assert isinstance(self._team, Processes)
            pid, code = self._team.bury(worker)
            if (
                code == INTERRUPTED
                and self._looked - self._interrupted.setdefault(worker, self._looked) < 1.0
            ):
                continue  # so is this process, most likely, and will hear of it at once
            self._interrupted.pop(worker, None)
            lost = self._board.lost(worker)
            text = death(pid, code)
            units = self._board.gauges()[worker][3]
            useless = units == self._units_before[worker] and not lost
            self._stillborn[worker] = self._stillborn[worker] + 1 if useless else 0
            self._units_before[worker] = units
            for ticket, first, count, unit in lost:
                self._mourn(worker, ticket, range(first, first + count), unit, text)
            self._board.reclaim(worker)
            if self._stillborn[worker] >= STILLBORN:
                self._shutdown_workers()
                raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly: {text}")
            if not lost:
                self._to_say.append(f"{text} It was not loading anything; another takes its place.")
            self._team.replace(worker, self._read_by(worker))
            self._report.replaced_workers += 1
            if self._trace:
                self._trace.happened(text, 1 + worker)

    def _see_off(self, worker: int) -> None:
        """A worker that was told to leave has left, or died on the way; its seat is free."""
        lost = self._board.lost(worker)
        if lost and isinstance(self._team, Processes):
            text = death(*self._team.bury(worker))
            for ticket, first, count, unit in lost:
                self._mourn(worker, ticket, range(first, first + count), unit, text)
            self._board.reclaim(worker)
        self._team.forget(worker)
        self._board.dismiss(worker, False)
        self._units_before[worker], self._stillborn[worker] = self._board.gauges()[worker][3], 0

    def _read_by(self, worker: int) -> tuple[Any, ...]:
        """What a worker was asked for, of a stream that goes on, and has delivered."""
        if not self._streams or not self._active[worker]:
            return ()
        ready = [d.index for d in self._deliveries if d.worker == worker and self._board.is_done(d.ticket)]
        return (*self._streamed[worker], *ready)

    def _mourn(self, worker: int, ticket: int, units: range, unit: int, text: str) -> None:
        """A worker died at a unit: the others are loaded again by other workers, and so is that one, once."""
        delivery = next((d for d in self._deliveries if d.ticket == ticket), None)
        if delivery is None:
            # Of an epoch that was left: nobody wants them any more.
            for one in units:
                self._board.give_up(ticket, one, worker)
            return
        what = self._name(delivery, unit)
        deaths = delivery.deaths = delivery.deaths or Deaths()
        deaths.at[unit] = deaths.at.get(unit, 0) + 1
        if deaths.at[unit] < DEATHS:
            self._to_say.append(f"{text} It was loading {what}, which will be tried once more.")
            return
        error = f"{text} It was loading {what}, which has now ended {DEATHS} workers."
        index = delivery.index[unit] if delivery.kind == ROWS else delivery.index
        if isinstance(index, memoryview):
            index = list(index)
        deaths.given_up.append(Failed(unit, index, OwnError(error)))  # type: ignore[arg-type]
        self._board.give_up(ticket, unit, worker)
        if self._streams:
            # What comes after it in the stream cannot be reached.
            self._stream_places[worker]["ended"] = True
            self._end_stream(worker)

    def _end_stream(self, worker: int) -> None:
        """Nothing more comes from a worker's stream, whoever takes its place."""
        self._active[worker] = False
        if self._setup.streams is not None:
            self._setup.streams[worker]["ended"] = True

    # Taking

    def _take(self, delivery: Delivery) -> tuple[Any] | None:
        """What a batch that is done turned out to be; ``None`` if there is nothing to hand over in its place."""
        collected = self._collect(delivery)
        delivery.ticket = -1
        # Only page locks ask for it; kept longer, it would keep the batch's memory.
        self._hold = collected.hold if self._pin_memory else None
        if delivery.kind == ROWS:
            return self._take_rows(delivery, collected)
        return self._take_parcel(delivery, collected)

    def _collect(self, delivery: Delivery) -> Collected:
        collected = self._board.collect(delivery.ticket)
        if self._trace:
            self._trace.collected(delivery.ticket, self._board)
        return collected

    def _take_rows(self, delivery: Delivery, collected: Collected) -> tuple[Any] | None:
        if collected.odd:
            self._learned.note_odd(collected.odd)
            delivery.kind = BATCH
            delivery.deaths = None
            self._post(delivery)
            self._deliveries.appendleft(delivery)
            return None
        notes = [(first, *pickle.loads(note)) for first, note in collected.notes]
        failures = delivery.given_up
        if notes:
            failures = failures + [failed for *_, failures in notes for failed in failures]
        keep = self._survivors(delivery.number, delivery.rows, failures) if failures else None
        if isinstance(keep, Raise):
            return (keep,)
        if keep == []:
            return None
        structure = self._learned.learn(collected.schema, self._board)
        delivery.size = structure.bytes(delivery.rows)
        self._pace.measure(self._board, delivery)
        return (structure.build(collected, delivery.rows, notes, keep),)

    def _survivors(self, number: int, rows: int, failures: list[Failed]) -> Raise | list[int] | None:
        """Record what has failed of a batch. The rows that are left of it, ``None`` if all are; or what is raised."""
        failures.sort(key=lambda failed: failed.unit)
        self._record(number, failures)
        fatal = [failed for failed in failures if failed.replaced_by is None]
        if fatal and self._options.on_error != "skip":
            return Raise(fatal[0])
        missing = {failed.unit for failed in fatal}
        return [row for row in range(rows) if row not in missing] if missing else None

    def _take_parcel(self, delivery: Delivery, collected: Collected) -> tuple[Any] | None:
        if delivery.given_up:
            self._record(delivery.number, delivery.given_up)
            return None if self._options.on_error == "skip" else (Raise(delivery.given_up[0]),)
        kind, made, failures, state = _parcel.unpack(collected)
        if self._streams:
            stream = self._stream_places[delivery.worker]
            stream["delivered"] += 1
            stream["state"], stream["ended"] = state or (None, False)
            self._progress.next_worker = (delivery.worker + 1) % self._num_workers
            self._streamed[delivery.worker].append(delivery.index)
        if kind == ENDED:
            self._end_stream(delivery.worker)
            return None
        outcome = self._outcome(delivery, kind, made, failures)
        if outcome is not None and kind != FAILED:
            delivery.size = len(collected.hold) if collected.hold is not None else 0
            # Larger than the last by little or not at all: batches of changing size should find memory that fits.
            self._learned.parcel_bytes = max(delivery.size, 7 * self._learned.parcel_bytes // 8)
        return outcome

    def _outcome(self, delivery: Delivery, kind: int, made: Any, failures: list[Failed]) -> tuple[Any] | None:
        """What is handed over in place of a batch that was made whole; ``None`` if nothing is."""
        if kind == FAILED:
            self._record(delivery.number, [made])
            skip = self._options.on_error == "skip" and not self._streams
            return None if skip else (Raise(made),)
        self._record(delivery.number, failures)
        return None if kind == EMPTY else (made,)

    def _record(self, number: int, failures: list[Failed]) -> None:
        for failed in failures:
            text = str(failed.error.exc_msg)
            self._failures.append(
                failure(self._epoch, number, failed.unit, failed.index, text, failed.replaced_by)
            )

    # The end

    def _tell(self, report: Report) -> None:
        """Bring the figures up to date."""
        self._count_unseen()
        pace, learned = self._pace, self._learned
        if self._tuning is not None or self._setup.demand is not None:
            report.path, report.why = self._path()
        if self._tuning is not None:
            report.workers = 0 if self._inline else self._num_workers
        report.elapsed = time.monotonic() - self._began
        report.batches, report.rows = self._yielded, pace.rows
        report.waiting, report.stepping = self._waited, pace.steps
        report.ran_ahead, report.together = pace.extra, learned.together
        rows = pace.rows // max(1, self._yielded)
        report.bytes_per_batch = learned.structure.bytes(rows) if learned.structure else learned.parcel_bytes
        report.gauges = [
            {
                "busy_s": gauge[1],
                "processor_s": gauge[8],
                "waiting_s": gauge[2],
                "units": gauge[3],
                "runs": gauge[4],
            }
            for gauge in self._board.gauges()
            if (self._tuning is None and self._setup.demand is None) or gauge[4] or gauge[2]
        ]

    def _shutdown_workers(self) -> None:
        if self._shutdown or sys.is_finalizing() or os.getpid() != self._pid:
            return
        self._shutdown = True
        self._tell(self._report)
        self._report.refresh = None
        self._board.stop()
        self._team.end()
        if self._trace:
            self._trace.read(self._board)
            self._trace.end()
        if self._team.all_gone:
            self._board.release()
        self._deliveries.clear()
        self._leaving.clear()

    def __del__(self) -> None:
        self._shutdown_workers()
