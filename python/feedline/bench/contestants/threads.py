"""Feedline's drop-in with worker threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from feedline.bench.contestants import ALL, feedline
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "feedline, threads"
PACKAGES = feedline.PACKAGES
STUDIES = ALL
WORKERS = "threads"


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """As with processes."""
    return feedline.open(prepared, request, "thread")
