"""Whether a run of ``feedline bench`` says the same when it is repeated.

    python bench/repeat/run.py STUDY [--times N] [--out FOLDER] [settings of feedline bench ...]

Runs the same command several times, each with a record of its own in ``FOLDER/1``, ``FOLDER/2`` and so on, where a
second call finds them again, and compares every two of them. Two things should hold:

- *order*: of two loaders at the same settings, the faster one is the faster one again, unless the spreads that a run
  shows around the two overlap: that is a tie;
- *covered*: what one run has measured lies within the spread that another shows around its own figure; nine times in
  ten, as spreads are made.

Points that a run itself calls disturbed, because others used more than a tenth of the processors meanwhile, are left
out. It ends with 1 if two loaders have changed places that no run has called a tie, or if nothing can be compared.
"""

import argparse
import csv
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: What makes a setting, beside the loader.
SETTINGS = ("workers", "batch", "prefetch", "pin", "step")


@dataclass(frozen=True)
class Figure:
    """A point's samples per second, and the spread around it as a share."""

    rate: float
    spread: float

    def covers(self, other: "Figure") -> bool:
        """Whether the other lies within the spread."""
        return abs(other.rate - self.rate) <= self.spread * self.rate

    def ties_with(self, other: "Figure") -> bool:
        """Whether the spreads overlap."""
        return abs(other.rate - self.rate) <= self.spread * self.rate + other.spread * other.rate


#: The share of the processors that others may use meanwhile.
FOREIGN = 0.1

#: By setting and loader.
Run = dict[tuple[tuple[str, ...], str], Figure]


def measured(folder: Path, arguments: list[str]) -> Run:
    """The figures of one run, in that folder; measured, if they are not there."""
    command = [sys.executable, "-m", "feedline", "bench", *arguments, "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (path,) = folder.glob("*.csv")
    with path.open(newline="") as file:
        return {
            (tuple(row[name] for name in SETTINGS), row["contestant"]): Figure(
                float(row["items_per_s"]), float(row["spread"])
            )
            for row in csv.DictReader(file)
            if row["ranked"] == "true" and float(row["foreign"]) <= FOREIGN
        }


def pairs(runs: list[Run]) -> Iterator[tuple[Run, Run]]:
    """Every two runs."""
    return itertools.combinations(runs, 2)


def covered(runs: list[Run]) -> tuple[int, int]:
    """How many figures lie within the spread of another run, of how many."""
    seen = [
        one[point].covers(other[point])
        for first, second in pairs(runs)
        for one, other in ((first, second), (second, first))
        for point in one.keys() & other.keys()
    ]
    return sum(seen), len(seen)


def changed(runs: list[Run]) -> tuple[list[str], int, int]:
    """Who has changed places that no run calls a tie; how many did although one calls it so; of how many pairs."""
    faults, ties, total = [], 0, 0
    for first, second in pairs(runs):
        common = sorted(first.keys() & second.keys())
        for a, b in itertools.combinations(common, 2):
            if a[0] != b[0]:
                continue
            total += 1
            if (first[a].rate > first[b].rate) == (second[a].rate > second[b].rate):
                continue
            if first[a].ties_with(first[b]) or second[a].ties_with(second[b]):
                ties += 1
            else:
                faults.append(f"{a[1]} and {b[1]} at {dict(zip(SETTINGS, a[0], strict=True))}")
    return faults, ties, total


def main() -> int:
    """Run, compare, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--times", type=int, default=2, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    known, arguments = parser.parse_known_args()
    if known.times < 2:
        parser.error("--times must be at least 2")
    with tempfile.TemporaryDirectory() as temporary:
        folder = known.out or Path(temporary)
        runs = [measured(folder / str(number + 1), arguments) for number in range(known.times)]
    points = dict.fromkeys(point for run in runs for point in run)
    for setting, name in points:
        shown = (run.get((setting, name)) for run in runs)
        figures = "  ".join(
            f"{one.rate:9.0f} ± {100 * one.spread:3.0f} %" if one else f"{'disturbed':>17}" for one in shown
        )
        print(f"{name:16}{setting[0]:>3} workers, batch {setting[1]:>4}  {figures}")
    within, compared = covered(runs)
    faults, ties, total = changed(runs)
    print(
        f"covered: {within} of {compared}; order: {total - ties - len(faults)} of {total} pairs, {ties} ties"
    )
    for fault in faults:
        print(f"changed places: {fault}")
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
