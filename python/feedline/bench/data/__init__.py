"""Generated files: the same on every machine, written once into a cache folder and reused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

#: Told how many of how many files are written.
Told = Callable[[int, int], None]


def generated(
    cache: Path, name: str, files: Iterable[Any], write: Callable[[Path, Any], None], told: Told
) -> Path:
    """The folder `name` of the cache. If it is not there, ``write(folder, file)`` is called for every file.

    It is filled under another name and then moved, so that an interrupted run leaves no half-filled folder.
    Files are independent of each other: their order, and who writes them, does not matter.
    """
    folder = cache / name
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    draft = cache / f"{name}.{os.getpid()}"
    draft.mkdir()
    listed = list(files)
    try:
        with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("fork")) as pool:
            told(0, len(listed))
            for done, _ in enumerate(pool.map(partial(write, draft), listed, chunksize=16), start=1):
                if done % 64 == 0 or done == len(listed):
                    told(done, len(listed))
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder
