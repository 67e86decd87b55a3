"""How many threads of those that may there are: as many as can work at the same time."""

from __future__ import annotations

import threading
from pathlib import Path

import nrrd
import numpy as np
import pytest
from compare import assert_same
from feedline import DataLoader, Volumes, _demand
from feedline._demand import Demand
from feedline._machine import Machine


class Processors(Machine):
    """A machine with so many."""

    def __init__(self, count: float) -> None:
        super().__init__()
        self.count = count

    def processors(self) -> float:
        return self.count


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(12):
        (tmp_path / f"{number:02}").mkdir()
        nrrd.write(str(tmp_path / f"{number:02}" / "ct.nrrd"), np.full((8, 8, 8), number, np.int16))
    return tmp_path


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "processors", lambda _: 2.0)


def threads() -> int:
    return sum(thread.name.startswith("feedline-") for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("processors", "share", "expected"),
    [
        (2, 1.0, 2),
        (2, 0.85, 2),
        (2, 0.5, 4),
        (2, 0.25, 8),
        (2, 0.0, 8),
        (1.5, 1.0, 2),
        (0.5, 1.0, 1),
        (64, 1.0, 8),
    ],
)
def test_as_many_as_use_all_processors_and_no_more_than_may_be(
    processors: float, share: float, expected: int
) -> None:
    demand = Demand(8, Processors(processors))
    assert demand.workers() == min(8, max(1, -int(-processors // 1)))
    for _ in range(50):
        demand.note(1.0, share)
    assert demand.workers() == expected


def test_what_changes_is_noticed() -> None:
    demand = Demand(8, Processors(2))
    for share, expected in ((0.01, 8), (1.0, 2), (0.01, 8)):
        for _ in range(50):
            demand.note(0.1, 0.1 * share)
        assert demand.workers() == expected


def test_to_wait_for_what_another_does_is_not_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(_demand.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(_demand.Thread, "_counted", lambda _: 0.0)
    demand = Demand(8, Processors(2))
    seen = []

    def make() -> None:
        _demand.waits()
        now[0] += 5.0
        seen.append(demand.workers())
        _demand.works()
        seen.append(demand.workers())

    thread = threading.Thread(target=demand.watched(make))
    thread.start()
    thread.join()
    assert [*seen, demand.workers()] == [2, 2, 2]

    def wait() -> None:
        now[0] += 5.0
        seen.append(demand.workers())

    thread = threading.Thread(target=demand.watched(wait))
    thread.start()
    thread.join()
    assert seen[2:] == [8]


@pytest.mark.usefixtures("two_processors")
def test_samples_that_only_compute_have_no_more_threads_than_there_are_processors(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long this machine makes them wait.
    monkeypatch.setattr(_demand.Thread, "so_far", lambda _: (1.0, 1.0))
    loader = DataLoader(Volumes.folder(root, ct="ct.nrrd"), num_workers=8)
    seen = set()
    for _ in loader:
        seen.add(threads())
    assert seen == {2}
    assert "8 worker threads, of which 2 are enough to use all processors" in loader.explain()


@pytest.mark.usefixtures("two_processors")
def test_samples_that_wait_for_each_other_have_the_threads_that_they_need(root: Path) -> None:
    together = threading.Barrier(6)

    def wait(volumes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        together.wait(timeout=60)
        return volumes

    dataset = Volumes.folder(root, ct="ct.nrrd")
    assert_same(list(DataLoader(dataset.map(wait), num_workers=8)), list(DataLoader(dataset)))


@pytest.mark.usefixtures("two_processors")
def test_an_epoch_that_is_left_early_or_fails_leaves_no_thread(root: Path) -> None:
    def fail(volumes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if volumes["ct"][0, 0, 0] == 5:
            raise RuntimeError("the fifth")
        return volumes

    dataset = Volumes.folder(root, ct="ct.nrrd")
    next(iter(DataLoader(dataset, num_workers=8)))
    assert threads() == 0
    with pytest.raises(RuntimeError, match="the fifth"):
        list(DataLoader(dataset.map(fail), num_workers=8))
    assert threads() == 0
    loader = DataLoader(dataset, num_workers=8, persistent_workers=True)
    for _ in range(3):
        assert len(list(loader)) == 12


@pytest.mark.usefixtures("two_processors")
def test_how_far_ahead_is_that_of_all_workers_if_it_was_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_demand.Thread, "so_far", lambda _: (1.0, 1.0))
    begun = threading.Semaphore(0)

    def count(volumes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        begun.release()
        return volumes

    loader = DataLoader(Volumes.folder(root, ct="ct.nrrd").map(count), num_workers=8, prefetch_factor=1)
    iterator = iter(loader)
    # Eight are made before anybody asks for one.
    assert all(begun.acquire(timeout=60) for _ in range(8))
    assert len(list(iterator)) == 12
