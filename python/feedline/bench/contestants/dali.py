"""NVIDIA DALI: pipelines of its own operators; on the processor, because that is what is compared here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared
from feedline.bench.studies.images import MEAN, STD

LABEL = "DALI (CPU)"
PACKAGES = ["nvidia-dali-cuda130"]
STUDIES = ["cells", "images"]
WORKERS = "threads"
DECODES = True


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """A pipeline that reads the study's files itself."""
    from nvidia.dali import fn, pipeline_def, types

    paths, labels = prepared.paths, prepared.labels

    def photographs() -> Any:
        encoded, label = fn.readers.file(
            files=paths, labels=labels, name="files", random_shuffle=request.shuffle
        )
        mirror: Any = 0
        if prepared.variant == "train":
            image = fn.decoders.image_random_crop(
                encoded,
                device="cpu",
                output_type=types.RGB,
                random_area=[0.08, 1.0],
                random_aspect_ratio=[3 / 4, 4 / 3],
            )
            image = fn.resize(image, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
            mirror = fn.random.coin_flip()
        else:
            image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
            image = fn.resize(image, resize_shorter=256, interp_type=types.INTERP_LINEAR, antialias=True)
        image = fn.crop_mirror_normalize(
            image,
            crop=(224, 224),
            mirror=mirror,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
        )
        return image, fn.squeeze(label, axes=[0])

    def arrays() -> Any:
        return fn.readers.numpy(files=paths, name="files"), fn.external_source(
            source=_labels(labels, request.batch), batch=True
        )

    def cells() -> Any:
        encoded, label = fn.readers.file(
            files=paths, labels=labels, name="files", random_shuffle=request.shuffle
        )
        image = fn.decoders.image(encoded, device="cpu", output_type=types.ANY_DATA, dtype=types.UINT16)
        if prepared.variant == "resize":
            image = fn.resize(
                image, size=[220, 224], interp_type=types.INTERP_LINEAR, antialias=True, dtype=types.FLOAT
            )
            image = fn.crop(image, crop=(220, 220), dtype=types.FLOAT)
        else:
            # Torch computes little with u16, so the study has their bits as i16.
            image = fn.reinterpret(image, dtype=types.INT16)
        return fn.transpose(image, perm=[2, 0, 1]), fn.squeeze(label, axes=[0])

    kinds = {"jpeg": photographs, "train": photographs, "tensors": arrays, "read": cells, "resize": cells}
    if prepared.variant not in kinds:
        raise BadRequestError(f"DALI does not read {prepared.variant}")
    pipeline = pipeline_def(
        kinds[prepared.variant],
        batch_size=request.batch,
        num_threads=max(1, request.workers),
        device_id=None,
        prefetch_queue_depth=request.prefetch or 2,
    )
    return lambda: _batches(pipeline())


def _labels(labels: list[int], batch: int) -> Callable[[Any], Any]:
    import numpy as np

    def some(iteration: int) -> Any:
        first = iteration * batch % len(labels)
        chosen = [labels[(first + at) % len(labels)] for at in range(batch)]
        return np.array(chosen, np.int64)

    return some


def _batches(pipeline: Any) -> Iterator[Any]:
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    iterator = DALIGenericIterator(
        [pipeline], ["image", "label"], reader_name="files", last_batch_policy=LastBatchPolicy.PARTIAL
    )
    for (batch,) in iterator:
        yield batch["image"], batch["label"].long()
