"""Grain: threads in one process; samples by the study's own Python code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from feedline.bench.contestants import ALL
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "Grain, threads"
PACKAGES = ["grain"]
STUDIES = [study for study in ALL if study != "text"]
WORKERS = "threads"


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """Samples as arrays, stacked by Grain."""
    import grain
    import torch

    torch.set_num_threads(1)
    threads = max(1, request.workers)

    def epoch() -> Iterator[Any]:
        dataset = grain.MapDataset.source(prepared.dataset)
        if request.shuffle:
            dataset = dataset.shuffle(seed=0)
        ahead = threads * (request.prefetch or 2) * request.batch
        read = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=ahead)
        return iter(dataset.map(_arrays).to_iter_dataset(read).batch(request.batch))

    return epoch


def _arrays(sample: Any) -> Any:
    if isinstance(sample, dict):
        return {key: _arrays(value) for key, value in sample.items()}
    if isinstance(sample, tuple):
        return tuple(_arrays(value) for value in sample)
    return sample.numpy() if hasattr(sample, "numpy") else sample
