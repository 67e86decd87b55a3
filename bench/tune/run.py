"""Whether ``feedline tune`` finds, in a short time, what a whole grid finds.

    python bench/tune/run.py [STUDY ...] [--seconds S] [--repeats N] [--json FILE]

For each study: tune, then measure every setting that it chose among, in fresh processes, and see how good its choice
is there. The figure is the rate of the chosen setting as a share of the best one's; it should be 0.95 or more.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: The batches of a measurement of the grid: some seconds of loading, and the seconds of the search.
STUDIES = {
    "delay": (20, 10.0),
    "images": (10, 30.0),
    "cells": (200, 30.0),
    "text": (150, 30.0),
    "volumes": (12, 30.0),
}


def feedline(*arguments: str) -> Any:
    """What the command answers."""
    command = [sys.executable, "-m", "feedline", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def rate(measurement: dict[str, Any]) -> float:
    """Samples per second from the moment that workers were started, as the search has it."""
    epoch = measurement["epochs"][0]
    return epoch["items"] / ((sum(epoch["waits_ms"]) + sum(epoch["steps_ms"])) / 1e3 - epoch["started_s"])


def setting(point: dict[str, Any]) -> tuple[str, int]:
    """What is chosen among."""
    return point["contestant"], point["workers"]


def study(name: str, seconds: float | None, repeats: int) -> dict[str, Any]:
    """One line of the table."""
    batches, usual = STUDIES[name]
    seconds = seconds or usual
    tuned = feedline("tune", name, "--seconds", str(seconds))
    chosen = tuned["ranked"][0]["point"]
    workers = sorted({entry["point"]["workers"] for entry in tuned["ranked"]})
    runs = ["--batch", str(chosen["batch"]), "--batches", str(batches), "--repeats", str(repeats)]
    rates = {}
    # Of torch, its default alone: that is what a choice must not be slower than.
    for contestants, counts in ("feedline,threads", workers), ("torch", [0]):
        grid = ["--only", contestants, "--workers", ",".join(map(str, counts))]
        with tempfile.TemporaryDirectory() as out:
            record = feedline("bench", name, *grid, *runs, "--out", out)[0]
        rates |= {
            setting(point["point"]): statistics.median(map(rate, point["repeats"]))
            for point in record["points"]
            if point["repeats"]
        }
    best = max(rates, key=lambda one: rates[one])
    return {
        "study": name,
        "seconds": seconds,
        "chosen": setting(chosen),
        "best": best,
        "of_best": rates[setting(chosen)] / rates[best],
        "of_torch_default": rates[setting(chosen)] / rates["torch", 0],
        "certainty": tuned["certainty"],
        "rates": {f"{contestant} {workers}": value for (contestant, workers), value in rates.items()},
    }


def main() -> int:
    """Every study that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"some of {', '.join(STUDIES)}")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    if unknown := set(args.studies) - set(STUDIES):
        parser.error(f"there is no study {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}")
    print(f"{'study':9}{'seconds':>8}  {'chosen':14}{'best':14}{'of best':>8}{'of torch, 0':>13}", flush=True)
    rows = []
    for name in args.studies or STUDIES:
        row = study(name, args.seconds, args.repeats)
        rows.append(row)
        chosen, best = (f"{one[0]} {one[1]}" for one in (row["chosen"], row["best"]))
        figures = f"{row['of_best']:8.2f}{row['of_torch_default']:13.2f}"
        print(f"{name:9}{row['seconds']:8.0f}  {chosen:14}{best:14}{figures}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["of_best"] >= 0.95 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
