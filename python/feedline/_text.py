"""Batches of texts, in the loader: gathered by the consumer where they are numbers already, else made by threads.

    sampler ─► draw ─► crew (threads in Rust, and the consumer itself) ─► batch
     (Python)

Threads take no part in Python: they never wait for the GIL, and a training step that holds it does not hold them up.
"""

from __future__ import annotations

import os
import time
import traceback
import weakref
from typing import TYPE_CHECKING, Any

from torch.utils.data import Subset

from feedline._engine import Commons, TextCrew
from feedline._failure import failure, stand_ins
from feedline._inline import GatherIter
from feedline._report import Report
from feedline.text import Text

if TYPE_CHECKING:
    from feedline._loader import DataLoader

#: In place of a batch of which nothing is left.
_NOTHING = object()


def text_of(dataset: Any) -> Text | None:
    """The texts that a dataset consists of, or is a subset of."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return dataset if isinstance(dataset, Text) else None


class TextBatches:
    """Batches of texts, or of a subset of them, in memory that is used again from epoch to epoch."""

    def __init__(self, dataset: Any) -> None:
        text = text_of(dataset)
        assert text is not None
        self.text, self.dataset = text, dataset
        self.rows = text._engine
        self.commons = Commons.private()
        self._pid = os.getpid()

    def is_of(self, dataset: Any) -> bool:
        """Whether it is for this dataset, and in this process."""
        return dataset is self.dataset and self.text._engine is self.rows and self._pid == os.getpid()

    def indices(self, index: Any) -> Any:
        """The texts that samples of the dataset are."""
        dataset = self.dataset
        while type(dataset) is Subset:
            index = [dataset.indices[one] for one in index]
            dataset = dataset.dataset
        return index

    def batch(self, index: Any) -> Any:
        """A batch, as `TextRows.batch` has it."""
        return self.rows.batch(self.commons, self.indices(index))

    def report(self, workers: int) -> Report:
        """How batches are made, and why so."""
        if self.rows.is_ready:
            return Report("gathered from memory", "the texts are numbers already")
        if not workers:
            return Report("made by the consumer itself, without Python", "num_workers is 0")
        return Report(
            f"made by {workers} threads without Python, and by the consumer when it would wait for them",
            "texts are tokenised whole batches at a time",
            workers=workers,
        )


class TextIter(GatherIter):
    """Iterates over batches of texts."""

    _gather: TextBatches  # type: ignore[assignment]

    def __init__(self, loader: DataLoader[Any], batches: TextBatches) -> None:
        workers = 0 if batches.rows.is_ready else loader.num_workers
        self._crew = TextCrew(batches.rows, batches.commons, workers) if workers else None
        self._crew_size = workers
        self._pid = os.getpid()
        # Batches that the crew cannot have: their indices are not numbers, or there are none.
        self._odd: set[int] = set()
        self._on_error, self._failures = loader.on_error, loader._failures
        self._handed_over: float | None = None
        self._began = time.monotonic()
        super().__init__(loader, batches)  # type: ignore[arg-type]
        self._report = loader._report
        itself = weakref.ref(self)

        def refresh(report: Report) -> None:
            if (living := itself()) is not None:
                living._tell(report)

        self._report.refresh = refresh

    def _own_crew(self) -> TextCrew | None:
        """The crew, unless it has stayed behind in the process that this one was forked from."""
        return self._crew if os.getpid() == self._pid else None

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        if (crew := self._own_crew()) is not None:
            crew.clear()
        self._odd.clear()
        super()._reset(loader, first_iter)

    def _draw(self) -> None:
        drawn = len(self._drawn)
        super()._draw()
        if len(self._drawn) == drawn:
            return
        number, index, _ = self._drawn[-1]
        try:
            indices = self._gather.indices(index)
            if not len(indices):
                self._odd.add(number)
            elif (crew := self._own_crew()) is not None:
                crew.post(indices)
        except (TypeError, OverflowError, IndexError):
            self._odd.add(number)

    def _next_data(self) -> Any:
        began = time.monotonic()
        report = self._report
        if self._handed_over is not None:
            report.stepping += began - self._handed_over
        try:
            data: Any = _NOTHING
            while data is _NOTHING:
                data = super()._next_data()
        except StopIteration:
            if not self._persistent_workers:
                self._end()
            raise
        self._handed_over = time.monotonic()
        report.waiting += self._handed_over - began
        report.batches += 1
        report.rows += len(data[-1])
        return data

    def _make(self, number: int, index: Any) -> Any:
        if number in self._odd:
            return self._make_slowly(number, index)
        crew = self._own_crew()
        try:
            made = self._gather.batch(index) if crew is None else crew.take()
        except (TypeError, OverflowError):
            return self._make_slowly(number, index)  # it says better what is wrong with these indices
        if len(made) == 2:
            made = self._failed(number, list(index), *made)
            if made is None:
                return _NOTHING
        return self._gather.text._built(*made)

    def _failed(self, number: int, index: list[Any], row: int, error: Exception) -> Any:
        """What becomes of a batch in which a sample has failed; ``None`` if nothing is left."""
        asked = list(index)
        rows = list(range(len(index)))
        while True:
            if self._on_error == "raise":
                error.add_note(f"(while loading sample {index[row]!r})")
                raise error
            text = "".join(traceback.format_exception(error))
            stand_in = self._stand_in(asked, rows[row]) if self._on_error == "replace" else None
            self._failures.append(failure(self._epoch, number, rows[row], asked[rows[row]], text, stand_in))
            if stand_in is not None:
                index[row] = stand_in
            elif self._on_error == "replace":
                raise error
            else:
                del index[row], rows[row]
            if not index:
                return None
            made = self._gather.batch(index)
            if len(made) == 3:
                return made
            row, error = made

    def _stand_in(self, index: list[Any], row: int) -> Any:
        """Another sample of the batch that can be loaded."""
        return next((other for other in stand_ins(index, row) if len(self._gather.batch([other])) == 3), None)

    def _tell(self, report: Report) -> None:
        """Bring the figures up to date."""
        if (crew := self._own_crew()) is not None:
            busy, batches = crew.work()
            alive = self._crew_size * (time.monotonic() - self._began)
            report.gauges = [
                {"busy_s": busy, "waiting_s": max(0.0, alive - busy), "units": batches, "runs": batches}
            ]

    def _end(self) -> None:
        """The threads leave."""
        self._tell(self._report)
        self._report.refresh = None
        self._crew = None
        self._crew_size = 0
