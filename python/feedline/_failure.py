"""Samples that cannot be loaded: what is noted of them, and what may stand in for them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch._utils import ExceptionWrapper

#: How many other samples are tried in place of one that failed.
TRIES = 3


def failure(
    epoch: int, batch: int, row: int, index: Any, error: str, replaced_by: Any = None
) -> dict[str, Any]:
    """An entry of ``DataLoader.failures()``."""
    return {
        "epoch": epoch,
        "batch": batch,
        "row": row,
        "index": index,
        "error": error,
        "replaced_by": replaced_by,
    }


def stand_ins(indices: Sequence[Any], row: int) -> Iterator[Any]:
    """What to try in place of a sample: others of its batch, which the sampler wanted too.

    They depend on nothing but the batch, and are not the same for every row.
    """
    others = [other for other in indices if other != indices[row]]
    for attempt in range(min(TRIES, len(others))):
        yield others[(row + attempt) % len(others)]


@dataclass
class Failed:
    """A sample (or a batch) that could not be loaded, on its way to the consumer."""

    unit: int
    index: Any
    error: ExceptionWrapper
    replaced_by: Any = None

    def pickled(self) -> Failed:
        """Itself, if it can be pickled; else with a plainer error of the same text."""
        try:
            pickle.dumps(self)
        except Exception:
            self.error.exc_type = RuntimeError
            try:
                pickle.dumps(self)
            except Exception:  # the index, then
                self.index = repr(self.index)
        return self


class OwnError:
    """An error of this process, in place of one that a worker sent."""

    def __init__(self, text: str) -> None:
        self.exc_msg = text

    def reraise(self) -> None:
        raise RuntimeError(self.exc_msg)


class Raise:
    """An error in place of a batch."""

    def __init__(self, failed: Failed) -> None:
        self.failed = failed

    def now(self) -> None:
        """Raise it as torch does, with a note of the sample that it is about."""
        error: ExceptionWrapper = self.failed.error
        try:
            error.reraise()
        except BaseException as raised:
            if self.failed.index is not None:
                raised.add_note(f"(while loading sample {self.failed.index!r})")
            # The frames in between hold the error, which holds them, and with them the iterator and its workers.
            raise raised.with_traceback(None)  # noqa: B904
