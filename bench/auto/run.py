"""``num_workers="auto"`` beside a grid of fixed numbers, in the same run.

    python bench/auto/run.py best delay images          # reaches and holds the best fixed number? regret?
    python bench/auto/run.py idle delay                 # a step 1.1 times as long as loading: does the consumer wait?
    python bench/auto/run.py changes                    # dearer items, a shorter step, half of the processors
    python bench/auto/run.py ranks                      # two processes at once
    python bench/auto/run.py best python --kind thread  # threads that wait for each other: does it settle?
    python bench/auto/run.py tiny                       # batches of microseconds, beside loading inline

Every measurement is a process of its own, and settings take turns, because machines change their speed within
seconds: what is compared are ratios of neighbours. Output is JSON, to ``--out``.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STUDIES = ("delay", "images", "cells", "text", "volumes", "tiny", "compute", "python")
GRID: dict[str, tuple[int, ...]] = {
    "delay": (0, 2, 8, 32, 64),
    "compute": (0, 1, 2, 3, 4),
    "python": (0, 1, 2, 4),
    "tiny": (0, 1, 2),
}
USUAL = (0, 1, 2, 4)


@dataclass
class Point:
    """One measurement."""

    study: str
    workers: int | str
    kind: str = "process"
    seconds: float = 6.0
    step: float = 0.0
    batch: int = 32
    #: After half of the time: items cost so many times as much, the step is so many times as long, processors.
    items_then: float = 1.0
    step_then: float = 1.0
    processors_then: int = 0
    ranks: int = 1
    torch: bool = False
    cache: str = ""


class Costs:
    """A number that workers of all kinds read and that changes while they do."""

    def __init__(self) -> None:  # noqa: D107
        self.memory = mmap.mmap(-1, 8)
        self.set(1.0)

    def set(self, factor: float) -> None:
        """From now on."""
        self.memory[:8] = struct.pack("d", factor)

    def get(self) -> float:
        """As it is now."""
        return float(struct.unpack("d", self.memory[:8])[0])


class Made:
    """Samples that wait or compute for as long as is said; both are forked, so the cost is shared."""

    def __init__(self, costs: Costs, wait: float, compute: float) -> None:  # noqa: D107
        self.costs, self.wait, self.compute = costs, wait, compute

    def __len__(self) -> int:  # noqa: D105
        return 100_000

    def __getitem__(self, index: int) -> Any:  # noqa: D105
        import torch

        factor = self.costs.get()
        if self.wait:
            time.sleep(factor * self.wait)
        until = time.thread_time() + factor * self.compute
        while time.thread_time() < until:
            pass
        return torch.full((16,), index)


def dataset_of(point: Point, costs: Costs) -> tuple[Any, Any]:
    """The dataset and how it is collated."""
    if point.study == "tiny":
        return list(range(2_000_000)), None
    if point.study in ("compute", "python"):
        return Made(costs, 0.0, 0.0005), None
    if point.study == "delay":
        return Made(costs, 0.01, 0.0), None
    from importlib import import_module

    from feedline.bench.request import Request

    study = import_module(f"feedline.bench.studies.{point.study}")
    request = Request(point.study, "feedline", batch=point.batch, batches=2000, cache=point.cache)
    prepared = study.prepare(request, lambda _done, _of: None)
    # A training script imports what its dataset needs before it forks; these import it with the first sample.
    prepared.dataset[0]
    return prepared.dataset, prepared.collate


def measure(point: Point) -> dict[str, Any]:
    """Load for so many seconds, and say what happened when."""
    import feedline
    import torch.utils.data

    costs = Costs()
    dataset, collate = dataset_of(point, costs)
    arguments: dict[str, Any] = {
        "batch_size": point.batch,
        "num_workers": point.workers,
        "collate_fn": collate,
    }
    if point.workers:
        arguments["persistent_workers"] = True
    if point.torch:
        loader: Any = torch.utils.data.DataLoader(dataset, **arguments)
    else:
        loader = feedline.DataLoader(dataset, workers=point.kind, native="off", **arguments)
    ranks = Ranks(point.ranks)
    began, step, changed, going = time.monotonic(), point.step, False, True
    times: list[float] = []
    waits: list[float] = []
    while going:
        iterator = iter(loader)
        while True:
            asked = time.monotonic()
            if not changed and asked - began > point.seconds / 2:
                changed = True
                costs.set(point.items_then)
                step *= point.step_then
                if point.processors_then:
                    set_processors(point.processors_then)
            going = ranks.agree(asked - began < point.seconds)
            asked = time.monotonic()
            if not going or next(iterator, None) is None:
                break
            got = time.monotonic()
            times.append(got - began)
            waits.append(got - asked)
            if step:
                time.sleep(step)
    return summary(point, times, waits, loader)


class Ranks:
    """Processes that train together: after each batch they wait for each other, as gradients are exchanged."""

    def __init__(self, count: int) -> None:  # noqa: D107
        self.count = count
        if count > 1:
            import torch.distributed

            torch.distributed.init_process_group("gloo")

    def agree(self, going: bool) -> bool:
        """Whether all of them go on."""
        if self.count == 1:
            return going
        import torch
        import torch.distributed as distributed

        all_go = torch.tensor([float(going)])
        distributed.all_reduce(all_go, op=distributed.ReduceOp.MIN)
        return bool(all_go.item())


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def set_processors(count: int) -> None:
    """For this process, all its threads and its children."""
    some = sorted(os.sched_getaffinity(0))[:count]
    for process in [os.getpid(), *children()]:
        for task in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(task), some)


def children() -> list[int]:
    """The processes that this one has started."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def summary(point: Point, times: list[float], waits: list[float], loader: Any) -> dict[str, Any]:
    """The figures of a measurement."""
    half = point.seconds / 2
    # After a change, five seconds pass before it is judged; without one, the second half is what was reached.
    since = (
        half + min(5.0, half / 2)
        if (point.items_then, point.step_then, point.processors_then) != (1.0, 1.0, 0)
        else half
    )
    late = [wait for at, wait in zip(times, waits, strict=True) if at >= since]
    span = max(1e-9, (times[-1] if times else 0.0) - since)
    found: dict[str, Any] = {
        **asdict(point),
        "rate": point.batch * len(times) / max(1e-9, times[-1] if times else 0.0),
        "late_rate": point.batch * len(late) / span,
        "late_idle": min(1.0, sum(late) / span),
        "first_batch": times[0] if times else None,
    }
    if point.workers == "auto":
        series = loader.stats()["series"]
        found["series"] = [[round(step["seconds"], 2), int(step["workers"])] for step in series]
        found["explain"] = loader.explain()
    return found


def run(point: Point) -> dict[str, Any]:
    """In a process of its own (or several at once, whose rates are added)."""
    # What torchrun would say to each.
    count, port = str(point.ranks), str(free_port())
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    command = [sys.executable, __file__, "one", json.dumps(asdict(point))]
    processes = []
    for rank in map(str, range(point.ranks)):
        environment = {**os.environ, **place, "RANK": rank, "LOCAL_RANK": rank}
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment))
    outputs = [process.communicate()[0] for process in processes]
    found = [json.loads(output) for output in outputs]
    together = dict(found[0])
    for key in ("rate", "late_rate"):
        together[key] = sum(one[key] for one in found)
    label = "torch " if point.torch else ""
    print(
        f"  {point.study:8} {label}{point.workers!s:>5} step {point.step * 1e3:6.1f} ms: {together['rate']:9.0f} /s, "
        f"late {together['late_rate']:9.0f} /s, idle {together['late_idle']:6.1%} {together.get('series', '')}"[
            :200
        ],
        flush=True,
    )
    return together


class Floats:
    """Numbers, of which each is a call of Python."""

    def __len__(self) -> int:  # noqa: D105
        return 2_000_000

    def __getitem__(self, index: int) -> float:  # noqa: D105
        return float(index)


class Rows(Floats):
    """Small tensors that are there."""

    def __init__(self) -> None:  # noqa: D107
        import torch

        self.rows = list(torch.rand(4096, 8))

    def __getitem__(self, index: int) -> Any:  # noqa: D105
        return self.rows[index % 4096]


def tiny(seconds: float, repeats: int) -> dict[str, Any]:
    """Batches of microseconds: auto and inline take turns in one process, of which auto has settled before."""
    import feedline

    def rate(loader: Any, seconds: float) -> float:
        began, batches = time.perf_counter(), 0
        for _ in loader:
            batches += 1
            if batches % 64 == 0 and time.perf_counter() - began > seconds:
                break
        return batches / (time.perf_counter() - began)

    cases: dict[str, tuple[Any, int]] = {
        "32 numbers of a list": (list(range(2_000_000)), 32),
        "32 numbers": (Floats(), 32),
        "128 numbers": (Floats(), 128),
        "128 rows of 8 floats": (Rows(), 128),
    }
    results = {}
    for name, (dataset, batch) in cases.items():
        auto = feedline.DataLoader(
            dataset, batch_size=batch, num_workers="auto", persistent_workers=True, native="off"
        )
        inline = feedline.DataLoader(dataset, batch_size=batch, num_workers=0, native="off")
        rate(auto, 1.0)
        pairs = [(rate(auto, seconds), rate(inline, seconds)) for _ in range(repeats)]
        ratio = statistics.median(one / other for one, other in pairs)
        micro = [1e6 / statistics.median(column) for column in zip(*pairs, strict=True)]
        print(
            f"  {name:22}: auto {micro[0]:6.2f} us, inline {micro[1]:6.2f} us, ratio {ratio:.3f}", flush=True
        )
        results[name] = {"auto_us": micro[0], "inline_us": micro[1], "ratio": ratio}
    return results


def compare(points: list[Point], repeats: int) -> dict[str, Any]:
    """Settings in turn, as often as is said; auto beside the best fixed one of each round."""
    rounds = [[run(point) for point in points] for _ in range(repeats)]
    ratios: dict[str, list[float]] = {"late": [], "whole": [], "inline": [], "torch": []}
    for found in rounds:
        auto = next(one for one in found if one["workers"] == "auto")
        fixed = [one for one in found if one["workers"] != "auto" and not one["torch"]]
        ratios["late"].append(auto["late_rate"] / max(one["late_rate"] for one in fixed))
        ratios["whole"].append(auto["rate"] / max(one["rate"] for one in fixed))
        for name, others in (
            ("inline", [one for one in fixed if one["workers"] == 0]),
            ("torch", [one for one in found if one["torch"]]),
        ):
            if others:
                ratios[name].append(auto["late_rate"] / others[0]["late_rate"])
    medians = {name: statistics.median(values) for name, values in ratios.items() if values}
    print(
        "  auto beside the best fixed:",
        {name: round(value, 3) for name, value in medians.items()},
        flush=True,
    )
    return {"auto_over_best": medians, "rounds": rounds}


def grid(study: str, more: dict[str, Any], torch: bool = True) -> list[Point]:
    """All numbers of workers that are compared."""
    workers: list[int | str] = [*GRID.get(study, USUAL), "auto"]
    points = [Point(study, one, **more) for one in workers]
    return points + ([Point(study, 0, torch=True, **more)] if torch else [])


def main() -> None:
    """What the command line asks for."""
    # Torch warns of more workers than processors, which is the point here.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure(Point(**json.loads(sys.argv[2])))))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("best", "idle", "changes", "ranks", "tiny"))
    parser.add_argument("studies", nargs="*", help=f"of {', '.join(STUDIES)}")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", default="0", help="milliseconds, with commas between")
    parser.add_argument("--kind", choices=("process", "thread", "auto"), default="process")
    parser.add_argument("--cache", default=str(Path(__file__).parents[2] / "target/bench/data"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    usual = {"seconds": asked.seconds, "cache": asked.cache, "kind": asked.kind}
    results: dict[str, Any] = {}
    if asked.what == "best":
        for study in asked.studies:
            for step in asked.steps.split(","):
                print(f"{study}, step {step} ms", flush=True)
                points = grid(study, {**usual, "step": float(step) / 1e3})
                results[f"{study}, step {step} ms"] = compare(points, asked.repeats)
    elif asked.what == "idle":
        for study in asked.studies:
            best = max(run(point)["late_rate"] for point in grid(study, usual, torch=False))
            step = 1.1 * Point(study, 0).batch / best
            print(f"{study}, step {step * 1e3:.1f} ms", flush=True)
            results[study] = compare(grid(study, {**usual, "step": step}, torch=False), asked.repeats)
    elif asked.what == "changes":
        # The best after the change is that of a fixed number which had the same change.
        changes: dict[str, dict[str, Any]] = {
            "items": {"study": "compute", "items_then": 5.0, "step": 0.02},
            "step": {"study": "delay", "step": 0.04, "step_then": 0.25},
            "processors": {"study": "compute", "processors_then": 1},
        }
        for name in asked.studies or changes:
            print(f"change of {name}", flush=True)
            change = dict(changes[name])
            results[name] = compare(
                grid(change.pop("study"), {**usual, **change}, torch=False), asked.repeats
            )
    elif asked.what == "tiny":
        results = tiny(asked.seconds / 12, asked.repeats)
    else:
        for study in asked.studies or ["compute", "delay"]:
            print(f"two ranks, {study}", flush=True)
            results[study] = compare(grid(study, {**usual, "ranks": 2}, torch=False), asked.repeats)
    text = json.dumps(results, indent=1)
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
