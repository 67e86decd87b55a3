"""A case: one dataset and the arguments of its loader, the same for both contestants."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset


def whole(batch: Any) -> Any:
    """Compare all of a batch, which is what a drop-in owes unless a case says otherwise."""
    return batch


@dataclass(frozen=True)
class Case:
    """What is loaded. `make` gets the number of items and the folder for generated files."""

    make: Callable[[int, Path], Dataset]
    batch: int | None = 64
    options: dict[str, Any] = field(default_factory=dict)
    #: The part of a batch that both contestants must deliver alike.
    compare: Callable[[Any], Any] = whole


class Made(Dataset):
    """A dataset of `items` samples, each made by a function of its index."""

    def __init__(self, items: int, sample: Callable[[int], Any]) -> None:
        """Keep the function; nothing is made yet."""
        self.items = items
        self.sample = sample

    def __len__(self) -> int:
        """Count the samples."""
        return self.items

    def __getitem__(self, index: int) -> Any:
        """Make one sample."""
        return self.sample(index)
