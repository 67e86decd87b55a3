"""What this process may use of the machine: processors and memory, by affinity, control group and other ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path


def affinity() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Machine:
    """Reads what there is, as often as it is asked: quotas and affinities change while a program runs."""

    def __init__(self, root: str = "/", environment: Mapping[str, str] | None = None) -> None:
        self._root = Path(root)
        self._environment = os.environ if environment is None else environment

    @property
    def ranks(self) -> int:
        """How many processes of this training share the machine, as torchrun says."""
        with suppress(ValueError):
            return max(1, int(self._environment.get("LOCAL_WORLD_SIZE", "1")))
        return 1

    def processors(self) -> float:
        """Processors for this rank; of the last one, a quota may leave a part."""
        allowed = float(affinity())
        for group in self._groups():
            words = self._read(group / "cpu.max").split()
            if len(words) == 2 and words[0].isdecimal() and int(words[1]) > 0:
                allowed = min(allowed, int(words[0]) / int(words[1]))
        return allowed / self.ranks

    def memory(self) -> int:
        """Bytes that this rank can still take before the system or the control group has none left."""
        free = 1 << 62
        for line in self._read(self._root / "proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024 * int(line.split()[1])
        for group in self._groups():
            limit, used = (
                self._read(group / "memory.max").strip(),
                self._read(group / "memory.current").strip(),
            )
            if limit.isdecimal() and used.isdecimal():
                # What it caches of files is used, and is given up before anything fails.
                cached = self._cached(self._read(group / "memory.stat"))
                free = min(free, max(0, int(limit) - int(used) + cached))
        return free // self.ranks

    def _groups(self) -> Iterator[Path]:
        """The folders of this process's control group and of those around it: each may set a limit."""
        own = next(
            (
                line[3:]
                for line in self._read(self._root / "proc/self/cgroup").splitlines()
                if line[:3] == "0::"
            ),
            "/",
        )
        top = self._root / "sys/fs/cgroup"
        parts = [part for part in own.split("/") if part and part != ".."]
        for length in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:length])

    @staticmethod
    def _cached(stat: str) -> int:
        words = dict(line.split() for line in stat.splitlines() if line.count(" ") == 1)
        return int(words.get("inactive_file", 0)) + int(words.get("active_file", 0))

    @staticmethod
    def _read(path: Path) -> str:
        with suppress(OSError):
            return path.read_text()
        return ""


def private_bytes(pid: int) -> int:
    """Memory that a process shares with nobody; 0 if nobody says."""
    total = 0
    with suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                total += 1024 * int(line.split()[1])
    return total
