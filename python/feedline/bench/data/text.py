"""Reviews: texts of about 230 words, with a label, in one file, in many, or already as numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from feedline.bench.data import Told, generated

COUNTS = {"smoke": 2000, "default": 25_000, "full": 25_000}
WORDS = 40_000
CHUNK = 500
#: A tokenizer knows so many pieces of words, learned from so many reviews.
PIECES, LEARNED = 30_000, 2000


def folder(cache: Path, scale: str, form: str, told: Told) -> Path:
    """A folder with ``reviews.jsonl``, or a file for each review."""
    count = COUNTS[scale]
    if form == "jsonl":
        return generated(cache, f"text-jsonl-{scale}", [count], _write_one, told)
    chunks = [range(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]
    return generated(cache, f"text-files-{scale}", chunks, _write_many, told)


def tokenizer(cache: Path, told: Told) -> Path:
    """The file of a tokenizer that cuts words into pieces, which were learned from some of the reviews."""
    return generated(cache, "text-tokenizer", [PIECES], _train, told) / "tokenizer.json"


def _train(root: Path, pieces: int) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=pieces, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    words = vocabulary()
    made.train_from_iterator((review(index, words)[0] for index in range(LEARNED)), trainer)
    made.save(str(root / "tokenizer.json"))


def vocabulary() -> list[str]:
    """Words of letters; the most frequent first, and short."""
    rng = np.random.default_rng(2020)
    lengths = np.minimum(2 + rng.geometric(0.22, WORDS), 14)
    letters = rng.choice(list("eeeetaaoinshrdlucmfwypvbgk"), int(lengths.sum()))
    words, at = [], 0
    for length in lengths:
        words.append("".join(letters[at : at + length]))
        at += length
    return words


def review(index: int, words: list[str]) -> tuple[str, int]:
    """A text and its label. Lengths differ as those of reviews do; words are as frequent as Zipf says."""
    rng = np.random.default_rng([2021, index])
    count = int(np.clip(rng.lognormal(5.2, 0.65), 10, 2000))
    ranks = np.minimum(rng.zipf(1.3, count) - 1, WORDS - 1)
    return " ".join(words[rank] for rank in ranks) + ".", index % 2


def _write_one(root: Path, count: int) -> None:
    words = vocabulary()
    with open(root / "reviews.jsonl", "w") as file:
        for index in range(count):
            text, label = review(index, words)
            file.write(json.dumps({"text": text, "label": label}) + "\n")


def _write_many(root: Path, indices: range) -> None:
    words = vocabulary()
    for index in indices:
        text, label = review(index, words)
        path = root / ("pos" if label else "neg") / f"{index:06}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
