"""One measurement, in the process that was started for it: a request in one line, JSON lines out.

    echo '{"study": "delay", "contestant": "torch", "workers": 2}' | python -m feedline.bench.runner
    python -m feedline.bench.runner --list
    python -m feedline.bench.runner --session     (one request after the other)
    python -m feedline.bench.runner --doctor      (findings about a dataset)

The lines are ``{"event": "state" | "batch" | "look" | "result" | "error", …}``. Nothing that a contestant prints gets
between them: its standard output is the error stream. After ``look``, which is said only if the request has
``looks``, the process waits for a line.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import pkgutil
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from feedline._engine import exit_with
from feedline.bench import contestants, studies
from feedline.bench.consumer import Taken, leaves, take
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared
from feedline.bench.timeline import Recorded, lanes


class MissingError(Exception):
    """A contestant is not installed."""

    def __init__(self, how: str) -> None:
        super().__init__(f"not installed; {how}")
        self.how = how


class Lines:
    """Where events go: standard output as it was when the process began."""

    def __init__(self) -> None:
        self._file: TextIO = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(self, event: str, **fields: Any) -> None:
        """Write one line."""
        self._file.write(json.dumps({"event": event, **fields}) + "\n")

    def look(self) -> None:
        """Let the other side look at this process, and wait until it has."""
        self.say("look")
        sys.stdin.readline()


def modules(package: Any) -> Iterator[str]:
    """The names of a package's modules."""
    return (module.name for module in pkgutil.iter_modules(package.__path__))


def find(package: Any, kind: str, name: str) -> Any:
    """A module of a package by its name."""
    known = sorted(modules(package))
    if name not in known:
        raise BadRequestError(f"there is no {kind} {name!r}; there are {', '.join(known)}")
    return importlib.import_module(f"{package.__name__}.{name}")


def describe_contestants() -> list[dict[str, Any]]:
    """Every contestant: whether it is here, and which studies it can run."""
    described = []
    for name in sorted(modules(contestants)):
        module = importlib.import_module(f"{contestants.__name__}.{name}")
        versions = [installed(package) for package in module.PACKAGES]
        described.append(
            {
                "name": name,
                "label": module.LABEL,
                "studies": module.STUDIES,
                # The first is the loader itself.
                "version": versions[0] if all(versions) else None,
                "how": f"pip install {' '.join(module.PACKAGES)}",
                "workers": module.WORKERS,
                "differs": getattr(module, "DIFFERS", ""),
            }
        )
    return described


def installed(package: str) -> str | None:
    """The version of a package, if it is here."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def usage() -> dict[str, float]:
    """What this process and its ended children have used so far."""
    total: dict[str, float] = {"cpu_s": 0.0, "switches": 0.0, "read_mb": 0.0, "faults": 0.0}
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total["cpu_s"] += used.ru_utime + used.ru_stime
        total["switches"] += used.ru_nvcsw + used.ru_nivcsw
        total["read_mb"] += used.ru_inblock * 512 / 1e6
        total["faults"] += used.ru_minflt + used.ru_majflt
    return total


def run(request: Request, lines: Lines) -> dict[str, Any]:
    """Measure, keep, or check."""
    contestant = find(contestants, "contestant", request.contestant)
    study = find(studies, "study", request.study)
    if request.study not in contestant.STUDIES:
        raise BadRequestError(f"{request.contestant} has no {request.study}")
    lines.say("state", state="preparing")
    prepared = prepare(study, request, lines)
    with contextlib.ExitStack() as ending:
        record = None
        if request.mode == "timeline" and is_map_style(prepared.dataset):
            record = Path(ending.enter_context(tempfile.TemporaryDirectory())) / "samples"
            prepared = replace(prepared, dataset=Recorded(prepared.dataset, record))
        try:
            if not getattr(contestant, "DECODES", False) and hasattr(prepared.load, "import_all"):
                prepared.load.import_all()
            opened = contestant.open(prepared, request)
        except ImportError as error:
            raise MissingError(f"pip install {' '.join(contestant.PACKAGES)} ({error})") from error
        if request.mode == "timeline":
            taken = take(opened, request, lambda done: lines.say("batch", done=done))
            recorded = [] if record is None else lanes(record, request.batch, taken.began)
            return {"epoch": figures(taken), "lanes": recorded}
    if request.mode != "measure":
        return first_batch(opened, prepared, request)
    return measure(opened, request, lines, batches_of(prepared, request))


def is_map_style(dataset: Any) -> bool:
    """Whether its samples are asked for one by one."""
    return hasattr(dataset, "__getitem__") and not hasattr(dataset, "__getitems__")


def batches_of(prepared: Prepared, request: Request) -> int | None:
    """The batches of an epoch, as far as that is known."""
    if request.batches is not None:
        return request.batches
    try:
        return -(-len(prepared.dataset) // request.batch)
    except TypeError:
        return None


def measure(
    opened: Callable[[], Any], request: Request, lines: Lines, last: int | None = None
) -> dict[str, Any]:
    """Take all epochs."""
    look = lines.look if request.looks else None
    lines.say("state", state="measuring")
    before, wall, began = usage(), time.time(), time.perf_counter()
    epochs = [
        take(opened, request, lambda done: lines.say("batch", done=done), look, last)
        for _ in range(request.epochs)
    ]
    used = {key: value - before[key] for key, value in usage().items()}
    return {
        "epochs": [figures(taken) for taken in epochs],
        "used": used,
        "began": wall,
        "seconds": time.perf_counter() - began - sum(taken.paused for taken in epochs),
        "process_cpu_s": usage()["cpu_s"],
    }


_prepared: dict[tuple[Any, ...], Any] = {}


def prepare(study: Any, request: Request, lines: Lines) -> Any:
    """What is loaded; made once for all requests of a session about it."""
    key = (request.study, request.variant, request.data, request.scale, request.batches, request.batch)
    if key not in _prepared:
        _prepared.clear()
        told = lambda done, of: lines.say("state", state="writing", done=done, of=of)  # noqa: E731
        _prepared[key] = study.prepare(request, told)
    return _prepared[key]


def figures(taken: Taken) -> dict[str, Any]:
    """An epoch as plain data; waits in milliseconds."""
    return {
        "total_s": taken.total,
        "started_s": taken.started,
        "first_s": taken.first,
        "items": taken.items,
        "bytes": taken.bytes,
        "waits_ms": [round(1e3 * wait, 4) for wait in taken.waits],
        "steps_ms": [round(1e3 * step, 4) for step in taken.steps],
    }


def first_batch(opened: Any, prepared: Prepared, request: Request) -> dict[str, Any]:
    """Write the first batch down, or compare it with the one that was."""
    import numpy as np

    arrays = [as_array(leaf) for leaf in leaves(next(iter(opened())))]
    assert request.reference is not None
    if request.mode == "keep":
        np.savez(request.reference, *arrays)
        return {"kept": [[str(array.dtype), list(array.shape)] for array in arrays]}
    with np.load(request.reference, allow_pickle=False) as kept:
        expected = [kept[name] for name in kept.files]
    shapes = [list(array.shape) for array in arrays]
    if shapes != [list(array.shape) for array in expected]:
        return {"same": False, "shapes": shapes, "expected": [list(array.shape) for array in expected]}
    if prepared.random:
        return {"same": False, "random": True}
    difference = 0.0
    for mine, theirs in zip(arrays, expected, strict=True):
        if mine.dtype.kind in "US":
            difference = max(difference, float("inf") if (mine != theirs).any() else 0.0)
        elif mine.size:
            apart = np.abs(mine.astype(np.float64) - theirs.astype(np.float64)).mean()
            difference = max(difference, float(apart))
    types = [str(array.dtype) for array in arrays] == [str(array.dtype) for array in expected]
    return {"same": difference == 0.0, "difference": difference, "types": types}


def as_array(leaf: Any) -> Any:
    """A leaf of a batch as a numpy array that needs no pickle."""
    import numpy as np

    if hasattr(leaf, "numpy"):
        leaf = leaf.numpy()
    array = np.asarray(leaf)
    return array.astype(str) if array.dtype == object else array


def main() -> int:
    """Serve one request."""
    lines = Lines()
    exit_with(os.getppid())
    if sys.argv[1:] == ["--list"]:
        try:
            lines.say("result", contestants=describe_contestants(), studies=sorted(modules(studies)))
        except ModuleNotFoundError as error:
            lines.say("error", message=needed(error), bad_request=True)
            return 1
        return 0
    if sys.argv[1:] == ["--doctor"]:
        from feedline.bench.doctor import examine

        return 0 if serve(sys.stdin.readline(), lines, lambda asked: {"findings": examine(asked)}) else 1
    if sys.argv[1:] == ["--session"]:
        for line in sys.stdin:
            serve(line, lines)
        return 0
    return 0 if serve(sys.stdin.readline(), lines) else 1


def serve(text: str, lines: Lines, do: Callable[[Request], dict[str, Any]] | None = None) -> bool:
    """Answer one request; with a measurement, if nothing else is to be done."""
    try:
        request = Request.from_json(json.loads(text))
        result = run(request, lines) if do is None else do(request)
    except MissingError as error:
        lines.say("error", message=str(error), missing=error.how)
    except BadRequestError as error:
        lines.say("error", message=str(error), bad_request=True)
    except ModuleNotFoundError as error:
        traceback.print_exc()
        lines.say("error", message=needed(error))
    except Exception as error:
        traceback.print_exc()
        lines.say("error", message=f"{type(error).__name__}: {brief(error)}")
    else:
        lines.say("result", **result)
        return True
    return False


def needed(error: ModuleNotFoundError) -> str:
    """What to install."""
    return f"there is no {error.name} here; pip install 'feedline[bench]' brings what the studies need"


def brief(error: Exception) -> str:
    """What it says; of what a worker has raised, the first line and the last, without the traceback between them."""
    said = str(error)
    if "Traceback (most recent call last)" not in said:
        return said
    first, *_, last = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{first} {last}"


if __name__ == "__main__":
    sys.exit(main())
