"""A study's files in the form of a loader that has its own: written once for a list of files, and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from feedline.bench.request import Request
from feedline.bench.studies import Prepared

Pairs = list[tuple[str, int]]


def converted(
    prepared: Prepared, request: Request, form: str, write: Callable[[Path, Pairs], None]
) -> tuple[Path, Pairs]:
    """A folder that ``write(folder, files)`` has filled, and the files and labels in it, each once and in order."""
    pairs = list(dict.fromkeys(zip(prepared.paths, prepared.labels, strict=True)))
    name = hashlib.sha256("\n".join(f"{path} {label}" for path, label in pairs).encode()).hexdigest()[:12]
    folder = request.cache_folder / f"{request.study}-{form}-{name}"
    if not folder.is_dir():
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        draft.mkdir(parents=True)
        try:
            write(draft, pairs)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder, pairs
