"""Workers that die: what they held is loaded again, once; what kills them is named and given up.

Samples end their worker in many ways and at many moments. Whether one has done so already stands in shared
memory without a lock, because a lock would die with its holder.
"""

import ctypes
import faulthandler
import itertools
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from compare import Failure, assert_same, journal, multiset, with_warnings
from conftest import SUBJECT_IS_TORCH, Loader
from torch.utils.data import Dataset, IterableDataset, get_worker_info

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.skipif(SUBJECT_IS_TORCH, reason="under torch a dead worker ends the epoch"),
]

#: A mistake may be that workers are started for ever. No test here needs as long as this.
SOON = pytest.mark.timeout(20)

#: The words of torch for each way to die.
EXITED = (
    r"DataLoader worker \(pid \d+\) exited unexpectedly with exit code 3\. Details are lost due to "
    r"multiprocessing\. Rerunning with num_workers=0 may give better error trace\."
)
KILLED = r"DataLoader worker \(pid \d+\) is killed by signal: Killed\."
CRASHED = r"DataLoader worker \(pid \d+\) is killed by signal: Segmentation fault\."


def exit_at_once() -> None:
    os._exit(3)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def be_killed_soon() -> None:
    """Death at an instruction nobody has chosen, in whatever the worker does then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, random.Random(os.getpid()).uniform(20e-6, 3e-3))


class Deadly(Dataset):
    """`n` samples; those in `deadly` end their worker, each of them `times` times."""

    def __init__(
        self, n: int, deadly: Any = (), die: Callable[[], None] = kill_itself, times: float = 1
    ) -> None:
        self.n = n
        self.deadly = frozenset(deadly)
        self.die = die
        self.times = times
        # One for each sample, so that two workers never write to the same.
        self.died = multiprocessing.RawArray("i", n)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict:
        self.maybe_die(i)
        return {"index": i, "image": torch.full((3,), i / 2), "name": f"image {i}"}

    def maybe_die(self, i: int) -> None:
        if i in self.deadly and self.died[i] < self.times:
            self.died[i] += 1
            self.die()

    def rearm(self) -> None:
        for i in range(self.n):
            self.died[i] = 0

    def is_used_up(self) -> bool:
        return all(self.died[i] == self.times for i in self.deadly)


class DeadlyStream(IterableDataset):
    """The indices of a `Deadly`, shared out among the workers."""

    def __init__(self, samples: Deadly) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        for i in range(info.id, self.samples.n, info.num_workers):
            self.samples.maybe_die(i)
            yield i


class Held(Dataset):
    """Every sample waits until a byte arrives in a pipe."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.reader, self.writer = os.pipe()

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        os.read(self.reader, 1)
        return i


class Hungry(Dataset):
    """Sample 5 wants all memory there is."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> int:
        hoard = []
        while i == 5:
            hoard.append(bytearray(1 << 24))
        return i


def limit_memory(worker_id: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (512 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def listed(batch: list) -> list:
    return batch


def indices(batches: list) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches]


def deaths(given: list[tuple[type, str]]) -> list[str]:
    """Every warning of a death."""
    return [text for category, text in given if category is RuntimeWarning]


# --- deaths that are survived -------------------------------------------------------------------


@pytest.mark.parametrize("die", [exit_at_once, kill_itself, crash])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_is_replaced_and_its_sample_named(die: Callable, workers: int) -> None:
    dataset = Deadly(12, deadly=[5], die=die)
    subject, given = with_warnings(lambda: list(Loader(dataset, batch_size=4, num_workers=workers)))
    assert_same(subject, list(Loader(Deadly(12), batch_size=4)))
    (text,) = deaths(given)
    assert re.match(f"{EXITED}|{KILLED}|{CRASHED}", text)
    assert "sample 5 (row 1 of batch 1)" in text
    assert dataset.is_used_up()


def test_a_batch_that_killed_its_worker_is_named() -> None:
    dataset = Deadly(12, deadly=[5])
    loader = Loader(dataset, batch_size=4, num_workers=2, collate_fn=listed)
    subject, given = with_warnings(lambda: list(loader))
    assert_same(subject, list(Loader(Deadly(12), batch_size=4, collate_fn=listed)))
    (text,) = deaths(given)
    assert re.match(KILLED, text)
    assert "batch 1 (samples [4, 5, 6, 7])" in text


def test_the_place_of_a_killed_worker_is_taken_by_one_of_its_number() -> None:
    loader = Loader(Deadly(40), batch_size=1, num_workers=2, prefetch_factor=2)
    iterator = iter(loader)
    next(iterator)
    before = [worker.pid for worker in iterator._workers]
    os.kill(before[1], signal.SIGKILL)

    def replaced() -> list[int]:
        # Nobody waits for a worker that is not needed, so look for it as a long wait would.
        while iterator._workers[1].pid == before[1]:
            iterator._look_after_workers()
        return [worker.pid for worker in iterator._workers]

    after, given = with_warnings(replaced)
    assert re.match(rf"DataLoader worker \(pid {before[1]}\) is killed by signal: Killed", *deaths(given))
    assert after[0] == before[0]
    assert len(list(iterator)) == 39


def test_a_worker_that_was_spawned_is_replaced() -> None:
    dataset = Deadly(6, deadly=[3])
    loader = Loader(dataset, batch_size=2, num_workers=1, multiprocessing_context="spawn")
    subject, given = with_warnings(lambda: list(loader))
    assert indices(subject) == [[0, 1], [2, 3], [4, 5]]
    assert len(deaths(given)) == 1


def test_a_death_without_warnings_allowed_loses_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        entries = journal(Loader(Deadly(12, deadly=[5]), batch_size=4, num_workers=2))
    failures = [entry for entry in entries if isinstance(entry, Failure)]
    assert [failure.type for failure in failures] == [RuntimeWarning]
    assert indices([entry for entry in entries if not isinstance(entry, Failure)]) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]


@SOON
def test_idle_workers_may_be_killed() -> None:
    dataset = Held(1)
    iterator = iter(Loader(dataset, num_workers=4))
    busy = None
    while busy is None:
        busy = next((w for w, gauge in enumerate(iterator._board.gauges()) if gauge[0] is not None), None)
    for worker, process in enumerate(iterator._workers):
        if worker != busy:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
    before = [worker.pid for worker in iterator._workers]

    def open_when_replaced() -> None:
        while sum(pid != worker.pid for pid, worker in zip(before, iterator._workers, strict=True)) < 3:
            threading.Event().wait(0.01)
        os.write(dataset.writer, b"x")

    opener = threading.Thread(target=open_when_replaced, daemon=True)
    opener.start()
    entries, given = with_warnings(lambda: [batch.tolist() for batch in iterator])
    assert entries == [[0]]
    assert len(deaths(given)) == 3
    opener.join()


# --- at random ------------------------------------------------------------------------------------


class Case:
    """A loader and the deaths it meets, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.kind = ("rows", "collated", "single", "stream", "rows", "stream")[seed % 6]
        self.manner = draw.choice(["inside", "inside", "outside", "instant"])
        self.workers = draw.choice([1, 2, 4])
        self.epochs = draw.choice([1, 1, 3])
        self.in_order = draw.random() < 0.7
        self.batch_size = None if self.kind == "single" else draw.choice([1, 3, 8])
        n = draw.randrange(20, 90)
        self.samples = Deadly(
            n, self._deadly(draw, n), be_killed_soon if self.manner == "instant" else kill_itself
        )
        self.delay = draw.uniform(0, 0.01)
        self.draw = draw
        stream = DeadlyStream(self.samples)
        self.arguments: dict[str, Any] = {
            "dataset": stream if self.kind == "stream" else self.samples,
            "batch_size": self.batch_size,
            "num_workers": self.workers,
            "in_order": self.in_order,
            "persistent_workers": self.epochs > 1,
            "prefetch_factor": draw.choice([None, 1, 2, 4]),
        }
        if self.kind == "collated":
            self.arguments["collate_fn"] = listed

    def _deadly(self, draw: random.Random, n: int) -> list[int]:
        if self.manner == "outside":
            return []
        if self.manner == "instant":
            return [draw.randrange(n)]
        # A batch that is made in one piece may lose only one worker.
        apart = 1 if self.kind in ("rows", "single") else 4 * 2 * (self.batch_size or 1)
        return list(range(draw.randrange(n), n, max(apart, draw.randrange(5, 30))))

    def epoch(self, loader: Any) -> list:
        """The batches of an epoch in which workers die."""
        self.samples.rearm()
        iterator = iter(loader)
        batches = list(itertools.islice(iterator, self.draw.randrange(4)))
        if self.manner == "outside":
            process = self.draw.choice(iterator._workers)
            killer = threading.Timer(self.delay, os.kill, (process.pid, signal.SIGKILL))
            killer.start()
            batches += iterator
            killer.join()
            return batches
        return batches + list(iterator)


@pytest.mark.parametrize("seed", range(36))
def test_deaths_change_nothing_that_is_delivered(seed: int) -> None:
    case = Case(seed)
    unharmed = Case(seed)
    unharmed.samples.deadly = frozenset()
    expected = list(Loader(**unharmed.arguments | {"in_order": True, "persistent_workers": False}))
    loader = Loader(**case.arguments)
    for _ in range(case.epochs):
        subject, given = with_warnings(lambda: case.epoch(loader))
        if case.in_order:
            assert_same(subject, expected)
        else:
            assert_same(sorted(subject, key=str), sorted(expected, key=str))
        if case.manner == "inside":
            assert case.samples.is_used_up()
            assert len(deaths(given)) == len(case.samples.deadly)


def test_many_deaths_in_one_epoch() -> None:
    dataset = Deadly(60, deadly=range(0, 60, 5), die=kill_itself)
    loader = Loader(dataset, batch_size=10, num_workers=2, in_order=False)
    subject, given = with_warnings(lambda: list(loader))
    expected = list(Loader(Deadly(60), batch_size=10))
    assert multiset([b["index"] for b in subject]) == multiset([b["index"] for b in expected])
    assert len(deaths(given)) == 12


# --- deaths that are not --------------------------------------------------------------------------

ALWAYS = pytest.mark.parametrize(
    ("die", "words"), [(exit_at_once, EXITED), (kill_itself, KILLED), (crash, CRASHED)]
)


@SOON
@ALWAYS
@pytest.mark.parametrize("workers", [1, 3])
def test_a_sample_that_always_kills_fails_its_batch_and_no_other(
    die: Callable, words: str, workers: int
) -> None:
    dataset = Deadly(16, deadly=[6], die=die, times=99)
    loader = Loader(dataset, batch_size=4, num_workers=workers)
    entries, given = with_warnings(lambda: journal(loader))
    (position,) = (p for p, entry in enumerate(entries) if isinstance(entry, Failure))
    failure = entries.pop(position)
    assert position == 1
    assert failure.type is RuntimeError
    assert re.match(words, failure.text)
    assert "sample 6 (row 2 of batch 1)" in failure.text
    assert indices(entries) == [[0, 1, 2, 3], [8, 9, 10, 11], [12, 13, 14, 15]]
    # It is tried twice and not more often, whoever else is idle.
    assert dataset.died[6] == 2
    assert len(deaths(given)) == 1
    assert [failed["index"] for failed in loader.failures()] == [6]
    assert indices(list(Loader(Deadly(4), batch_size=2, num_workers=workers))) == [[0, 1], [2, 3]]


@SOON
@pytest.mark.parametrize("arguments", [{"batch_size": 4, "collate_fn": listed}, {"batch_size": None}])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_batch_that_always_kills_fails_and_no_other(arguments: dict, in_order: bool) -> None:
    dataset = Deadly(12, deadly=[6], times=99)
    loader = Loader(dataset, num_workers=2, in_order=in_order, **arguments)
    entries, _ = with_warnings(lambda: journal(loader))
    failures = [entry for entry in entries if isinstance(entry, Failure)]
    assert [failure.type for failure in failures] == [RuntimeError]
    assert re.match(KILLED, failures[0].text)
    assert re.search(r"\b6\b", failures[0].text.split("It was loading")[1])
    assert len(entries) == (3 if arguments["batch_size"] else 12)
    assert dataset.died[6] == 2


@SOON
def test_two_samples_of_a_batch_that_always_kill() -> None:
    dataset = Deadly(12, deadly=[5, 6], times=99)
    loader = Loader(dataset, batch_size=4, num_workers=2)
    entries, _ = with_warnings(lambda: journal(loader))
    assert isinstance(entries[1], Failure)
    assert "sample 5 " in entries[1].text
    assert len(entries) == 3
    assert [failed["index"] for failed in loader.failures()] == [5, 6]


@SOON
@pytest.mark.parametrize("position", [0, 6])
def test_a_stream_that_always_kills_is_an_error_and_has_an_end(position: int) -> None:
    samples = Deadly(16, deadly=[position], times=10**6)
    entries, _ = with_warnings(lambda: journal(Loader(DeadlyStream(samples), batch_size=2, num_workers=2)))
    failures = [entry for entry in entries if isinstance(entry, Failure)]
    assert len(failures) >= 1
    assert {failure.type for failure in failures} == {RuntimeError}
    assert re.match(r"DataLoader worker \(pid(\(s\))? \d+\)", failures[0].text)
    # It was not tried for every batch that was posted.
    assert samples.died[position] <= 6


@SOON
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_sample_that_always_kills_can_be_skipped(workers: int) -> None:
    dataset = Deadly(12, deadly=[5], times=99)
    loader = Loader(dataset, batch_size=4, num_workers=workers, on_error="skip")
    subject, _ = with_warnings(lambda: list(loader))
    assert indices(subject) == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10, 11]]
    assert subject[1]["name"] == ["image 4", "image 6", "image 7"]
    assert subject[1]["image"][:, 0].tolist() == [2.0, 3.0, 3.5]
    (failed,) = loader.failures()
    assert (failed["batch"], failed["row"], failed["index"]) == (1, 1, 5)
    assert re.match(KILLED, failed["error"])


@SOON
def test_a_batch_that_always_kills_can_be_skipped() -> None:
    dataset = Deadly(12, deadly=[5], times=99)
    loader = Loader(dataset, batch_size=4, num_workers=2, collate_fn=listed, on_error="skip")
    subject, _ = with_warnings(lambda: list(loader))
    assert [[sample["index"] for sample in batch] for batch in subject] == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert len(loader.failures()) == 1


@SOON
@pytest.mark.parametrize("workers", [1, 2])
def test_a_sample_that_always_kills_does_not_outlive_its_epoch(workers: int) -> None:
    dataset = Deadly(24, deadly=[3], times=99)
    loader = Loader(dataset, batch_size=1, num_workers=workers, persistent_workers=True)

    def epochs() -> list:
        next(iter(loader))
        while dataset.died[3] == 0:
            threading.Event().wait(0.001)
        return journal(loader)

    entries, _ = with_warnings(epochs)
    assert [isinstance(entry, Failure) for entry in entries] == [i == 3 for i in range(24)]
    assert dataset.died[3] <= 4


# --- workers that cannot begin ----------------------------------------------------------------------

#: How many workers have called an init function.
begun = multiprocessing.RawValue("i", 0)


def exit_always(worker_id: int) -> None:
    os._exit(3)


def leave_always(worker_id: int) -> None:
    sys.exit(3)


def exit_as_worker_one(worker_id: int) -> None:
    if worker_id == 1:
        os._exit(3)


def exit_as_replacement(worker_id: int) -> None:
    begun.value += 1
    if begun.value > 1:
        os._exit(3)


@SOON
@pytest.mark.parametrize("init", [exit_always, leave_always])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_init_function_that_exits_is_an_error(init: Callable, workers: int) -> None:
    loader = Loader(Deadly(8), num_workers=workers, worker_init_fn=init)
    entries, _ = with_warnings(lambda: journal(loader))
    assert [entry.type for entry in entries] == [RuntimeError]
    assert re.match(r"DataLoader worker \(pid\(s\) \d+(, \d+)*\) exited unexpectedly", entries[0].text)


@SOON
@pytest.mark.parametrize("collate", [None, listed])
def test_an_init_function_that_exits_in_one_worker_is_no_hang(collate: Any) -> None:
    loader = Loader(Deadly(8), num_workers=2, worker_init_fn=exit_as_worker_one, collate_fn=collate)
    entries, _ = with_warnings(lambda: journal(loader))
    failures = [entry for entry in entries if isinstance(entry, Failure)]
    # If the other worker can do it all before anybody looks, that is fine.
    assert failures or (collate is None and len(entries) == 8)
    assert {failure.type for failure in failures} <= {RuntimeError}


@SOON
def test_an_init_function_that_exits_in_a_replacement_is_an_error() -> None:
    begun.value = 0
    dataset = Deadly(8, deadly=[5])
    loader = Loader(dataset, num_workers=1, worker_init_fn=exit_as_replacement)
    entries, _ = with_warnings(lambda: journal(loader))
    assert isinstance(entries.pop(), Failure)
    assert indices(entries) == [[0], [1], [2], [3], [4]]


# --- memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sample_that_takes_all_memory_is_named(workers: int) -> None:
    loader = Loader(Hungry(), batch_size=2, num_workers=workers, worker_init_fn=limit_memory)
    iterator = iter(loader)
    delivered = [next(iterator).tolist(), next(iterator).tolist()]
    with pytest.raises(MemoryError) as raised:
        next(iterator)
    assert any(re.search(r"\bsample 5\b", note) for note in raised.value.__notes__)
    delivered += [batch.tolist() for batch in iterator]
    assert delivered == [[0, 1], [2, 3], [6, 7]]
