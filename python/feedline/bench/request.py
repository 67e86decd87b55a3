"""What is to be measured: a study, a contestant, and its settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

#: How much data a study generates.
SCALES = ("smoke", "default", "full")


class BadRequestError(Exception):
    """Something was asked for that does not exist; the message says what does."""


@dataclass(frozen=True)
class Request:
    """All that a fresh process needs to know to measure one contestant once."""

    study: str
    contestant: str
    variant: str = ""
    workers: int = 0
    batch: int = 64
    #: ``None``: the loader's own default.
    prefetch: int | None = None
    pin: bool = False
    #: What the consumer does with a batch: ``none``, ``20ms`` (wait), ``cpu:20ms`` (compute).
    step: str = "none"
    #: Take so many batches of an epoch, or all of them; and so many epochs.
    batches: int | None = None
    epochs: int = 1
    shuffle: bool = False
    scale: str = "smoke"
    #: A folder of the user's own, in place of generated data.
    data: str | None = None
    #: Where generated data is kept.
    cache: str = ""
    #: ``measure``; ``timeline`` also says what workers did when; ``keep`` writes the first batch to `reference`;
    #: ``check`` compares the first batch with it.
    mode: str = "measure"
    reference: str | None = None
    #: End an epoch after so many seconds, but not before the second batch.
    seconds: float | None = None
    #: Whether somebody wants to look at the process before a loader is let go; a line says that they have.
    looks: bool = False

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Request:
        """Checked; unknown names are refused, because a misspelt setting would not be measured."""
        known = {field.name for field in fields(cls)}
        if unknown := set(given) - known:
            raise BadRequestError(f"there is no setting {', '.join(sorted(unknown))}")
        request = cls(**given)
        if request.scale not in SCALES:
            raise BadRequestError(f"the scale is one of {', '.join(SCALES)}, not {request.scale!r}")
        if request.batch < 1 or request.workers < 0 or request.epochs < 1:
            raise BadRequestError("batch and epochs are at least 1, workers at least 0")
        seconds_of(request.step)
        return request

    @property
    def cache_folder(self) -> Path:
        """Where generated data is kept."""
        return Path(self.cache) if self.cache else Path.home() / ".cache" / "feedline"


def seconds_of(step: str) -> tuple[bool, float]:
    """Whether a step computes (or waits), and how long it takes."""
    if step == "none":
        return False, 0.0
    computes = step.startswith("cpu:")
    text = step.removeprefix("cpu:")
    for unit, factor in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if text.endswith(unit):
            try:
                seconds = float(text.removesuffix(unit)) * factor
            except ValueError:
                break
            if 0 <= seconds < float("inf"):
                return computes, seconds
            break
    raise BadRequestError(f"a step is none, a time such as 20ms or 2s, or cpu:20ms, not {step!r}")
