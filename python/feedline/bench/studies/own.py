"""The user's own dataset: ``module:name``, a dataset, a loader, or a function that makes one."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared, Told, sized


def prepare(request: Request, _told: Told) -> Prepared:
    """Import it, as Python would from the current folder."""
    module_name, colon, name = (request.data or "").partition(":")
    if not colon or not module_name or not name:
        raise BadRequestError(f"a dataset of your own is module:name, not {request.data!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise BadRequestError(
                f"there is no module {module_name!r} here or among installed packages"
            ) from error
        raise
    try:
        found: Any = getattr(module, name)
    except AttributeError as error:
        raise BadRequestError(f"{module_name} has no {name!r}") from error
    return prepared(
        found() if callable(found) and not hasattr(type(found), "__getitem__") else found, request
    )


def prepared(found: Any, request: Request) -> Prepared:
    """Of a dataset, or of a loader's dataset and how it collates."""
    from torch.utils.data import DataLoader, default_collate

    collate = None
    if isinstance(found, DataLoader):
        if found.collate_fn is not default_collate:
            collate = found.collate_fn
        found = found.dataset
    if not hasattr(found, "__getitem__") and not hasattr(found, "__iter__"):
        raise BadRequestError(f"{request.data} gives a {type(found).__name__}, not a dataset")
    if hasattr(found, "__getitem__") and hasattr(found, "__len__"):
        if len(found) == 0:
            raise BadRequestError(f"{request.data} gives an empty dataset")
        if request.batches is not None and request.batches * request.batch > len(found):
            found = sized(found, request)
    return Prepared(found, "", collate)
