"""Samples that cannot be loaded: what is noted of them, and what may stand in for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
