"""The report: a table that grows as trials end, and the same with all raw figures as JSON."""

import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import SUBJECT
from reading import Line
from trial import Outcome, Run, Trial

#: Above this share, others were using the machine and a figure means little.
FOREIGN = 0.10
WIDTHS = (16, 8, 24, 10, 10, 8, 7, 3, 8, 7)
HEADS = ("case", "workers", "measure", "torch", "feedline", "figure", "spread", "n", "target", "")
PACKAGES = ("torch", "numpy", "torchvision", "pillow", "h5py", "feedline")


def number(value: float) -> str:
    """Write four significant digits, or as many as the whole part has."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def plain(line: Line) -> dict[str, Any]:
    """Turn a line into what JSON can hold, which has no NaN."""
    fields = asdict(line) | {"figure": line.figure, "spread": line.spread, "verdict": line.verdict}
    fields["figures"] = [None if figure != figure else figure for figure in line.figures]
    return {key: None if value != value else value for key, value in fields.items()}


def row(cells: tuple[str, ...]) -> str:
    """Align one row: names to the left, figures to the right."""
    aligned = [
        f"{cell:<{width}}" if column in (0, 2, 9) else f"{cell:>{width}}"
        for column, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def workers(torch: Run, feedline: Run) -> str:
    """Write one number of workers, or torch's and feedline's where they differ."""
    own = f"{feedline.workers}{'t' if feedline.threads else ''}"
    return own if own == str(torch.workers) else f"{torch.workers}/{own}"


def version(package: str) -> str | None:
    """Return the version of a package, if it is there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """Return the commit that is measured, marked if there are changes on top of it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def environment() -> dict[str, Any]:
    """Describe the machine and the versions; nothing that names the machine."""
    cpu = [x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")]
    return {
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
        "subject": SUBJECT,
        "commit": commit(),
        "kernel": platform.release(),
        "cpu": cpu[0].partition(":")[2].strip() if cpu else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


class Report:
    """What has been measured so far."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Note the machine and its load before anything runs, and print them."""
        self.settings = settings
        self.environment = environment()
        self.load_before = os.getloadavg()
        self.trials: list[dict[str, Any]] = []
        self.errors = self.missed = 0
        self.disturbed: list[float] = []
        versions = ", ".join(f"{k} {v}" for k, v in self.environment["versions"].items() if v)
        print(f"{self.environment['cpu']}, {self.environment['processors']} processors; {versions}")
        print(f"load average {self.load_before[0]:.2f}; medians of {settings['repeats']} or more")
        if SUBJECT != "feedline":
            print(f"the subject is {SUBJECT}: this run tests the benchmark and measures nothing")

    def study(self, name: str) -> None:
        """Begin the table of a study."""
        print(f"\n{name}\n{row(HEADS)}", flush=True)

    def outcome(self, outcome: Outcome, lines: list[Line]) -> None:
        """Print the lines of a trial and keep its raw figures."""
        run = outcome.feedline_run
        for line in lines:
            cells = (number(line.torch), number(line.feedline), number(line.figure), f"{line.spread:.0%}")
            cells = (*cells, str(len(line.figures)))
            label = (run.case, workers(outcome.torch_run, run), line.measure)
            print(row((*label, *cells, str(line.target or ""), line.verdict)), flush=True)
            self.missed += line.verdict == "MISSED"
        if outcome.foreign > FOREIGN:
            print(f"  warning: others used up to {outcome.foreign:.0%} of the processors", flush=True)
            self.disturbed.append(outcome.foreign)
        self.trials.append(
            {
                "torch": asdict(outcome.torch_run),
                "feedline": asdict(run),
                "lines": [plain(line) for line in lines],
                "reports": outcome.raw,
            }
        )

    def error(self, trial: Trial, message: str) -> None:
        """Print why a trial has no result."""
        print(f"{trial.feedline.case}, {workers(trial.torch[-1], trial.feedline)} workers: ERROR {message}")
        sys.stdout.flush()
        self.errors += 1
        self.trials.append({"feedline": asdict(trial.feedline), "error": message})

    def end(self, path: Path | None) -> None:
        """Print the summary and write the JSON."""
        load = os.getloadavg()
        print(f"\n{len(self.trials)} trials, {self.missed} targets missed, {self.errors} errors", end="; ")
        print(f"load average {self.load_before[0]:.2f} before, {load[0]:.2f} after")
        if self.disturbed:
            print(f"warning: others used more than {FOREIGN:.0%} in {len(self.disturbed)} trials")
        if path:
            document = {
                "environment": self.environment,
                "settings": self.settings,
                "load_average": {"before": self.load_before, "after": load},
                "trials": self.trials,
            }
            path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
