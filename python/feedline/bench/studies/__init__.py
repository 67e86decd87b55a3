"""The studies: each module makes a dataset of samples like those of a published measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feedline.bench.request import BadRequestError, Request

#: Told how many of how many files are written.
Told = Callable[[int, int], None]


@dataclass
class Prepared:
    """What a contestant loads."""

    dataset: Any
    variant: str
    collate: Callable[[list[Any]], Any] | None = None
    #: For loaders that read files themselves: one path and one label for each sample, in order.
    paths: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    #: What makes a sample of an open file or a path.
    load: Callable[[Any], Any] | None = None
    #: Samples are random, so that batches agree in their shapes only.
    random: bool = False
    #: The one file that all samples come from, if there is one.
    source: str = ""


class Repeated:
    """The samples of a dataset, over and over, until there are so many."""

    def __init__(self, dataset: Any, items: int) -> None:
        self.dataset = dataset
        self.items = items
        self.distinct = len(dataset)

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index % self.distinct]


def sized(dataset: Any, request: Request) -> Any:
    """As many samples as the batches that are asked for; all of them once, if none are."""
    if request.batches is None:
        return dataset
    return Repeated(dataset, request.batches * request.batch)


def cycled(values: list[Any], request: Request) -> list[Any]:
    """The same for a list."""
    if request.batches is None:
        return values
    return [values[index % len(values)] for index in range(request.batches * request.batch)]


def variant_of(request: Request, variants: tuple[str, ...]) -> str:
    """The variant that is asked for; the first, if none is."""
    if request.variant and request.variant not in variants:
        raise BadRequestError(
            f"{request.study} has no variant {request.variant!r}; it has {', '.join(variants)}"
        )
    return request.variant or variants[0]


def files_of(folder: Path, endings: tuple[str, ...]) -> tuple[list[str], list[int]]:
    """The files of a folder that has a folder for each class; sorted, classes in turn, as a shuffle has them."""
    if not folder.is_dir():
        raise BadRequestError(f"there is no folder {folder}")
    classes = sorted(path for path in folder.iterdir() if path.is_dir()) or [folder]
    listed = [sorted(str(p) for p in one.rglob("*") if p.suffix.lower() in endings) for one in classes]
    pairs = [
        (paths[at], label)
        for at in range(max(map(len, listed)))
        for label, paths in enumerate(listed)
        if at < len(paths)
    ]
    if not pairs:
        raise BadRequestError(
            f"there are no files {', '.join('*' + ending for ending in endings)} in {folder}"
        )
    return [path for path, _ in pairs], [label for _, label in pairs]
