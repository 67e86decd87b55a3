"""Feedline's drop-in with worker processes whose dataset keeps its groups in a cache that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from feedline.bench.contestants import feedline
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "feedline, shared cache"
PACKAGES = feedline.PACKAGES
STUDIES = ["volumes"]
WORKERS = "processes"

#: Room for about thirty patients: more than are worked on at once, fewer than there are.
MAX_BYTES = 1 << 30


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """The same dataset, with a cache."""
    from feedline.bench.studies.volumes import shared
    from feedline.cache import SharedCache

    dataset = shared(prepared.dataset, SharedCache(MAX_BYTES))
    return feedline.open(replace(prepared, dataset=dataset), request)
