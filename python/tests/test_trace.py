"""``DataLoader(trace=…)``: a timeline of the run, whole whenever it is looked at."""

from __future__ import annotations

import itertools
import json
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from feedline import DataLoader, _trace
from torch.utils.data import TensorDataset


class Squares:
    """Some rows."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), float(index))


def events(path: Path) -> list[dict[str, Any]]:
    with open(path) as file:
        listed: list[dict[str, Any]] = json.load(file)
    return listed


def stretches(path: Path, *, of_workers: bool) -> list[dict[str, Any]]:
    return [event for event in events(path) if event["ph"] == "X" and (event["tid"] > 0) == of_workers]


@pytest.mark.parametrize("workers", ["process", "thread"])
@pytest.mark.parametrize("dispatch", ["auto", "batch"])
def test_every_row_is_in_a_worker_s_lane_once(tmp_path: Path, workers: str, dispatch: str) -> None:
    path = tmp_path / "run.json"
    loader = DataLoader(Squares(), 8, num_workers=2, workers=workers, dispatch=dispatch, trace=path)
    for _ in range(2):
        list(loader)
    rows: Counter[tuple[int, int]] = Counter()
    lanes: dict[int, float] = {}
    for event in sorted(stretches(path, of_workers=True), key=lambda event: event["ts"]):
        rows[event["args"]["epoch"], event["args"]["batch"]] += event["args"]["rows"]
        assert event["ts"] >= lanes.get(event["tid"], 0.0) - 0.001, "a worker does one thing at a time"
        lanes[event["tid"]] = event["ts"] + event["dur"]
    full = [8, 8, 8, 8, 8, 8, 2] if dispatch == "auto" else [1] * 7
    assert rows == {(epoch, batch): count for epoch in range(2) for batch, count in enumerate(full)}
    names = {event["tid"]: event["args"]["name"] for event in events(path) if event["name"] == "thread_name"}
    assert names[0] == "consumer"
    assert all(names[lane] == f"worker {lane - 1}" for lane in lanes)


@pytest.mark.parametrize("dataset", [Squares(), TensorDataset(torch.arange(50))])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_consumer_waits_for_each_batch_and_steps_in_between(
    tmp_path: Path, dataset: Any, workers: int
) -> None:
    path = tmp_path / "run.json"
    for _ in DataLoader(dataset, 10, num_workers=workers, trace=path):
        pass
    names = [event["name"] for event in stretches(path, of_workers=False)]
    in_workers = workers and not isinstance(dataset, TensorDataset)
    waited = "wait" if in_workers else "load"
    assert names == [waited, *("step", waited) * 4]
    times = [(event["ts"], event["dur"]) for event in stretches(path, of_workers=False)]
    for (begin, length), (following, _) in itertools.pairwise(times):
        assert begin + length <= following + 0.001


def test_the_file_is_whole_while_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trace, "PAUSE", 0)
    path = tmp_path / "run.json"
    seen = []
    for _ in DataLoader(Squares(), 10, num_workers=2, trace=path):
        seen.append(len(events(path)))
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert len(events(path)) > seen[0]


def test_an_epoch_that_is_left_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    loader = DataLoader(Squares(), 10, num_workers=2, trace=path)
    next(iter(loader))
    assert len(stretches(path, of_workers=False)) == 1
    inline = DataLoader(Squares(), 10, trace=path)
    next(iter(inline))
    assert len(stretches(path, of_workers=False)) == 1, "another loader begins the file anew"


def test_two_iterators_share_it(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    loader = DataLoader(Squares(), 10, num_workers=2, trace=path)
    assert sum(1 for _ in zip(loader, loader, strict=True)) == 5
    rows: Counter[int] = Counter()
    for event in stretches(path, of_workers=True):
        rows[event["args"]["epoch"]] += event["args"]["rows"]
    assert rows == {0: 50, 1: 50}


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    loader = DataLoader(Squares(), 10, num_workers=2, trace=tmp_path / "none" / "run.json")
    with pytest.raises(FileNotFoundError, match=r"run\.json"):
        iter(loader)


def test_one_that_can_no_longer_be_written_ends_the_trace_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_trace, "PAUSE", 0)
    folder = tmp_path / "folder"
    folder.mkdir()
    batches = iter(DataLoader(Squares(), 10, num_workers=2, trace=folder / "run.json"))
    next(batches)
    shutil.rmtree(folder)
    with pytest.warns(RuntimeWarning, match="trace .*run.json ends here"):
        rest = list(batches)
    assert len(rest) == 4


def test_a_file_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trace, "PAUSE", 0)
    monkeypatch.setattr(_trace, "LARGEST", 1500)
    path = tmp_path / "run.json"
    with pytest.warns(RuntimeWarning, match="ends here: it has reached"):
        assert len(list(DataLoader(Squares(), 1, num_workers=1, trace=path))) == 50
    assert events(path)
    assert path.stat().st_size < 20_000


def test_a_copy_of_a_loader_does_not_write_on(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    loader = DataLoader(Squares(), 10, trace=path)
    list(loader)
    size = path.stat().st_size
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.trace == str(path)
    assert path.stat().st_size == size
