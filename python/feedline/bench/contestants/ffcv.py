"""FFCV: the study's photographs in its own file, re-encoded; decoded and cut by compiled code in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from feedline.bench.data.converted import Pairs, converted
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared
from feedline.bench.studies.images import MEAN, STD

LABEL = "FFCV"
PACKAGES = ["ffcv"]
STUDIES = ["images"]
WORKERS = "threads"
DECODES = True
DIFFERS = "decodes files that its writer has encoded anew; its pipeline is compiled before the clock starts"


class Photographs:
    """Decoded pixels and labels, as its writer wants them."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        from PIL import Image

        path, label = self.pairs[index]
        with Image.open(path) as image:
            return image.convert("RGB"), label


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """One loader for all epochs: it compiles its pipeline, once in a process, as others are imported."""
    import numpy as np
    import torch
    from ffcv.fields.decoders import (
        CenterCropRGBImageDecoder,
        IntDecoder,
        RandomResizedCropRGBImageDecoder,
    )
    from ffcv.loader import Loader, OrderOption
    from ffcv.loader.epoch_iterator import EpochIterator
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage

    if prepared.variant not in ("jpeg", "train"):
        raise BadRequestError(f"FFCV does not read {prepared.variant}")
    torch.set_num_threads(1)
    folder, _ = converted(prepared, request, "ffcv", _write)
    cut = [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256)]
    if prepared.variant == "train":
        cut = [RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip()]
    mean, std = (np.array([255 * value for value in values], np.float32) for values in (MEAN, STD))
    pixels = [NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(convert_back_int16=False)]
    loader = Loader(
        str(folder / "photographs.beton"),
        batch_size=request.batch,
        num_workers=max(1, request.workers),
        order=OrderOption.RANDOM if request.shuffle else OrderOption.SEQUENTIAL,
        os_cache=True,
        batches_ahead=request.prefetch or 3,
        pipelines={"image": [*cut, *pixels], "label": [IntDecoder(), ToTensor(), Squeeze()]},
    )

    # Code is compiled when it runs first: an epoch of one batch.
    for _ in EpochIterator(loader, loader.indices[: request.batch]):
        pass

    def epoch() -> Iterator[Any]:
        while True:
            yield from loader
            if request.batches is None:
                return

    return epoch


def _write(folder: Path, pairs: Pairs) -> None:
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=92), "label": IntField()}
    writer = DatasetWriter(str(folder / "photographs.beton"), fields, num_workers=1)
    writer.from_indexed_dataset(Photographs(pairs))
