"""Feedline's drop-in against PyTorch's data loader, side by side.

    python bench/dropin/run.py STUDY [--only NAME] [--workers N ...] [--repeats N] [--scale smoke]
                               [--json FILE] [--cache FOLDER]

`STUDY` is a module of `studies` or `all`. With `FEEDLINE_BENCH_SUBJECT=torch` torch runs against itself,
which tests the scripts and shows what a ratio of 1 looks like on this machine.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

from report import Report
from studies import NAMES
from trial import Trial, TrialError, contest


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=(*NAMES, "all"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", choices=("smoke", "default"), default="default")
    parser.add_argument("--only", metavar="NAME", help="cases whose name contains NAME")
    parser.add_argument("--workers", type=int, nargs="+", metavar="N", help="feedline's numbers of workers")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--cache", type=Path, default=Path(__file__).parent / ".cache", metavar="FOLDER")
    return parser.parse_args()


def chosen(study: ModuleType, args: argparse.Namespace) -> Iterator[Trial]:
    """Keep the trials that the command line asks for."""
    for trial in study.trials(args.scale):
        run = trial.feedline
        if (not args.only or args.only in run.case) and (not args.workers or run.workers in args.workers):
            yield trial


def progress(label: str = "", message: str = "") -> None:
    """Show what is being measured, on a terminal only; the next message or line takes its place."""
    if sys.stderr.isatty():
        print(f"\r\033[K{label}{message}", end="", file=sys.stderr, flush=True)


def run(name: str, args: argparse.Namespace, report: Report) -> None:
    """Run the chosen trials of one study; one that fails does not end the others."""
    study = importlib.import_module(f"studies.{name}")
    report.study(name)
    for trial in chosen(study, args):
        case = trial.feedline.case
        label = f"{name}, {case}, {trial.feedline.workers} workers: "
        try:
            note = partial(progress, label)
            outcome = contest(trial, study.CASES[case], args.cache.resolve(), args.repeats, note)
        except TrialError as error:
            progress()
            report.error(trial, str(error))
        else:
            progress()
            report.outcome(outcome, [reading(outcome) for reading in trial.readings])


def main() -> int:
    """Run the studies; errors, unlike missed targets, make the exit status 1."""
    args = arguments()
    report = Report({key: getattr(args, key) for key in ("study", "repeats", "scale", "only", "workers")})
    try:
        for name in NAMES if args.study == "all" else (args.study,):
            run(name, args, report)
    finally:
        report.end(args.json)
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
