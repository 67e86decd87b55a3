"""What is unhealthy about a dataset: looked at sample by sample, in processes of its own.

echo '{"data": "my_module:make"}' | python -m feedline.bench.runner --doctor
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Any

from feedline._choice import choose
from feedline.bench.consumer import leaves
from feedline.bench.request import Request
from feedline.bench.studies import own

#: How long to load samples for.
SECONDS = 2.0
SMALL_FILE, MANY_FILES = 64 << 10, 10_000

Finding = dict[str, str]


def finding(severity: str, about: str, text: str, remedy: str = "") -> Finding:
    """One finding, in the form of the command's own."""
    return {"severity": severity, "about": about, "text": text, "remedy": remedy}


def examine(request: Request) -> list[Finding]:
    """Look at a dataset of the user's."""
    dataset = own.prepare(request, lambda done, of: None).dataset
    if not hasattr(dataset, "__getitem__"):
        return [
            finding("note", "dataset", "it is a stream; only its samples could be looked at, and were not")
        ]
    return list(_examine(dataset))


def _examine(dataset: Any) -> Iterator[Finding]:
    yield from _pickling(dataset)
    try:
        seconds, count, size = _samples(dataset)
    except Exception as error:
        text = f"sample 0 cannot be loaded: {type(error).__name__}: {error}"
        yield finding("problem", "samples", text, "load it by hand first: dataset[0]")
        return
    each = seconds / count
    yield finding("good", "samples", f"{1e3 * each:.3g} ms and {size / 1e6:.3g} MB each, of {count}")
    if each < 20e-6:
        yield finding(
            "note",
            "samples",
            "they take microseconds: handing them over costs more",
            "num_workers=0 may be fastest",
        )
    kind, why = choose(dataset, get_context("fork"))
    yield finding("good", "workers", f"{kind} workers: {why}")
    yield from _random(dataset)
    yield from _files(dataset)


def _pickling(dataset: Any) -> Iterator[Finding]:
    start = time.perf_counter()
    try:
        size = len(pickle.dumps(dataset))
    except Exception as error:
        text = f"it cannot be pickled ({type(error).__name__}: {error})"
        remedy = "workers can only be forked; open files and locks in __getitem__, not in __init__"
        yield finding("warning", "pickling", text, remedy)
        return
    seconds = time.perf_counter() - start
    if size > 64 << 20 or seconds > 0.5:
        text = (
            f"its pickle has {size / 1e6:.0f} MB and takes {seconds:.1f} s, for every worker that is spawned"
        )
        yield finding("warning", "pickling", text, "keep large data in files or arrays that workers map")
    else:
        yield finding("good", "pickling", f"{size / 1e3:.3g} kB")


def _samples(dataset: Any) -> tuple[float, int, int]:
    start, count, size = time.perf_counter(), 0, 0
    for index in range(len(dataset)):
        size = sum(getattr(leaf, "nbytes", 0) for leaf in leaves(dataset[index]))
        count += 1
        if time.perf_counter() - start > SECONDS:
            break
    return time.perf_counter() - start, count, size


def _random(dataset: Any) -> Iterator[Finding]:
    """Whether augmentations differ between workers and between epochs."""
    here = [_print(dataset, 0) for _ in range(3)]
    if len(set(here)) == 1:
        return
    there = {_elsewhere(dataset) for _ in range(2)}
    if len(there) == 1:
        text = "samples are random, but copies of the dataset in two processes draw the same numbers"
        remedy = (
            "draw from random, numpy.random or torch, which are seeded for every sample or worker, "
            "not from a generator made in __init__"
        )
        yield finding("warning", "random numbers", text, remedy)
    else:
        yield finding("good", "random numbers", "samples are random, and differ between processes")


def _elsewhere(dataset: Any) -> int:
    """The first sample as a new process sees it."""
    with get_context("fork").Pool(1, initializer=_hold, initargs=(dataset,)) as pool:
        printed: int = pool.apply(_print_held, (0,))
    return printed


_held: Any = None


def _hold(dataset: Any) -> None:
    global _held
    _held = dataset


def _print_held(index: int) -> int:
    import random

    random.seed(os.getpid())
    try:
        import numpy as np
        import torch

        np.random.seed(os.getpid() % (1 << 32))
        torch.manual_seed(os.getpid())
    except ImportError:
        pass
    return _print(_held, index)


def _print(dataset: Any, index: int) -> int:
    """A number that stands for a sample."""
    parts = [leaf.tobytes() if hasattr(leaf, "tobytes") else _bytes(leaf) for leaf in leaves(dataset[index])]
    return hash(b"".join(parts))


def _bytes(leaf: Any) -> bytes:
    return leaf.numpy().tobytes() if hasattr(leaf, "numpy") else repr(leaf).encode()


def _files(dataset: Any) -> Iterator[Finding]:
    """Many small files, if the dataset lists them as torchvision's and most others do."""
    for name in ("samples", "imgs", "paths", "files"):
        listed = getattr(dataset, name, None)
        if isinstance(listed, list) and listed:
            break
    else:
        return
    paths = [entry[0] if isinstance(entry, tuple) else entry for entry in listed]
    some = [path for path in paths[:: max(1, len(paths) // 200)] if isinstance(path, (str, os.PathLike))]
    sizes = [os.path.getsize(path) for path in some if os.path.exists(path)]
    if not sizes:
        return
    mean = sum(sizes) / len(sizes)
    if mean < SMALL_FILE and len(paths) > MANY_FILES:
        text = (
            f"{len(paths)} files of {mean / 1e3:.0f} kB on average; over a network, opening them costs most"
        )
        yield finding(
            "note", "files", text, "pack them (tar shards, one large array) or copy them to a local disk"
        )
    else:
        yield finding("good", "files", f"{len(paths)} of {mean / 1e3:.0f} kB on average")
