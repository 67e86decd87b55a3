"""One measurement, in the process that was started for it.

`trial.py` starts this file once per measurement, so nothing that a contestant leaves behind (warm allocators,
imported modules, finished workers) reaches the next one. Prints one JSON line.
"""

import importlib
import json
import os
import random
import statistics
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from case import Case
from torch.utils.data import DataLoader, Dataset

#: `torch` puts torch's own class in feedline's place: the ratios must then be about 1.
SUBJECT = os.environ.get("FEEDLINE_BENCH_SUBJECT", "feedline")
#: How long the consumer sleeps before it takes a batch that is certainly finished.
REST = 1.0


@dataclass(frozen=True)
class Run:
    """All that a fresh process needs to know to measure one contestant once."""

    study: str
    case: str
    items: int
    workers: int
    #: `epoch`, `hand-over` or `memory`.
    mode: str = "epoch"
    #: Ask feedline for threads in place of processes.
    threads: bool = False
    #: Time so many samples without a loader first: the serial rate that "ideal" refers to.
    serial: int = 0
    #: Read a second epoch, untimed, and take the checksum of all its batches.
    check: bool = False


def loader_class(contestant: str) -> type[DataLoader]:
    """Import the contestant, and only that one."""
    if contestant == "torch" or SUBJECT == "torch":
        return DataLoader
    from feedline import DataLoader as FeedlineLoader

    return FeedlineLoader


def opener(run: Run, case: Case, dataset: Dataset, contestant: str) -> Callable[[], DataLoader]:
    """Return what makes the loader, so that the clock can start before it."""
    cls = loader_class(contestant)
    options = {"batch_size": case.batch, "num_workers": run.workers, **case.options}
    if run.threads and cls is DataLoader:
        options["num_workers"] = min(run.workers, 8)  # the stand-in has processes only
    elif run.threads:
        options["workers"] = "thread"

    def make() -> DataLoader:
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        return cls(dataset, **options)

    return make


def digest(part: Any, crc: int = 0) -> int:
    """Fold types, shapes and bytes of a batch into a checksum that depends on their order."""
    if isinstance(part, torch.Tensor):
        part = part.numpy()
    if isinstance(part, np.ndarray):
        crc = zlib.crc32(f"{part.dtype}{part.shape}".encode(), crc)
        return zlib.crc32(np.ascontiguousarray(part).reshape(-1).view(np.uint8), crc)
    if isinstance(part, dict):
        part = [entry for pair in part.items() for entry in pair]
    if isinstance(part, list | tuple):
        crc = zlib.crc32(f"{type(part).__name__}{len(part)}".encode(), crc)
        for entry in part:
            crc = digest(entry, crc)
        return crc
    return zlib.crc32(repr(part).encode(), crc)


def epoch(make: Callable[[], DataLoader], case: Case, items: int) -> dict[str, Any]:
    """Iterate once and do nothing else; the end of the workers is inside the clock, as in a `for` loop."""
    start = time.perf_counter()
    batches = iter(make())
    batch = next(batches)
    first = last = time.perf_counter()
    count = 1
    for batch in batches:  # noqa: B007 - the last batch is looked at below
        last = time.perf_counter()
        count += 1
    del batches
    total = time.perf_counter() - start
    later = items - min(items, case.batch or 1)
    return {
        "seconds_total": total,
        "first_batch_s": first - start,
        "steady_items_per_s": later / (last - first) if last > first else None,
        "checksum": [count, digest(case.compare(batch))],
    }


def hand_over(make: Callable[[], DataLoader], case: Case, items: int) -> dict[str, Any]:
    """Time `next()` alone, for batches that were finished while the consumer slept."""
    batches = iter(make())
    batch = next(batches)
    waits = []
    for _ in range(items // (case.batch or 1) - 1):
        time.sleep(REST)
        start = time.perf_counter()
        batch = next(batches)  # lets go of the previous batch too, as a training loop does
        waits.append(time.perf_counter() - start)
    return {"waits_ms": [1e3 * w for w in waits], "checksum": [len(waits), digest(case.compare(batch))]}


def tree(root: int) -> Iterator[int]:
    """List a process and its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # ended meanwhile
        children.setdefault(parent, []).append(int(stat.parent.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, [])


def pss_mb(root: int) -> float:
    """Add up the proportional set sizes of a process tree: shared pages count once."""
    total = 0
    for pid in tree(root):
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def memory(make: Callable[[], DataLoader], case: Case, items: int) -> dict[str, Any]:
    """Iterate once while a thread samples the memory of the process tree."""
    samples: list[float] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(0.2):
            samples.append(pss_mb(os.getpid()))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        report = epoch(make, case, items)
    finally:
        done.set()
        sampler.join()
    samples = samples or [pss_mb(os.getpid())]
    return report | {"peak_pss_mb": max(samples), "median_pss_mb": statistics.median(samples)}


def serial_seconds(dataset: Any, items: int) -> float:
    """Time samples without any loader, and return the mean."""
    start = time.perf_counter()
    for index in range(items):
        dataset[index]
    return (time.perf_counter() - start) / items


def checksum(make: Callable[[], DataLoader], case: Case) -> list[int]:
    """Count the batches of an epoch and fold all of them into one number."""
    crc = count = 0
    for batch in make():
        crc = digest(case.compare(batch), crc)
        count += 1
    return [count, crc]


def measure(run: Run, contestant: str, cache: Path) -> dict[str, Any]:
    """Build the dataset, then measure as the run asks."""
    torch.set_num_threads(1)
    case: Case = importlib.import_module(f"studies.{run.study}").CASES[run.case]
    dataset = case.make(run.items, cache)
    make = opener(run, case, dataset, contestant)
    extra = {"item_s": serial_seconds(dataset, run.serial)} if run.serial else {}
    report = {"epoch": epoch, "hand-over": hand_over, "memory": memory}[run.mode](make, case, run.items)
    if run.check:
        report["checksum"] = checksum(make, case)
    return {"contestant": contestant, "items": run.items} | report | extra


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    answer = measure(Run(**request["run"]), request["contestant"], Path(request["cache"]))
    print(json.dumps(answer), flush=True)
