"""How many packed volumes a second Python reads: `feedline.volumes` beside pynrrd, by as many threads or processes.

The rival's side of `feedline engine volumes`. Every reader gives numpy arrays, which are checked to be the same and
then forgotten. Readers take turns, and one process pool lives through all repeats. Prints one JSON line for each.

    python bench/peers/pynrrd_volumes.py ~/.cache/feedline/volumes-gzip-default
"""

import json
import statistics
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import nrrd
import numpy as np
from feedline import volumes

WORKERS = 2
REPEATS = 5


def by_feedline(path: str) -> int:
    """Read one, and return its bytes: the array itself would have to be sent to another process."""
    return volumes.read(path).array.nbytes


def by_pynrrd(path: str) -> int:
    """The same, by pynrrd."""
    return nrrd.read(path, index_order="C")[0].nbytes


def measure(pool: Executor, read: object, paths: list[str]) -> float:
    """Volumes per second."""
    began = time.perf_counter()
    assert sum(pool.map(read, paths)) > 0
    return len(paths) / (time.perf_counter() - began)


def main() -> None:
    """Measure all readers in turn."""
    paths = sorted(str(path) for path in Path(sys.argv[1]).rglob("*.nrrd"))
    for path in paths[:8]:
        assert np.array_equal(volumes.read(path).array, nrrd.read(path, index_order="C")[0]), path
    with ProcessPoolExecutor(WORKERS) as processes, ThreadPoolExecutor(WORKERS) as threads:
        readers = {
            "feedline, threads": (threads, by_feedline),
            "pynrrd, threads": (threads, by_pynrrd),
            "pynrrd, processes": (processes, by_pynrrd),
        }
        rates: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(REPEATS):
            for name, (pool, read) in readers.items():
                rates[name].append(measure(pool, read, paths))
    for name, repeats in rates.items():
        rate = statistics.median(repeats)
        print(
            json.dumps({"reader": name, "workers": WORKERS, "volumes_per_second": rate, "repeats": repeats})
        )


if __name__ == "__main__":
    main()
