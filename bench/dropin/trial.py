"""A trial: the contestants against each other, interleaved, on one case.

Each measurement is a fresh process. Before the timed ones, a short epoch of each contestant is read and its
checksums compared: a loader that delivers something else has no speed. The order changes with each
repeat, because the clock of a shared machine drifts. A trial of which some repeats keep a target and others
do not goes on, up to twice as long, whatever the first ones say.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from case import Case
from measure import Run

#: A measurement that takes longer hangs.
LIMIT_S = 900
#: The longest epoch that `Trial.fill` may choose; some datasets hold all of it in memory.
MOST_ITEMS = 2_000_000


class TrialError(Exception):
    """A trial without a result: a contestant failed, hung, or delivered something else."""


@dataclass(frozen=True)
class Trial:
    """What is run. Of several runs of torch the fastest counts; they may be feedline's own, with other settings."""

    torch: tuple[Run, ...]
    feedline: Run
    #: Each turns the outcome into one line of the report.
    readings: tuple[Callable[["Outcome"], Any], ...]
    #: Lengthen the epoch until torch needs about so many seconds.
    fill: float | None = None
    #: Whose runs stand in torch's place.
    rival: str = "torch"


@dataclass(frozen=True)
class Outcome:
    """All reports of a trial, in the order of the repeats."""

    torch_run: Run
    feedline_run: Run
    torch: list[dict[str, Any]]
    feedline: list[dict[str, Any]]
    #: The reports of every run, those of the slower runs of torch too.
    raw: list[dict[str, Any]] = field(default_factory=list)

    def values(self, contestant: str, key: str) -> list[float]:
        """List one measure of all repeats, NaN if an epoch was too short to have it."""
        values = [report[key] for report in getattr(self, contestant)]
        return [float("nan") if value is None else value for value in values]

    @property
    def foreign(self) -> float:
        """The largest share of the processors that others used during a measurement."""
        return max(report["foreign_cpu"] for report in self.raw)


def busy_seconds() -> float:
    """CPU time of the whole machine that was not idle, time stolen by the host included."""
    user, nice, system, _idle, _wait, irq, soft, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU time of this process and of all descendants that have ended."""
    return sum(os.times()[:4])


def in_fresh_process(run: Run, contestant: str, cache: Path) -> dict[str, Any]:
    """Measure once, and note how much of the processors others used meanwhile."""
    request = json.dumps({"run": asdict(run), "contestant": contestant, "cache": str(cache)})
    command = [sys.executable, str(Path(__file__).with_name("measure.py")), request]
    start, busy, own = time.perf_counter(), busy_seconds(), own_seconds()
    # Leads a process group of its own, so that a measurement that hangs is ended together with its workers.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TrialError(f"{contestant} took more than {LIMIT_S} s") from None
            raise
    if process.returncode:
        raise TrialError(f"{contestant} failed: {(err.strip() or 'no message').splitlines()[-1]}")
    processors = (time.perf_counter() - start) * (os.cpu_count() or 1)
    foreign = (busy_seconds() - busy - (own_seconds() - own)) / processors
    return json.loads(out.splitlines()[-1]) | {"workers": run.workers, "foreign_cpu": max(0.0, foreign)}


def agree(reports: list[dict[str, Any]]) -> None:
    """Refuse reports of different batches."""
    seen = {(report["contestant"], report["workers"]): report["checksum"] for report in reports}
    if len({tuple(checksum) for checksum in seen.values()}) > 1:
        raise TrialError(f"different batches (count, checksum): {seen}")


def rehearse(trial: Trial, case: Case, cache: Path, note: Callable[[str], None]) -> dict[str, Any]:
    """Compare all batches of a short epoch with an odd end; return torch's report."""
    workers = min(8, max(1, trial.feedline.workers))
    batches = workers * (8 if trial.fill else 2)
    items = (case.batch or 1) * batches + (case.batch or 1) // 2 + 1
    items = items if trial.fill else min(items, trial.feedline.items)
    reports = []
    for contestant, run in (trial.rival, trial.torch[-1]), ("feedline", trial.feedline):
        note(f"comparing, {contestant}")
        short = replace(run, items=items, mode="epoch", serial=0, check=True)
        reports.append(in_fresh_process(short, contestant, cache))
    agree(reports)
    return reports[0]


def filled(trial: Trial, case: Case, report: dict[str, Any]) -> Trial:
    """Choose the length of the epoch from a shorter or longer one of torch."""
    batch, fill = case.batch or 1, trial.fill or 1.0
    rate = report["steady_items_per_s"] or batch / report["first_batch_s"]
    seconds = max(fill / 2, fill - report["first_batch_s"])
    batches = max(2, round(rate * seconds / batch))
    items = min(batches * batch, MOST_ITEMS)
    return replace(
        trial,
        torch=tuple(replace(run, items=items) for run in trial.torch),
        feedline=replace(trial.feedline, items=items),
    )


def contest(
    trial: Trial, case: Case, cache: Path, repeats: int, note: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Run a trial: rehearse, then measure in turns."""
    rehearsal = rehearse(trial, case, cache, note)
    if trial.fill:
        trial = filled(trial, case, rehearsal)
        note("choosing the length")
        # The rehearsal of a quick case is over in milliseconds: too rough to choose by it alone.
        trial = filled(trial, case, in_fresh_process(trial.torch[-1], trial.rival, cache))
    turn = [(trial.rival, run) for run in trial.torch] + [("feedline", trial.feedline)]
    reports: dict[tuple[str, Run], list[dict[str, Any]]] = {entry: [] for entry in turn}
    for repeat in range(2 * repeats):
        for contestant, run in turn if repeat % 2 == 0 else reversed(turn):
            note(f"{repeat + 1}/{repeats}, {contestant}")
            reports[contestant, run].append(in_fresh_process(run, contestant, cache))
        outcome = outcome_of(trial, reports)
        if repeat + 1 >= repeats and not any(reading(outcome).is_open for reading in trial.readings):
            break
    agree(outcome.raw)
    return outcome


def outcome_of(trial: Trial, reports: dict[tuple[str, Run], list[dict[str, Any]]]) -> Outcome:
    """Choose torch's fastest run."""
    best = min(trial.torch, key=lambda run: statistics.median(cost(r) for r in reports[trial.rival, run]))
    raw = [report for group in reports.values() for report in group]
    return Outcome(best, trial.feedline, reports[trial.rival, best], reports["feedline", trial.feedline], raw)


def cost(report: dict[str, Any]) -> float:
    """Rank runs of torch: by time, where there is a total."""
    return report.get("seconds_total", 0.0)
