"""Reviews: cut into words, words into numbers, padded to the longest of the batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import torch

from feedline.bench.data import text
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared, Told, cycled, files_of, sized, variant_of
from feedline.bench.studies.images import Files

#: By a hash of each word, from one file or from many; as numbers already; and by a tokenizer of Hugging Face.
VARIANTS = ("jsonl", "files", "tokens", "pieces")
NUMBERS = 30_000
LONGEST = 512


def tokens(review: str) -> torch.Tensor:
    """A number for every word, by a hash, which is what a tokenizer's lookup costs in Python."""
    words = review.lower().split()[:LONGEST]
    return torch.tensor([crc32(word.encode()) % NUMBERS + 1 for word in words], dtype=torch.int64)


def tokens_of_file(path: str) -> torch.Tensor:
    """The same for a review in a file."""
    with open(path) as file:
        return tokens(file.read())


class Pieces:
    """A number for every piece of a word, by a tokenizer of Hugging Face."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.tokenizer: Any = None

    def __call__(self, review: str) -> torch.Tensor:
        """The numbers of a review."""
        if self.tokenizer is None:
            from tokenizers import Tokenizer

            self.tokenizer = Tokenizer.from_file(self.file)
            self.tokenizer.enable_truncation(LONGEST)
        return torch.tensor(self.tokenizer.encode(review).ids, dtype=torch.int64)

    def __getstate__(self) -> dict[str, Any]:
        """The file alone."""
        return {"file": self.file, "tokenizer": None}


class Reviews:
    """Texts in memory, tokenised when asked for; or tokens, if that was done before."""

    def __init__(
        self, texts: list[str], labels: list[int], ready: bool, tokenize: Callable[[str], Any] = tokens
    ) -> None:
        self.texts = [tokenize(text) for text in texts] if ready else texts
        self.labels = labels
        self.ready = ready
        self.tokenize = tokenize

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        found: Any = self.texts[index]
        return found if self.ready else self.tokenize(found), self.labels[index]


def padded(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """As long as the longest, zeros behind the others."""
    rows = torch.nn.utils.rnn.pad_sequence([ids for ids, _ in samples], batch_first=True)
    return rows, torch.tensor([label for _, label in samples])


def prepare(request: Request, told: Told) -> Prepared:
    """Write the reviews if they are missing, and read what is read once."""
    variant = variant_of(request, VARIANTS)
    form = "files" if variant == "files" else "jsonl"
    folder = (
        Path(request.data) if request.data else text.folder(request.cache_folder, request.scale, form, told)
    )
    if variant == "files":
        paths, labels = files_of(folder, (".txt",))
        paths, labels = cycled(paths, request), cycled(labels, request)
        return Prepared(Files(paths, labels, tokens_of_file), variant, padded, paths, labels)
    path = folder / "reviews.jsonl" if folder.is_dir() else folder
    texts, labels = _read(path)
    tokenize: Callable[[str], Any] = tokens
    if variant == "pieces":
        tokenize = Pieces(str(text.tokenizer(request.cache_folder, told)))
    dataset = sized(Reviews(texts, labels, variant == "tokens", tokenize), request)
    return Prepared(dataset, variant, padded, source=str(path), load=tokenize)


def _read(path: Path) -> tuple[list[str], list[int]]:
    texts, labels = [], []
    try:
        with open(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = json.loads(line)
                    texts.append(str(row["text"]))
                    labels.append(int(row["label"]))
                except (ValueError, KeyError, TypeError) as error:
                    raise BadRequestError(f'{path}, line {number}: not {{"text": …, "label": …}}') from error
    except OSError as error:
        raise BadRequestError(f"{path} cannot be read: {error.strerror}") from error
    if not texts:
        raise BadRequestError(f"{path} is empty")
    return texts, labels
