"""datago: files read, decoded and resized by Rust threads, in no order, to the size that is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from feedline.bench.data.converted import Pairs, converted
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared
from feedline.bench.studies.images import MEAN, STD

LABEL = "datago"
PACKAGES = ["datago", "torch"]
STUDIES = ["images"]
WORKERS = "threads"
DECODES = True
DIFFERS = (
    "resizes to 224 x 224 at once, where the others resize to 256 and cut the middle out, and keeps no order"
)


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """Samples as they come, stacked and normalised by torch."""
    import numpy as np
    import torch
    from datago import DatagoClient

    if prepared.variant != "jpeg":
        raise BadRequestError(f"datago does not read {prepared.variant}")
    torch.set_num_threads(1)
    folder, pairs = converted(prepared, request, "datago", _write)
    # Its own name for the number of its threads.
    os.environ["DATAGO_MAX_TASKS"] = str(max(1, request.workers))
    mean, std = (255 * torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    config = {
        "source_type": "file",
        "source_config": {"root_path": str(folder), "random_sampling": request.shuffle},
        "image_config": {
            "crop_and_resize": True,
            "default_image_size": 224,
            "downsampling_ratio": 32,
            "min_aspect_ratio": 1.0,
            "max_aspect_ratio": 1.0,
        },
        "limit": len(pairs),
        "samples_buffer_size": request.batch * (request.prefetch or 2),
        "prefetch_buffer_size": request.batch * (request.prefetch or 2),
    }

    def samples() -> Iterator[tuple[Any, int]]:
        client = DatagoClient(json.dumps(config))
        client.start()
        while (sample := client.get_sample()) is not None:
            label = pairs[int(Path(str(sample.id)).stem)][1]
            yield sample.image.to_numpy_array(), label
        client.stop()

    def batches() -> Iterator[Any]:
        images: list[Any] = []
        labels: list[int] = []
        for image, label in samples():
            images.append(image)
            labels.append(label)
            if len(images) == request.batch:
                yield collated(images, labels)
                images, labels = [], []
        if images:
            yield collated(images, labels)

    def collated(images: list[Any], labels: list[int]) -> tuple[Any, Any]:
        pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        planes = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        return planes.sub_(mean).div_(std), torch.tensor(labels)

    def epoch() -> Iterator[Any]:
        while True:
            yield from batches()
            if request.batches is None:
                return

    return epoch


def _write(folder: Path, pairs: Pairs) -> None:
    for number, (path, _) in enumerate(pairs):
        (folder / f"{number:08}{Path(path).suffix}").symlink_to(os.path.abspath(path))
