"""Feedline keeps accelerators fed: a drop-in for ``torch.utils.data.DataLoader`` with a Rust engine.

>>> from feedline import DataLoader  # the only line that changes
>>> loader = DataLoader(range(8), batch_size=4)
>>> [batch.tolist() for batch in loader]
[[0, 1, 2, 3], [4, 5, 6, 7]]
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feedline._loader import DataLoader as DataLoader
    from feedline.batches import GroupBatches as GroupBatches
    from feedline.batches import LengthBatches as LengthBatches
    from feedline.batches import TokenBatches as TokenBatches
    from feedline.cache import SharedCache as SharedCache
    from feedline.cases import Volumes as Volumes
    from feedline.cells import Cells as Cells
    from feedline.files import Files as Files
    from feedline.files import ImageFolder as ImageFolder
    from feedline.files import Tensors as Tensors
    from feedline.text import Text as Text

try:
    __version__ = version("feedline")
except PackageNotFoundError:  # used from its source tree
    __version__ = "0"

__all__ = [
    "Cells",
    "DataLoader",
    "Files",
    "GroupBatches",
    "ImageFolder",
    "LengthBatches",
    "SharedCache",
    "Tensors",
    "Text",
    "TokenBatches",
    "Volumes",
    "__version__",
]

#: Where things are that do without torch.
_WITHOUT_TORCH = {
    "Cells": "cells",
    "Files": "files",
    "GroupBatches": "batches",
    "ImageFolder": "files",
    "LengthBatches": "batches",
    "SharedCache": "cache",
    "Tensors": "files",
    "Text": "text",
    "TokenBatches": "batches",
    "Volumes": "cases",
}


def __getattr__(name: str) -> Any:
    """Import torch only when something is asked for that needs it."""
    if module := _WITHOUT_TORCH.get(name):
        return getattr(import_module(f"feedline.{module}"), name)
    if name != "DataLoader":
        raise AttributeError(f"module 'feedline' has no attribute {name!r}")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "feedline.DataLoader is a torch.utils.data.DataLoader and needs PyTorch: pip install torch"
        ) from error
    from feedline._loader import DataLoader

    return DataLoader
