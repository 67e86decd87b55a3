"""WebDataset: the study's files in tar shards, read by torch's workers; samples by the study's own Python code."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from feedline.bench.data.converted import Pairs, converted
from feedline.bench.request import Request
from feedline.bench.studies import Prepared

LABEL = "WebDataset"
PACKAGES = ["webdataset", "torch"]
STUDIES = ["images", "cells"]
WORKERS = "processes"
DIFFERS = (
    "reads shards that were written before the clock started; with workers, batches come in another order"
)

#: A worker reads whole shards.
SHARDS = 32


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """Shards in order, each read by one worker, which also makes the batches."""
    import torch
    import webdataset
    from torch.utils.data import default_collate

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder, _ = converted(prepared, request, "webdataset", _write)
    shards = sorted(str(path) for path in folder.glob("*.tar"))
    load = prepared.load
    assert load is not None

    def sample(fields: dict[str, Any]) -> tuple[Any, int]:
        return load(io.BytesIO(fields["file"])), int(fields["cls"])

    def epoch() -> Iterable[Any]:
        dataset = webdataset.WebDataset(shards, shardshuffle=len(shards) if request.shuffle else False)
        if request.shuffle:
            dataset = dataset.shuffle(1000)
        if request.batches is not None:
            dataset = dataset.repeat()
        dataset = dataset.map(sample).batched(request.batch, collation_fn=default_collate, partial=True)
        ahead = request.prefetch if request.workers else None
        return webdataset.WebLoader(
            dataset,
            batch_size=None,
            num_workers=request.workers,
            prefetch_factor=ahead,
            pin_memory=request.pin,
        )

    return epoch


def _write(folder: Path, pairs: Pairs) -> None:
    from webdataset import TarWriter

    each = -(-len(pairs) // SHARDS)
    for shard, first in enumerate(range(0, len(pairs), each)):
        with TarWriter(str(folder / f"{shard:03}.tar")) as tar:
            for number, (path, label) in enumerate(pairs[first : first + each], start=first):
                tar.write({"__key__": f"{number:08}", "file": Path(path).read_bytes(), "cls": str(label)})
