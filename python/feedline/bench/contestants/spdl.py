"""SPDL: a pipeline of threads; samples by the study's own Python code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from feedline.bench.contestants import ALL
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "SPDL, threads"
PACKAGES = ["spdl"]
STUDIES = ALL
WORKERS = "threads"


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """Samples in order, collated by torch."""
    import torch
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import default_collate

    torch.set_num_threads(1)
    threads = max(1, request.workers)
    collate = prepared.collate or default_collate

    def epoch() -> Iterator[Any]:
        from concurrent.futures import ThreadPoolExecutor

        order = range(len(prepared.dataset))
        indices = torch.randperm(len(order)).tolist() if request.shuffle else order
        # A pool of its own bounds the stage; the pipeline's would give it all threads.
        pool = ThreadPoolExecutor(threads)
        builder = (
            PipelineBuilder()
            .add_source(indices)
            .pipe(prepared.dataset.__getitem__, concurrency=threads, executor=pool, output_order="input")
            .aggregate(request.batch)
            .pipe(collate)
            .add_sink(request.prefetch or 2)
        )
        pipeline = builder.build(num_threads=1)
        with pipeline.auto_stop():
            yield from pipeline
        pool.shutdown()

    return epoch
