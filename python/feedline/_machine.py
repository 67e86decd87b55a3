"""What this process may use of the machine: processors and memory, by affinity, control group and other ranks."""

from __future__ import annotations

import os
import time
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
        for group in self._groups("cpu"):
            words = self._read(group / "cpu.max").split() or [
                self._read(group / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            ]
            if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]) > 0:
                allowed = min(allowed, int(words[0]) / int(words[1]))
        return allowed / self.ranks

    def memory(self) -> int:
        """Bytes that this rank can still take before the system or the control group has none left."""
        free = 1 << 62
        for line in self._read(self._root / "proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024 * int(line.split()[1])
        for group in self._groups("memory"):
            for names in (
                ("memory.max", "memory.current"),
                ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ):
                limit, used = (self._read(group / name).strip() for name in names)
                if limit.isdecimal() and used.isdecimal():
                    # What it caches of files is used, and is given up before anything fails.
                    cached = self._cached(self._read(group / "memory.stat"))
                    free = min(free, max(0, int(limit) - int(used) + cached))
        return free // self.ranks

    def _groups(self, controller: str) -> Iterator[Path]:
        """The folders of this process's control group and of those around it: each may set a limit.

        In the second version all controllers have one tree; in the first, each has its own, and both may be there.
        """
        top = self._root / "sys/fs/cgroup"
        trees = {"": top}
        own = {"": "/"}
        for line in self._read(self._root / "proc/self/cgroup").splitlines():
            _, names, path = (*line.split(":", 2), "", "")[:3]
            if names == "":
                own[""] = path
            elif controller in names.split(","):
                own[controller] = path
                # By both names, as systemd mounts it, or by its own.
                trees[controller] = top / names if (top / names).is_dir() else top / controller
        for tree, path in own.items():
            parts = [part for part in path.split("/") if part and part != ".."]
            for length in range(len(parts), -1, -1):
                yield trees[tree].joinpath(*parts[:length])

    @staticmethod
    def _cached(stat: str) -> int:
        words = dict(line.split() for line in stat.splitlines() if line.count(" ") == 1)
        # The first version also sums up what groups inside hold, and only that is to be compared with its limit.
        names = ("inactive_file", "active_file")
        return sum(int(words.get(f"total_{name}", words.get(name, 0))) for name in names)

    @staticmethod
    def _read(path: Path) -> str:
        with suppress(OSError):
            return path.read_text()
        return ""


class Private:
    """Memory that a process shares with nobody, as it was lately.

    To read it takes the system milliseconds for each gigabyte that the process has mapped, so it is read again when
    the process has grown by an eighth, or after two thousand times as long as reading took.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._bytes = self._resident = 0
        self._due = 0.0

    def bytes(self, now: float) -> int:
        """How much it is; 0 if nobody says."""
        resident = self._read_resident()
        if now < self._due and resident <= 1.125 * self._resident:
            return self._bytes
        began = time.monotonic()
        self._bytes, self._resident = private_bytes(self.pid), resident
        self._due = now + 2000 * (time.monotonic() - began)
        return self._bytes

    def _read_resident(self) -> int:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1])
        return 0


def private_bytes(pid: int) -> int:
    """Memory that a process shares with nobody; 0 if nobody says."""
    total = 0
    with suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                total += 1024 * int(line.split()[1])
    return total
