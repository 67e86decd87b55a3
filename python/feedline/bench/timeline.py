"""When each worker was at which batch, whoever's worker it is: the dataset itself writes it down.

One record for each sample, appended to a file with one system call: processes and threads may do so at once, and
nothing has to survive them. It costs some microseconds, so a timeline is taken apart from measurements.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

#: Process, thread, sample, begin and end in nanoseconds of the monotonic clock.
_RECORD = struct.Struct("<iiqqq")

#: Neighbours with less than this between them are drawn as one, in seconds.
BREAK = 3e-3


class Recorded:
    """A dataset that writes down who loads which sample when."""

    def __init__(self, dataset: Any, path: Path) -> None:
        self.dataset = dataset
        self.path = str(path)
        self._file: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        began = time.monotonic_ns()
        sample = self.dataset[index]
        record = _RECORD.pack(os.getpid(), threading.get_native_id(), index, began, time.monotonic_ns())
        os.write(self._descriptor(), record)
        return sample

    def _descriptor(self) -> int:
        process = os.getpid()
        if self._file is None or self._file[0] != process:
            self._file = process, os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return self._file[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}


def lanes(path: Path, batch: int, start: float) -> list[list[list[float]]]:
    """For each worker: begin and end of each piece (seconds from `start`), its batch, and how many samples."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: len(data) // _RECORD.size * _RECORD.size]
    workers: dict[tuple[int, int], list[list[float]]] = {}
    for process, thread, index, began, ended in sorted(_RECORD.iter_unpack(whole), key=lambda one: one[3]):
        begin, end = began / 1e9 - start, ended / 1e9 - start
        pieces = workers.setdefault((process, thread), [])
        number = index // batch
        if pieces and pieces[-1][2] == number and begin - pieces[-1][1] < BREAK:
            pieces[-1][1] = end
            pieces[-1][3] += 1
        else:
            pieces.append([begin, end, number, 1])
    return [
        [[round(begin, 6), round(end, 6), number, samples] for begin, end, number, samples in pieces]
        for pieces in workers.values()
    ]
