"""What the instrument itself costs: its loop, and its look at memory.

    python bench/harness/run.py [--batches N] [--json FILE]

Two figures of ``feedline bench``: the batches per second that it reads of a loader that does nothing, which no loader
can exceed, and the share of a processor that its monitor takes while torch's worker processes load. It ends with 1 if
the first is not above 100,000 or the second not below 1 %.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BATCHES_PER_SECOND = 100_000
MONITOR = 0.01


def measured(*arguments: str) -> list[dict[str, Any]]:
    """The measurements of the only point of a run."""
    with tempfile.TemporaryDirectory() as out:
        command = [
            sys.executable,
            "-m",
            "feedline",
            "bench",
            *arguments,
            "--repeats",
            "3",
            "--json",
            "--out",
            out,
        ]
        (record,) = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    (point,) = record["points"]
    assert not point["error"], point["error"]
    return point["repeats"]


def main() -> int:
    """Measure both, show them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=200_000, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    delay = ["delay", "--scale", "smoke"]
    nothing = measured(
        *delay,
        "--variant",
        "small",
        "--only",
        "null",
        "--workers",
        "1",
        "--batch",
        "1",
        "--batches",
        str(args.batches),
    )
    rates = [len(one["epochs"][0]["waits_ms"]) / one["epochs"][0]["total_s"] for one in nothing]
    # Eight processes are many to look at, and seconds enough to look often.
    loading = measured(*delay, "--only", "torch", "--workers", "8", "--batches", "30")
    shares = [one["memory"]["monitor"] for one in loading]
    middle, least = statistics.median(rates), min(rates)
    print(f"a loader that does nothing: {middle:,.0f} batches/s, {least:,.0f} at least")
    middle, most = (100 * value for value in (statistics.median(shares), max(shares)))
    print(f"the monitor of 8 workers: {middle:.2f} % of a processor, {most:.2f} % at most")
    if args.json:
        args.json.write_text(json.dumps({"batches_per_second": rates, "monitor": shares}, indent=1) + "\n")
    return 0 if min(rates) > BATCHES_PER_SECOND and max(shares) < MONITOR else 1


if __name__ == "__main__":
    sys.exit(main())
