"""Feedline without Python: images, cells, tensors, texts and volumes are made into batches in Rust, by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from feedline.bench.contestants.torch import options
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared
from feedline.bench.studies.images import MEAN, STD
from feedline.bench.studies.text import LONGEST, NUMBERS

LABEL = "feedline, native"
PACKAGES = ["feedline", "torch"]
STUDIES = ["images", "cells", "text", "volumes"]
WORKERS = "threads"
DECODES = True


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """A new loader for every epoch, as for torch."""
    import torch

    from feedline import DataLoader

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dataset = {"cells": cells, "text": texts, "volumes": volumes}.get(request.study, files)(prepared)
    # Batches are put together in Rust as well.
    prepared = replace(prepared, collate=None)

    def batches() -> Iterable[Any]:
        loader: Iterable[Any] = DataLoader(dataset, native="require", **options(prepared, request))
        return as_studied(loader) if request.study == "cells" else loader

    return batches


def files(prepared: Prepared) -> Any:
    """Images or tensors, with the study's steps."""
    from feedline import Files, Tensors

    images = Files(prepared.paths, prepared.labels)
    if prepared.variant == "jpeg":
        return images.resize(256).center_crop(224).normalize(MEAN, STD)
    if prepared.variant == "train":
        return images.random_resized_crop(224).random_horizontal_flip().normalize(MEAN, STD)
    return Tensors(prepared.paths, prepared.labels)


def cells(prepared: Prepared) -> Any:
    """Images of five channels, with the study's steps."""
    from feedline import Cells

    images = Cells(prepared.paths, prepared.labels)
    if prepared.variant == "open":
        return images.extents()
    if prepared.variant == "resize":
        return images.resize((220, 224)).center_crop(220).to_float()
    return images


def as_studied(loader: Iterable[Any]) -> Iterator[Any]:
    """Torch computes little with u16, so the study has their bits as i16; extents are in tifffile's order."""
    import torch

    for images, labels in loader:
        if images.dtype is torch.uint16:
            yield images.view(torch.int16), labels
        elif images.dtype is torch.int64:
            yield images.roll(-1, dims=1), labels
        else:
            yield images, labels


def texts(prepared: Prepared) -> Any:
    """Reviews, by the study's tokenizer."""
    from feedline import Text

    if prepared.variant == "files":
        return Text.files(prepared.paths, prepared.labels).tokenize(NUMBERS).truncate(LONGEST)
    count = len(prepared.dataset)
    reviews = getattr(prepared.dataset, "dataset", prepared.dataset)
    text: Any
    if prepared.variant == "tokens":
        text = Text.tokens(reviews.texts, reviews.labels)
    else:
        # From the file, line by line, where others have the texts in memory.
        how = getattr(prepared.load, "file", NUMBERS)
        text = Text.jsonl(prepared.source).tokenize(how).truncate(LONGEST)
    return repeated(text, count)


def volumes(prepared: Prepared) -> Any:
    """Patients: their files as they are, or with the study's maps."""
    from feedline import Volumes
    from feedline.bench.data.volumes import PARTS
    from feedline.bench.studies.volumes import SLICES, VIEWS

    patients = Volumes({part: f"{folder}/{part}.nrrd" for part in PARTS} for folder in prepared.paths)
    if prepared.variant == "maps":
        patients = patients.map(mistakes).parts(VIEWS * SLICES, mapped)
    elif prepared.variant != "read":
        raise BadRequestError("the lines of the study are drawn in Python; try the variants maps and read")
    return repeated(patients, len(prepared.dataset))


def mistakes(patient: dict[str, Any]) -> dict[str, Any]:
    """Where mask and prediction differ by more than a border."""
    from feedline import voxels
    from feedline.bench.studies.volumes import ranked

    mask, predicted = patient.pop("mask"), patient.pop("predicted")
    opened = voxels.opened(mask != predicted, border_value=1)
    masks = {"positive": opened & (predicted > 0), "negative": opened & (mask > 0)}
    return {**patient, **masks, "ranked": ranked(opened)}


def mapped(patient: dict[str, Any], part: int) -> dict[str, Any]:
    """The volumes, the two kinds of mistakes on one slice, and how far everything is from them."""
    import numpy as np

    from feedline import voxels
    from feedline.bench.studies.volumes import SLICES, SPACING, filled, on_slice, width

    view, rank = divmod(part, SLICES)
    made = {"ct": patient["ct"], "pet": patient["pet"]}
    for name in ("positive", "negative"):
        lines = on_slice(patient[name], view, patient["ranked"][view, rank], filled)
        made[name] = lines
        if lines.any():
            away = voxels.distance(lines == 0, SPACING, np.float32)
            made[f"{name}_map"] = voxels.falloff(away, width(away))
        else:
            made[f"{name}_map"] = np.zeros(lines.shape, np.float32)
    return made


def repeated(dataset: Any, count: int) -> Any:
    """As many samples as the study asks for, over and over."""
    from torch.utils.data import Subset

    samples = len(dataset)
    return dataset if count == samples else Subset(dataset, [index % samples for index in range(count)])
