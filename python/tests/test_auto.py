"""``num_workers="auto"``: batches are the same whatever the number of workers does, and it does what helps."""

from __future__ import annotations

import copy
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from feedline import DataLoader
from feedline._auto import COOLDOWN, Auto, Totals, Tuning, Watch
from feedline._machine import Machine
from feedline._stretch import BATCHES, Stretch
from torch.utils.data import IterableDataset, get_worker_info

KINDS = ("process", "thread")
SOON = 60.0


class Numbers:
    """Samples that are random by their own seeds."""

    def __init__(self, items: int = 96) -> None:
        self.items = items

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[int, float, torch.Tensor, float]:
        return index, random.random(), torch.rand(3), float(np.random.rand())


class Plain(Numbers):
    """Samples that are what they are."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((4,), index)


def rows(batches: Any) -> list[Any]:
    """All samples, in order."""
    return [[part.tolist() for part in batch] for batch in batches]


def collate(samples: list[Any]) -> Any:
    """Not torch's own: batches are made whole."""
    return [torch.as_tensor(np.stack([np.asarray(sample[part]) for sample in samples])) for part in range(4)]


def expected(epochs: int = 1, **arguments: Any) -> list[Any]:
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), batch_size=5, shuffle=True, num_workers=2, **arguments)
    return [rows(loader) for _ in range(epochs)]


# What changes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arguments", [{}, {"collate_fn": collate}, {"prefetch_factor": 1}])
def test_batches_are_the_same_while_workers_come_and_go(kind: str, arguments: dict[str, Any]) -> None:
    want = expected(2, **arguments)
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), batch_size=5, shuffle=True, num_workers="auto", workers=kind, **arguments)
    draw = random.Random(1)
    for epoch in want:
        iterator: Any = iter(loader)
        got = []
        for batch in iterator:
            got.append(batch)
            iterator._inline = False
            iterator._resize(draw.randrange(1, 7))
            iterator._inline = draw.random() < 0.3
            iterator._look_after_workers()
        assert rows(got) == epoch


@pytest.mark.filterwarnings("ignore:DataLoader worker")
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_if_workers_are_dismissed_and_killed_at_any_moment(seed: int) -> None:
    want = expected()[0]
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), batch_size=5, shuffle=True, num_workers="auto")
    draw = random.Random(seed)
    iterator: Any = iter(loader)
    got = []
    for batch in iterator:
        got.append(batch)
        iterator._resize(draw.randrange(1, 6))
        if draw.random() < 0.5:
            # Often one that has just been told to leave.
            leaving = [iterator._team.members[seat] for seat in iterator._team.leaving]
            draw.choice(leaving or iterator._workers).kill()
    assert rows(got) == want


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_every_kind_come_and_go(method: str) -> None:
    loader = DataLoader(
        Plain(24), batch_size=2, num_workers="auto", multiprocessing_context=method, persistent_workers=True
    )
    iterator: Any = iter(loader)
    first = next(iterator)
    iterator._resize(3)
    assert first.tolist() == [[0] * 4, [1] * 4]
    assert [int(batch[0, 0]) for batch in iterator] == list(range(2, 24, 2))
    assert len(set(iterator._team.members) - iterator._team.leaving) == 3
    iterator._resize(1)
    assert [int(batch[0, 0]) for batch in loader] == list(range(0, 24, 2))


class Gated(Plain):
    """Says that it has begun with the first sample, and waits until it may go on."""

    def __init__(self, folder: Path) -> None:
        super().__init__(16)
        self.begun, self.gate = folder / "begun", folder / "gate"

    def __getitem__(self, index: int) -> Any:
        if index == 0 and not self.begun.exists():
            self.begun.write_text(str(os.getpid()))
            wait_for(self.gate.exists)
        return super().__getitem__(index)


def wait_for(happened: Any) -> None:
    deadline = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < deadline, "it has not happened"
        threading.Event().wait(0.005)


@pytest.mark.filterwarnings("ignore:DataLoader worker")
@pytest.mark.parametrize("killed", [False, True])
def test_a_worker_that_is_told_to_leave_finishes_or_is_made_up_for(tmp_path: Path, killed: bool) -> None:
    dataset = Gated(tmp_path)
    loader = DataLoader(dataset, batch_size=4, num_workers="auto")
    iterator: Any = iter(loader)
    wait_for(lambda: dataset.begun.exists() and dataset.begun.read_text())
    pid = int(dataset.begun.read_text())
    seat = next(seat for seat, process in iterator._team.members.items() if process.pid == pid)
    iterator._team.leaving.add(seat)
    iterator._board.dismiss(seat, True)
    iterator._resize(1)
    if killed:
        os.kill(pid, signal.SIGKILL)
    else:
        dataset.gate.touch()
    batches = list(iterator)
    assert torch.cat(batches)[:, 0].tolist() == list(range(16))
    assert loader.failures() == []
    assert loader.stats()["replaced_workers"] == 0, "nobody takes the place of one that was to leave"


@pytest.mark.parametrize("kind", KINDS)
def test_a_seat_is_taken_again_when_its_worker_has_left(kind: str) -> None:
    iterator: Any = iter(DataLoader(Plain(), batch_size=4, num_workers="auto", workers=kind))
    next(iterator)
    iterator._resize(3)
    iterator._resize(1)
    assert iterator._team.leaving == {1, 2}

    def gone() -> bool:
        iterator._look_after_workers()
        return not iterator._team.leaving

    wait_for(gone)
    assert sorted(iterator._team.members) == [0]
    iterator._resize(2)
    assert sorted(iterator._team.members) == [0, 1]
    assert len(list(iterator)) == 23


def test_workers_that_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(Plain(), batch_size=4, num_workers="auto", workers="thread")
    iterator: Any = iter(loader)
    there = len(iterator._team.members)

    def refuse(_seat: int) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(iterator._team, "hire", refuse)
    iterator._resize(there + 2)
    assert len(list(iterator)) == 24
    assert loader._tuning is not None
    assert loader._tuning.most == there


def test_the_consumer_makes_batches_itself_without_touching_the_generators() -> None:
    want = expected()[0]
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), batch_size=5, shuffle=True, num_workers="auto")
    assert loader._tuning is not None
    loader._tuning.inline = loader._tuning.is_sure = True
    random.seed(5), np.random.seed(5)
    np.random.randn()  # keeps a second number for later
    random.gauss(0, 1)
    iterator: Any = iter(loader)
    state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    assert rows(iterator) == want
    assert iterator._team.members == {}
    assert random.getstate() == state[0]
    assert str(np.random.get_state()) == str(state[1])
    assert torch.equal(torch.get_rng_state(), state[2])


def test_what_draws_numbers_is_found_whoever_drew_before() -> None:
    """The second of two normal numbers is given out without a trace in the generator itself."""
    from feedline._hand import OwnSeeds

    draws = {
        "python": lambda: random.gauss(0, 1),
        "numpy": np.random.randn,
        "torch": lambda: torch.randn(1),
        "torch, double": lambda: torch.randn(1, dtype=torch.float64),
        "torch, many": lambda: torch.randn(64),
        "python, once around": lambda: [random.getrandbits(32) for _ in range(624)],
        "numpy, once around": lambda: np.random.randint(0, 2**32, 624, dtype=np.uint32),
        "torch, once around": lambda: torch.randint(0, 2**31, (624,), dtype=torch.int32),
    }
    for name, draw in draws.items():
        seeds = OwnSeeds(1, 0)
        for before in range(3):
            for _ in range(before):
                draw()  # the training loop
            seeds.begin()
            assert not seeds.must_repeat(), "nothing was drawn"
            seeds.begin()
            state = str((random.getstate(), np.random.get_state(), torch.get_rng_state().tolist()))
            draw()
            seeds._used.clear()
            assert seeds.must_repeat(), name
            now = str((random.getstate(), np.random.get_state(), torch.get_rng_state().tolist()))
            assert now == state, name
            seeds._used.clear()


def test_another_generator_of_numpy_is_watched_like_the_first() -> None:
    from feedline._hand import OwnSeeds

    former: Any = np.random.get_bit_generator()
    seeds = OwnSeeds(1, 0)
    seeds.begin()
    try:
        np.random.set_bit_generator(np.random.MT19937(3))
        for _ in range(2):
            seeds._used.clear()
            seeds.begin()
            assert not seeds.must_repeat()
            before = np.random.get_state()[2]
            np.random.rand()
            assert seeds.must_repeat()
            assert np.random.get_state()[2] == before
            np.random.set_bit_generator(np.random.PCG64(3))
            seeds.begin()
            seeds._used.clear()
            np.random.rand()
            assert seeds.must_repeat()
            np.random.set_bit_generator(np.random.MT19937(4))
    finally:
        np.random.set_bit_generator(former)


class Later(Plain):
    """Draws random numbers only from some sample on."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((4,), random.random() if index >= 500 else float(index), dtype=torch.float64)


def alone(loader: DataLoader[Any]) -> Any:
    """An iterator whose consumer makes all batches itself."""
    assert loader._tuning is not None
    loader._tuning.inline = loader._tuning.is_sure = True
    return iter(loader)


class Steady(Stretch):
    """So many batches pass without a look, however long they take."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def begin(self, batches: int, now: float, may: bool) -> None:
        self.left = self.length if may else 0


def unseen(iterator: Any, batches: int) -> None:
    iterator._stretch = Steady(batches)


def test_samples_that_begin_to_draw_are_seeded_in_the_middle_of_a_stretch() -> None:
    want = [
        batch.tolist() for batch in DataLoader(Later(700), batch_size=5, num_workers=1, generator=seeded())
    ]
    loader = DataLoader(Later(700), batch_size=5, num_workers="auto", generator=seeded())
    iterator = alone(loader)
    unseen(iterator, 7)
    random.seed(3)
    state, looked, got = random.getstate(), 0, []
    for batch in iterator:
        got.append(batch.tolist())
        looked += not iterator._stretch.batches
        assert random.getstate() == state
    assert got == want
    assert looked < 80, "of the first hundred, most were not looked at"
    assert loader.stats()["rows"] == 700


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("sampler", [{"shuffle": True}, {"batch_sampler": [[3, 1], [2], [5, 4, 0]] * 20}])
def test_a_state_of_any_moment_of_a_stretch_goes_on(sampler: dict[str, Any]) -> None:
    arguments = sampler if "batch_sampler" in sampler else {**sampler, "batch_size": 3}

    def loader() -> DataLoader[Any]:
        return DataLoader(Plain(), num_workers="auto", generator=seeded(), **arguments)

    want = [batch.tolist() for batch in DataLoader(Plain(), generator=seeded(), **arguments)]
    for taken in range(0, len(want), 5):
        iterator = alone(first := loader())
        unseen(iterator, 4)
        got = [next(iterator).tolist() for _ in range(taken)]
        other = loader()
        other.load_state_dict(first.state_dict())
        if taken % 2:
            iterator._inline = False
            iterator._resize(1)
            assert [batch.tolist() for batch in iterator] == want[taken:], "workers go on where it was"
        assert got + [batch.tolist() for batch in other] == want


def test_a_failure_in_a_stretch_costs_one_batch() -> None:
    iterator = alone(DataLoader(Fails(60), batch_size=2, num_workers="auto"))
    got, failed = [], 0
    unseen(iterator, 9)
    while True:
        try:
            got.append(next(iterator)[0, 0].item())
        except StopIteration:
            break
        except KeyError:
            failed += 1
    assert failed == 1
    assert got == [number for number in range(0, 60, 2) if number != 6]


def test_the_time_of_batches_that_were_not_seen_is_that_of_those_that_were() -> None:
    stretch = Stretch()
    stretch.begin(0, 1.0, True)
    assert stretch.left == 0, "one must have been seen before"
    stretch.begin(0, 1.00001, True)
    assert stretch.left == BATCHES
    stretch.batches, stretch.rows = 10, 100
    assert stretch.counted() == (10, 100)
    assert stretch.left == 0
    assert stretch.hidden(10, 1.001, 1.00101) == pytest.approx(1e-4)
    assert stretch.hidden(10, 1.001, 1.101) == pytest.approx(0.001, rel=0.02), "no longer than it was"
    stretch.begin(10, 1.1, True)
    assert stretch.left == 0, "batches that take their time are all seen"


class Fails(Plain):
    """One sample cannot be loaded."""

    def __getitem__(self, index: int) -> Any:
        if index == 7:
            raise KeyError("seven")
        return super().__getitem__(index)


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize("collate_fn", [None, torch.stack])
def test_failures_are_the_same_whoever_makes_the_batch(on_error: str, collate_fn: Any) -> None:
    def outcome(inline: bool) -> Any:
        loader = DataLoader(
            Fails(12), batch_size=4, num_workers="auto", on_error=on_error, collate_fn=collate_fn
        )
        assert loader._tuning is not None
        loader._tuning.inline = loader._tuning.is_sure = inline
        iterator, got = iter(loader), []
        while True:
            try:
                got.append(next(iterator).tolist())
            except StopIteration:
                break
            except KeyError as error:
                got.append(error.__notes__)
        places = [(one["batch"], one["row"], one["index"], one["replaced_by"]) for one in loader.failures()]
        return got, places

    assert outcome(inline=True) == outcome(inline=False)


def test_a_state_goes_on_with_another_number_of_workers() -> None:
    want = expected()[0]
    torch.manual_seed(0)
    loader = DataLoader(Numbers(), batch_size=5, shuffle=True, num_workers="auto")
    iterator: Any = iter(loader)
    got = [next(iterator) for _ in range(7)]
    state = loader.state_dict()
    other = DataLoader(Numbers(), batch_size=5, shuffle=True, num_workers=2)
    other.load_state_dict(state)
    assert rows(got + list(other)) == want


# What is decided


class Shop:
    """A machine, and what workers and a consumer would do on it: a clock that only counts."""

    def __init__(self, row: float, processor: float, step: float, hand_over: float = 1e-4) -> None:
        self.row, self.processor, self.step, self.hand_over = row, processor, step, hand_over
        self.rows, self.processors = 64, 2.0
        self.total = Totals(0.0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)

    def run(self, workers: int) -> Totals:
        """A batch more."""
        load = self.rows * self.row
        if workers:
            together = min(float(workers), self.processors * self.row / self.processor)
            blocked = max(0.0, load / together - self.step - self.hand_over)
            waited = blocked + self.hand_over
        else:
            blocked, waited = 0.0, load
        t, took = self.total, waited + self.step
        made = self.rows if workers else 0
        self.total = Totals(
            t.now + took,
            t.batches + 1,
            t.samples + self.rows,
            t.taken + self.rows,
            t.made + made,
            t.waited + waited,
            t.blocked + blocked,
            t.busy + made * self.row,
            t.processor + made * self.processor,
        )
        return self.total


class Still(Machine):
    """Two processors, and enough memory."""

    def __init__(self, processors: float = 2.0, free: int = 1 << 40) -> None:
        super().__init__()
        self.has = processors, free

    def processors(self) -> float:
        return self.has[0]

    def memory(self) -> int:
        return self.has[1]


def tuned(shop: Shop, batches: int, tuning: Tuning | None = None) -> Tuning:
    tuning = tuning or Tuning(Still(shop.processors))
    watch, workers = Watch(tuning, afresh=False), tuning.now
    for _ in range(batches):
        total = shop.run(workers)
        if watch.is_due(total.now):
            decided = watch.look(total, max(1, workers), 2, True)
            workers = workers if decided is None else decided
    return tuning


def test_samples_that_wait_get_many_workers() -> None:
    assert tuned(Shop(row=0.01, processor=1e-5, step=0.0), 600).now >= 48


def test_samples_that_compute_get_the_processors() -> None:
    assert tuned(Shop(row=0.002, processor=0.002, step=0.0), 600).now in (2, 3)


def test_a_slow_consumer_keeps_one_worker() -> None:
    assert tuned(Shop(row=1e-4, processor=1e-4, step=0.1), 600).now == 1


def test_tiny_samples_are_loaded_by_the_consumer() -> None:
    tuning = tuned(Shop(row=1e-6, processor=1e-6, step=0.0, hand_over=2e-4), 60_000)
    assert tuning.now == 0
    assert tuning.is_sure


def test_workers_come_back_when_samples_get_dear() -> None:
    shop = Shop(row=1e-6, processor=1e-6, step=0.0, hand_over=2e-4)
    tuning = tuned(shop, 60_000)
    shop.row = shop.processor = 1e-3
    assert tuned(shop, 600, tuning).now in (2, 3)


def test_what_turned_out_dearer_is_not_tried_again_at_once() -> None:
    tuning = Tuning(Still())
    workers = Totals(1.0, 1000, 64_000, 64_000, 64_000, 0.5, 0.0, 0.064, 0.064)
    assert tuning.decide(1.0, workers, True) == 0
    alone = Totals(1.0, 1000, 64_000, 64_000, 0, 0.9, 0.0, 0.0, 0.0)
    assert tuning.decide(2.0, alone, True) > 0
    decided = [tuning.decide(3.0 + again, workers, True) for again in range(COOLDOWN)]
    assert all(number > 0 for number in decided[:-1])
    assert decided[-1] == 0


def test_no_more_workers_than_memory_allows() -> None:
    tuning = Tuning(Still(free=10 << 20))
    tuning.worker_bytes = 1 << 20
    shop = Shop(row=0.01, processor=1e-5, step=0.0)
    assert tuned(shop, 200, tuning).now <= 64
    for _ in range(10):
        tuning.free = 0
        tuning.worker_bytes = 4 << 20
        before = tuning.now
        tuning.decide(1.0, Totals(1.0, 10, 640, 640, 640, 1.0, 1.0, 6.4, 0.01), False)
        assert tuning.now <= before, "what is there is not more than what is held"


class Full(Still):
    """What workers hold is missing elsewhere."""

    def __init__(self, total: int, each: int) -> None:
        super().__init__()
        self.total, self.each, self.workers = total, each, 0

    def memory(self) -> int:
        return max(0, self.total - self.workers * self.each)


def test_a_memory_limit_that_comes_nearer_is_never_passed() -> None:
    each = 16 << 20
    machine = Full(total=100 * each, each=each)
    tuning = Tuning(machine)
    tuning.worker_bytes = each
    shop, watch = Shop(row=0.01, processor=1e-5, step=0.0), Watch(tuning, afresh=False)
    most = []
    for total in (100, 40, 12, 12, 30):
        machine.total, changed = total * each, shop.total.now
        while shop.total.now < changed + 5.0:
            seen = shop.run(machine.workers or 1)
            tuning.read_machine(seen.now)
            if watch.is_due(seen.now):
                watch.look(seen, max(1, machine.workers), 2, True)
            machine.workers = tuning.now
        assert machine.workers * each <= machine.total
        most.append(machine.workers)
    assert most[0] >= 48
    assert 24 <= most[1] <= 40
    assert 6 <= most[2] <= 12
    assert most[4] > most[3], "what is given back is used"


def test_a_try_of_fewer_ends_when_the_consumer_waits() -> None:
    tuning = Tuning(Still())
    watch = Watch(tuning, afresh=False)
    tuning.workers = 4
    total = Totals(0.0, 0, 0, 0, 8, 0.0, 0.0, 0.1, 0.1)

    def later(seconds: float, batches: int, blocked: float) -> int | None:
        nonlocal total
        t = total
        total = Totals(
            t.now + seconds,
            t.batches + batches,
            t.samples + 8 * batches,
            t.taken + 8 * batches,
            t.made + 8 * batches,
            t.waited + blocked,
            t.blocked + blocked,
            t.busy + 0.1 * batches,
            t.processor + 0.1 * batches,
        )
        return watch.look(total, tuning.workers, 50, False)

    later(0.02, 1, 0.0)
    tuning.decide = lambda *_: setattr(tuning, "workers", 3) or 3  # type: ignore[method-assign, func-returns-value]
    assert later(0.6, 10, 0.0) == 3
    tuning.decide = lambda *_: 4  # type: ignore[method-assign]
    assert later(0.02, 1, 0.0) is None, "what is ready is not gone yet"
    assert later(0.02, 1, 0.005) is None, "once is not enough"
    assert later(0.02, 1, 0.02) == 4, "it waits, and need not do so for longer"


# What the machine has


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_quotas_of_all_groups_and_other_ranks_are_heeded(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("feedline._machine.affinity", lambda: 16)
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/job\n",
            "proc/meminfo": "MemTotal: 8000 kB\nMemAvailable:   4000 kB\n",
            "sys/fs/cgroup/pod/cpu.max": "600000 100000\n",
            "sys/fs/cgroup/pod/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/pod/memory.max": "max\n",
            "sys/fs/cgroup/pod/job/memory.max": "3000000\n",
            "sys/fs/cgroup/pod/job/memory.current": "2500000\n",
            "sys/fs/cgroup/pod/job/memory.stat": "anon 5\ninactive_file 400000\nactive_file 100000\n",
        },
    )
    machine = Machine(str(tmp_path), {})
    assert (machine.processors(), machine.memory()) == (6.0, 1_000_000)
    of_two = Machine(str(tmp_path), {"LOCAL_WORLD_SIZE": "2"})
    assert (of_two.processors(), of_two.memory()) == (3.0, 500_000)
    write(tmp_path, {"sys/fs/cgroup/pod/cpu.max": "150000 100000\n"})
    assert machine.processors() == 1.5, "it is read anew"
    assert Machine(str(tmp_path / "nothing"), {}).processors() == 16.0


def test_groups_of_the_first_version_are_heeded_too(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("feedline._machine.affinity", lambda: 16)
    write(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/pod\n4:cpu,cpuacct:/pod/job\n1:name=systemd:/x\n0::/pod\n",
            "proc/meminfo": "MemAvailable:   4000 kB\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/job/cpu.cfs_quota_us": "800000\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "7000000\n",
            "sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "3000000\n",
            "sys/fs/cgroup/memory/pod/memory.usage_in_bytes": "2500000\n",
            "sys/fs/cgroup/memory/pod/memory.stat": "inactive_file 1\ntotal_inactive_file 300000\n",
        },
    )
    machine = Machine(str(tmp_path), {})
    assert (machine.processors(), machine.memory()) == (2.5, 800_000)
    write(tmp_path, {"sys/fs/cgroup/cpu,cpuacct/pod/job/cpu.cfs_quota_us": "50000\n"})
    assert machine.processors() == 0.5, "it is read anew"
    # A container sees its own group at the top, and may know the controller by its own name alone.
    write(
        tmp_path / "inside",
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/docker/0123\n5:memory:/docker/0123\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
        },
    )
    inside = Machine(str(tmp_path / "inside"), {})
    assert (inside.processors(), inside.memory()) == (3.0, 4000)


# What is asked for


def test_auto_is_a_number_that_stays_auto() -> None:
    loader = DataLoader(Plain(), num_workers="auto", prefetch_factor="auto")
    assert isinstance(loader.num_workers, int)
    assert loader.num_workers >= 1
    again = DataLoader(Plain(), num_workers=loader.num_workers, prefetch_factor=loader.prefetch_factor)
    assert isinstance(again.num_workers, Auto)
    assert isinstance(copy.deepcopy(loader).num_workers, Auto)
    assert len(list(copy.deepcopy(again))) == 96
    again.num_workers = 1
    assert len(list(again)) == 96
    assert len(again.stats()["workers"]) == 1
    assert len(list(DataLoader(Plain(8), num_workers=0, prefetch_factor="auto"))) == 8


@pytest.mark.parametrize(
    "arguments", [{"num_workers": "many"}, {"num_workers": 1, "prefetch_factor": "much"}]
)
def test_other_words_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="should be one of 'auto'"):
        DataLoader(Plain(), **arguments)


def test_random_streams_of_workers_need_their_number() -> None:
    with pytest.raises(ValueError, match="needs rng='sample'"):
        DataLoader(Plain(), num_workers="auto", rng="torch")


class Sharded(IterableDataset[int]):
    """Every worker reads its part."""

    def __iter__(self) -> Any:
        info = get_worker_info()
        assert info is not None
        yield from range(info.id, 40, info.num_workers)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_stream_is_cut_anew_only_between_epochs(persistent: bool) -> None:
    loader = DataLoader(Sharded(), batch_size=2, num_workers="auto", persistent_workers=persistent)
    assert loader._tuning is not None
    for workers in (1, 3, 2):
        loader._tuning.workers = workers
        iterator: Any = iter(loader)
        got = [next(iterator)]
        loader._tuning.workers = 5
        got += list(iterator)
        assert sorted(torch.cat(got).tolist()) == list(range(40))
        assert len(iterator._team.members) == workers
    assert "between epochs" in loader.explain()


def test_a_stream_goes_on_with_as_many_workers_as_its_state_has() -> None:
    loader = DataLoader(Sharded(), batch_size=2, num_workers=1)
    iterator = iter(loader)
    got = [next(iterator) for _ in range(5)]
    assert len(loader.state_dict()["streams"]) == 1
    auto = DataLoader(Sharded(), batch_size=2, num_workers="auto")
    assert auto._tuning is not None
    auto._tuning.workers = 4
    auto.load_state_dict(loader.state_dict())
    got += list(auto)
    assert sorted(torch.cat(got).tolist()) == list(range(40))


# What is said


def test_decisions_are_told_and_kept() -> None:
    told: list[dict[str, float]] = []
    loader = DataLoader(Plain(), batch_size=4, num_workers="auto", workers="thread", on_stats=told.append)
    for _ in range(3):
        list(loader)
    series = loader.stats()["series"]
    assert told
    assert told == series
    assert all(isinstance(value, float) for step in told for value in step.values())
    assert {"seconds", "workers", "wait_share", "samples_per_second"} <= set(told[0])
    assert "auto" in loader.explain()
    assert "\n" not in loader.summary()
    assert "samples/s" in loader.summary()


def test_a_hook_that_fails_loses_no_batch() -> None:
    def fail(_stats: dict[str, float]) -> None:
        raise OSError("disk full")

    loader = DataLoader(Plain(), batch_size=4, num_workers="auto", on_stats=fail)
    with pytest.warns(RuntimeWarning, match="on_stats failed: OSError"):
        assert len(list(loader)) == 24


def test_what_needs_no_workers_says_so() -> None:
    loader = DataLoader(torch.arange(10), batch_size=2, num_workers="auto")
    assert torch.cat(list(loader)).tolist() == list(range(10))
    assert "gathered from memory" in loader.explain()
    assert "no workers are needed" in loader.explain()


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("settled", [1, 2])
def test_threads_that_wait_for_python_become_processes_in_the_next_epoch(
    persistent: bool, settled: int
) -> None:
    want = expected(3, persistent_workers=persistent)
    torch.manual_seed(0)
    # With a timeout, so that it is always workers that make batches.
    loader = DataLoader(
        Numbers(),
        batch_size=5,
        shuffle=True,
        num_workers="auto",
        workers="auto",
        timeout=SOON,
        persistent_workers=persistent,
    )
    loader._chosen = "thread", "Python was hardly held"
    assert rows(loader) == want[0]
    assert "worker threads" in loader.explain()
    # As if they had been watched for longer. One thread is left if more of them brought nothing.
    gauge = {"busy_s": 10.0, "waiting_s": 0.0, "processor_s": 10.0 / settled, "units": 100, "runs": 10}
    report, tuning = loader._report, loader._tuning
    assert tuning is not None
    tuning.workers, tuning.processors, tuning.changes = settled, 2.0, 1

    def refresh(report: Any) -> None:
        report.gauges, report.elapsed, report.waiting = [gauge] * settled, 10.0, 9.0
        report.workers = settled

    report.refresh = refresh
    assert "What limits is Python" in report.explain()
    assert rows(loader) == want[1]
    assert "worker processes (threads were found to wait" in loader.explain()
    assert rows(loader) == want[2]


def test_one_thread_that_is_enough_stays_one() -> None:
    loader = DataLoader(Plain(), batch_size=4, num_workers="auto", workers="auto", timeout=SOON)
    loader._chosen = "thread", "Python was hardly held"
    list(loader)
    tuning, report = loader._tuning, loader._report
    assert tuning is not None
    gauge = {"busy_s": 10.0, "waiting_s": 0.0, "processor_s": 9.0, "units": 100, "runs": 10}
    report.gauges, report.elapsed, report.workers = [gauge], 10.0, 1
    tuning.workers, tuning.processors, tuning.changes = 1, 2.0, 1
    report.waiting = 0.1
    assert not report.is_held_by_python(), "nobody waits for it"
    report.waiting = 9.0
    assert report.is_held_by_python()
    tuning.processors = 1.0
    assert not report.is_held_by_python(), "there is no other processor"
