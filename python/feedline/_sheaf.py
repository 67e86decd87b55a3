"""Tiny batches that were made together: several on one ticket, handed over one by one.

To post a ticket, claim it and collect it takes some microseconds, whatever is on it: as long as making a batch of
numbers. So of such batches several go on one ticket, and their rows lie one after the other in the same columns. What
is delivered is the same: each batch is a tensor of its own, with its own place in the order, and its own failures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from feedline._failure import Failed

if TYPE_CHECKING:
    from feedline._engine import Collected
    from feedline._structure import Structure


class Sheaf:
    """What is left of the batches of a ticket that is done."""

    def __init__(
        self,
        structure: Structure,
        collected: Collected,
        first: int,
        rows: int,
        batches: int,
        failures: list[Failed],
    ) -> None:
        #: The number of the next batch in the order, and how many rows each has.
        self.number, self.rows = first, rows
        #: The memory that a batch takes.
        self.size = structure.bytes(rows)
        self._row, self._end = 0, rows * batches
        self._hold, self._offsets = collected.hold, structure.offsets(self._end)
        self._assemble = structure.assemble
        self._failures = failures

    @property
    def is_empty(self) -> bool:
        """Whether all have been taken."""
        return self._row == self._end

    def failures(self) -> list[Failed]:
        """The rows of the next batch that could not be made, counted from its first one."""
        if not self._failures:
            return []
        begin, end = self._row, self._row + self.rows
        return [replace(one, unit=one.unit - begin) for one in self._failures if begin <= one.unit < end]

    def build(self, keep: list[int] | None) -> Any:
        """The next batch; only these rows of it, if given."""
        return self._assemble(self._hold, self._offsets, self.rows, [], keep, self._row)

    def drop(self) -> None:
        """Go on to the batch after it."""
        self.number += 1
        self._row += self.rows
