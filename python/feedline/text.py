"""Texts as numbers, made into batches in Rust: no Python for a sample, no GIL, no worker processes.

>>> reviews = Text.strings(["A good film", "Bad"], labels=[1, 0]).tokenize(30_000)
>>> ids, labels = next(iter(feedline.DataLoader(reviews, batch_size=2, num_workers=2)))
>>> ids.shape, labels.tolist()
(torch.Size([2, 3]), [1, 0])
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from feedline import _engine

if TYPE_CHECKING:
    import torch

    from feedline._engine import Hold

Path = str | os.PathLike[str]


class Text:
    """Texts that become numbers, each with a label.

    ``[index]`` gives the numbers of a text and its label; under `feedline.DataLoader` threads make whole batches: ids
    of shape (samples, longest) and labels, both of int64. With `mask` there is a mask between them; `ragged` batches
    are values, offsets and labels.

    Texts come from `jsonl`, `csv`, `files`, `folder` or `strings`; `tokenize` says how they become numbers. `tokens`
    are numbers already. Every step gives a new object, and leaves the old one as it was.

    A text is read when it is asked for: of a file of many, only their places are kept.
    """

    def __init__(self, kind: str, *arguments: Any) -> None:
        """Open texts; use one of the methods that do."""
        self._source = (kind, *arguments)
        self._tokenizer: tuple[Any, ...] | None = None
        self._most: int | None = None
        self._width: int | None = None
        self._pad = 0
        self._has_mask = self._is_ragged = False
        # What is missing is said at once.
        self._texts  # noqa: B018

    @classmethod
    def jsonl(cls, path: Path, text: str = "text", label: str | None = "label") -> Self:
        """A file with a JSON object in every line.

        Args:
            path: the file.
            text: the field that is the text.
            label: the field that is the label, a whole number; if none, each is 0.
        """
        return cls("jsonl", os.fspath(path), text, label)

    @classmethod
    def csv(cls, path: Path, text: str = "text", label: str | None = "label", delimiter: str = ",") -> Self:
        """A file of comma-separated values, with the names of its columns first.

        Args:
            path: the file.
            text: the column that is the text.
            label: the column that is the label, a whole number; if none, each is 0.
            delimiter: what is between two columns.
        """
        return cls("csv", os.fspath(path), text, label, delimiter)

    @classmethod
    def files(cls, paths: Iterable[Path], labels: Iterable[int] | None = None) -> Self:
        """A text in every file, in UTF-8, and labels if there are any."""
        return cls("files", [os.fspath(path) for path in paths], _whole(labels))

    @classmethod
    def folder(cls, root: Path) -> Self:
        """A folder with one folder for each class, and a text in every ``.txt`` file of those."""
        classes, paths, labels = _engine.list_texts(os.fspath(root))
        text = cls("files", paths, labels)
        text.classes = classes
        return text

    @classmethod
    def strings(cls, texts: Iterable[str], labels: Iterable[int] | None = None) -> Self:
        """Texts in memory, and labels if there are any."""
        return cls("strings", list(texts), _whole(labels))

    @classmethod
    def tokens(
        cls,
        values: Any,
        labels: Iterable[int] | None = None,
        offsets: Any | None = None,
    ) -> Self:
        """Texts that are numbers already.

        Args:
            values: an array of whole numbers for each text; or one for all of them, if there are offsets.
            labels: a whole number for each text; 0 for all if there are none.
            offsets: where the numbers of each text begin in the one array, and the end.
        """
        import numpy as np

        if offsets is None:
            arrays = [_numbers(array, f"text {number}") for number, array in enumerate(values)]
            offsets = np.cumsum([0, *(len(array) for array in arrays)])
            values = np.concatenate(arrays) if arrays else []
        flat, ends = _numbers(values, "values"), _numbers(offsets, "offsets")
        return cls("tokens", _narrow(flat), ends, _whole(labels))

    #: The names of the classes, if it is a folder.
    classes: list[str] | None = None

    @cached_property
    def _texts(self) -> _engine.Texts:
        kind, *arguments = self._source
        if kind == "tokens":
            arguments[0] = _numbers(arguments[0], "values")
        return getattr(_engine.Texts, kind)(*arguments)

    @cached_property
    def _engine(self) -> _engine.TextRows:
        return _engine.TextRows(
            self._texts,
            self._tokenizer,
            most=self._most,
            width=self._width,
            ragged=self._is_ragged,
            pad=self._pad,
            mask=self._has_mask,
        )

    def tokenize(self, tokenizer: Any, special_tokens: bool = True) -> Self:
        """How texts become numbers.

        Args:
            tokenizer: a ``tokenizer.json`` file of Hugging Face; a tokenizer of ``tokenizers``, or a fast one of
                ``transformers``; or a number n: words in lower case, each ``crc32(word) % n + 1``.
            special_tokens: whether to put what belongs around a text around it.
        """
        new = copy(self)
        if isinstance(tokenizer, int):
            new._tokenizer = ("hash", tokenizer)
        elif isinstance(tokenizer, (str, os.PathLike)):
            new._tokenizer = ("file", os.fspath(tokenizer), special_tokens)
        else:
            tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
            if not hasattr(tokenizer, "to_str"):
                raise TypeError(
                    f"a tokenizer is a file, a number, or an object of tokenizers, not {type(tokenizer).__name__}"
                )
            new._tokenizer = ("json", tokenizer.to_str(), special_tokens)
        return new

    def truncate(self, max_length: int) -> Self:
        """No more than so many numbers of a text, with those that are put around it."""
        new = copy(self)
        new._most = max_length
        return new

    def pad(self, to: int | str = "longest", id: int = 0) -> Self:
        """What makes the rows of a batch equally long.

        Args:
            to: ``"longest"``, as long as the longest of the batch; or a length. A longer text is an error then, so
                truncate to the same length.
            id: the number to pad with.
        """
        if isinstance(to, str) and to != "longest":
            raise ValueError(f'to should be "longest" or a length, not {to!r}')
        new = copy(self)
        new._width, new._pad, new._is_ragged = None if isinstance(to, str) else to, id, False
        return new

    def mask(self) -> Self:
        """Batches have a mask behind the ids: 1 for every number of a text, 0 for padding."""
        new = copy(self)
        new._has_mask = True
        return new

    def ragged(self) -> Self:
        """Batches are not padded: values one after the other, where each text begins (and the end), labels."""
        new = copy(self)
        new._is_ragged = True
        return new

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self._texts)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """The numbers of a text, and its label."""
        import torch

        ids, label = self._engine.sample(range(len(self))[index])
        return torch.frombuffer(ids, dtype=torch.int64) if ids else torch.empty(0, dtype=torch.int64), label

    def lengths(self) -> list[int]:
        """How many numbers each text has. It tokenises all of them, on all processors."""
        return self._engine.lengths(os.cpu_count() or 1)

    def collate(self, samples: Sequence[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, ...]:
        """A batch of samples, as `feedline.DataLoader` gives it; for loaders that ask for samples one by one."""
        import torch

        rows = [ids for ids, _ in samples]
        labels = torch.tensor([label for _, label in samples], dtype=torch.int64)
        lengths = torch.tensor([len(row) for row in rows])
        if self._is_ragged:
            return torch.cat(rows), torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]), labels
        width = max(map(len, rows)) if self._width is None else self._width
        ids = torch.full((len(rows), width), self._pad)
        for place, row in zip(ids, rows, strict=True):
            place[: len(row)] = row
        if not self._has_mask:
            return ids, labels
        return ids, (torch.arange(width)[None] < lengths[:, None]).long(), labels

    def _built(self, hold: Hold, rows: int, width: int) -> tuple[torch.Tensor, ...]:
        """A batch over the memory that it was written to: see ``batch.rs``."""
        import torch

        def part(count: int, start: int) -> torch.Tensor:
            if not count:
                return torch.empty(0, dtype=torch.int64)
            return torch.frombuffer(hold, dtype=torch.int64, count=count, offset=8 * start)

        labels = part(rows, 0)
        if self._is_ragged:
            return part(width, 2 * rows + 1), part(rows + 1, rows), labels
        size = rows * width
        ids = part(size, rows).view(rows, width)
        if not self._has_mask:
            return ids, labels
        return ids, part(size, rows + size).view(rows, width), labels

    def __getstate__(self) -> dict[str, Any]:
        """All but what is made anew."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_engine", "_texts")}

    def __copy__(self) -> Self:
        """The same texts; its own steps."""
        new = type(self).__new__(type(self))
        new.__dict__.update({name: value for name, value in self.__dict__.items() if name != "_engine"})
        return new

    def __repr__(self) -> str:
        """Where the texts come from, and how many there are."""
        kind, first, *_ = self._source
        named = f", {first!r}" if isinstance(first, str) else ""
        return f"Text({len(self)} texts, {kind}{named})"


def _narrow(values: Any) -> Any:
    """The same in as few bytes as they need: they are kept to be pickled."""
    import numpy as np

    for dtype in (np.uint16, np.int32):
        limits = np.iinfo(dtype)
        if not len(values) or (values.min() >= limits.min and values.max() <= limits.max):
            return values.astype(dtype)
    return values


def _whole(labels: Iterable[int] | None) -> list[int]:
    return [] if labels is None else [int(label) for label in labels]


def _numbers(values: Any, what: str) -> Any:
    """As an array of one axis, of int64."""
    import numpy as np

    array = np.asarray(values)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{what} should be whole numbers in a row, not {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(array, dtype=np.int64)
