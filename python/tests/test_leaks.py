"""What is left behind: nothing, whichever way an epoch, a program or a process ends.

Processes, descriptors and memory are counted in `/proc`. Programs that end in some way run as processes of
their own, in a session of their own, whose members can be counted after it.
"""

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import SUBJECT_IS_TORCH, Loader
from torch.utils.data import Dataset

#: Epochs of the long run, more if asked for; what is there after the first hundred is there to stay.
EPOCHS = int(os.environ.get("FEEDLINE_EPOCHS", "300"))
SETTLED = 100

pytestmark = [
    pytest.mark.timeout(max(120, EPOCHS // 5)),
    pytest.mark.skipif(SUBJECT_IS_TORCH, reason="torch leaves more behind, and later"),
]

#: Seconds a process may live on after its end was brought about.
DEADLINE = 2.0

MIB = 1 << 20


class Small(Dataset):
    """A few samples, of which one may be bad."""

    def __init__(self, n: int = 12, bad: int = -1) -> None:
        self.n = n
        self.bad = bad

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[int, torch.Tensor]:
        if i == self.bad:
            raise ValueError(f"sample {i} is bad")
        return i, torch.full((8,), i)


class Blocks(Dataset):
    """One-dimensional samples; how long each is, a function says."""

    def __init__(self, n: int, length: Callable[[int], int]) -> None:
        self.n = n
        self.length = length

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((self.length(i),), i, dtype=torch.float32)


class HalfBad(Dataset):
    """Every second sample fails with a long message."""

    def __len__(self) -> int:
        return 1200

    def __getitem__(self, i: int) -> int:
        if i % 2:
            raise ValueError("long " * 1000)
        return i


class Named(Dataset):
    """Every sample has a name, the later the longer."""

    def __len__(self) -> int:
        return 600

    def __getitem__(self, i: int) -> tuple[int, str]:
        return i, "n" * (2000 * i // 600)


def one_mebibyte(i: int) -> int:
    return MIB // 4


def any_length(i: int) -> int:
    return random.Random(i).randrange(1000, MIB // 16)


def stacked(batch: list) -> torch.Tensor:
    return torch.stack(batch)


def as_list(batch: list) -> list:
    return batch


# --- counting ---------------------------------------------------------------------------------------


def fields_of(pid: int) -> list[str] | None:
    """State, parent, group, session and so on of a process; `None` if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields


def processes() -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := fields_of(int(entry))) is not None:
            yield int(entry), fields


def children() -> list[int]:
    return [pid for pid, fields in processes() if int(fields[1]) == os.getpid()]


def members_of(session: int) -> list[int]:
    return [pid for pid, fields in processes() if int(fields[3]) == session]


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def descriptors() -> dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        # The one that lists them is gone by now.
        with contextlib.suppress(FileNotFoundError):
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def memory_in_files() -> int:
    """The bytes behind all anonymous files, whoever has touched them."""
    memory = [name for name, target in descriptors().items() if target.startswith("/memfd:")]
    return sum(os.stat(f"/proc/self/fd/{name}").st_blocks * 512 for name in memory)


def resident_shared_memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say")


def gone_before(deadline: float, find: Callable[[], list[int]]) -> list[int]:
    """What is still found at the deadline."""
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


# --- many epochs --------------------------------------------------------------------------------------


class Epochs:
    """Loaders that live long, and the ways an epoch over them may end."""

    def __init__(self) -> None:
        self.rows = Loader(Small(), batch_size=3, num_workers=2)
        self.batches = Loader(Small(), batch_size=3, num_workers=2, collate_fn=as_list)
        self.faulty = Loader(Small(bad=7), batch_size=3, num_workers=2)
        self.ways = [
            self.whole,
            self.left_early,
            self.failing,
            self.failing_outside,
            self.killed,
            self.of_a_new_loader,
        ]

    def run(self, number: int) -> None:
        self.ways[number % len(self.ways)](self.batches if number // len(self.ways) % 2 else self.rows)

    def whole(self, loader: Any) -> None:
        assert len(list(loader)) == 4

    def left_early(self, loader: Any) -> None:
        for _ in loader:
            break

    def failing(self, loader: Any) -> None:
        with pytest.raises(ValueError, match="sample 7 is bad"):
            list(self.faulty)

    def failing_outside(self, loader: Any) -> None:
        def train() -> None:
            for _ in loader:
                raise ArithmeticError("the loss is not a number")

        with pytest.raises(ArithmeticError):
            train()

    def killed(self, loader: Any) -> None:
        iterator = iter(loader)
        next(iterator)
        os.kill(iterator._workers[0].pid, signal.SIGKILL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert len(list(iterator)) == 3

    def of_a_new_loader(self, loader: Any) -> None:
        assert len(list(Loader(Small(), batch_size=3, num_workers=2, persistent_workers=True))) == 4


def test_hundreds_of_epochs_leave_nothing_behind() -> None:
    children_before, files_before = children(), set(os.listdir("/dev/shm"))
    epochs = Epochs()
    for way in range(len(epochs.ways)):
        epochs.run(way)
    gc.collect()
    threads_before, descriptors_before = threads(), descriptors()
    settled = (0, 0)
    for number in range(EPOCHS):
        epochs.run(number)
        if number == SETTLED:
            gc.collect()
            settled = (memory_in_files(), resident_shared_memory())
    gc.collect()
    assert memory_in_files() <= settled[0] + MIB // 2
    assert resident_shared_memory() <= settled[1] + MIB // 2
    assert children() == children_before
    assert threads() <= threads_before
    assert len(descriptors()) <= len(descriptors_before) + 2, (descriptors_before, descriptors())
    assert set(os.listdir("/dev/shm")) <= files_before


def test_workers_end_with_a_loop_that_fails() -> None:
    """Without the help of the collector of cycles, whose time is unknown."""
    before = children()
    gc.collect()
    gc.disable()
    try:
        Epochs().failing(None)
        assert gone_before(time.monotonic() + DEADLINE, lambda: sorted(set(children()) - set(before))) == []
    finally:
        gc.enable()


# --- memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "arguments", "most"),
    [
        (one_mebibyte, {}, 24 * MIB),
        (one_mebibyte, {"collate_fn": stacked}, 24 * MIB),
        (one_mebibyte, {"batch_size": None}, 24 * MIB),
        (any_length, {}, 64 * MIB),
        (any_length, {"collate_fn": stacked}, 64 * MIB),
    ],
    ids=["rows", "batches", "samples", "rows of any length", "batches of any length"],
)
def test_memory_is_used_again(length: Callable, arguments: dict, most: int) -> None:
    count = 300 if length is one_mebibyte else 1500
    loader = Loader(Blocks(count, length), num_workers=2, prefetch_factor=2, **{"batch_size": 1} | arguments)
    before = memory_in_files()
    for _ in loader:
        pass
    assert memory_in_files() - before <= most


@pytest.mark.parametrize("collate", [None, as_list])
def test_memory_of_failures_is_used_again(collate: Any) -> None:
    loader = Loader(HalfBad(), batch_size=10, num_workers=2, collate_fn=collate, on_error="skip")
    sizes = [memory_in_files() for _ in loader]
    assert sizes[-1] <= sizes[30] + MIB


def test_memory_of_long_names_is_used_again() -> None:
    loader = Loader(Named(), batch_size=4, num_workers=2)
    sizes = []
    for _ in range(4):
        for _ in loader:
            pass
        sizes.append(memory_in_files())
    assert sizes[-1] <= sizes[0] + MIB


# --- ends of programs -----------------------------------------------------------------------------------

PROGRAM = """
import multiprocessing, os, signal, sys, time, warnings
import torch
from feedline import DataLoader
from torch.utils.data import Dataset

class Slow(Dataset):
    def __init__(self, busy=False):
        self.busy = busy
    def __len__(self):
        return 64
    def __getitem__(self, i):
        while i >= 4 and self.busy:
            pass
        if i >= 4:
            time.sleep(60)
        return i

class Quick(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return i

def say(*words):
    print(*words, flush=True)

def begin(dataset, **arguments):
    loader = DataLoader(dataset, batch_size=2, num_workers=2, **arguments)
    iterator = iter(loader)
    next(iterator)
    say(*(getattr(worker, "pid", 0) for worker in iterator._workers))
    return loader, iterator
"""


class Program:
    """A Python program in a session of its own."""

    def __init__(self, text: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM + text, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *error: object) -> None:
        for pid in members_of(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def line(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def end(self, deadline: float) -> tuple[int, str]:
        """Exit code and errors; fails if the program, or a process of its, is there at the deadline."""
        code = self.process.wait(timeout=deadline - time.monotonic())
        assert gone_before(deadline, lambda: members_of(self.process.pid)) == []
        assert self.process.stderr is not None
        return code, self.process.stderr.read()


@pytest.mark.parametrize(("busy", "persistent"), [("False", "True"), ("True", "False")])
def test_workers_end_when_the_main_process_is_killed(busy: str, persistent: str) -> None:
    text = (
        f"_, iterator = begin(Slow({busy}), persistent_workers={persistent})\nnext(iterator), next(iterator)"
    )
    with Program(text) as program:
        workers = [int(word) for word in program.line()]
        assert len(workers) == 2
        assert all(fields_of(pid) for pid in workers)
        program.process.kill()
        deadline = time.monotonic() + DEADLINE
        code, errors = program.end(deadline)
        assert gone_before(deadline, lambda: [pid for pid in workers if fields_of(pid)]) == []
    assert (code, errors) == (-signal.SIGKILL, "")


@pytest.mark.parametrize("arguments", ["", "persistent_workers=True, collate_fn=list", "workers='thread'"])
def test_an_interrupt_ends_the_program_at_once_and_says_so_once(arguments: str) -> None:
    text = f"_, iterator = begin(Slow(), {arguments})\nfor batch in iterator: pass"
    with Program(text) as program:
        assert len(program.line()) == 2
        os.killpg(program.process.pid, signal.SIGINT)
        code, errors = program.end(time.monotonic() + DEADLINE)
    assert code == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("KeyboardInterrupt"), errors


def test_an_interrupt_can_be_caught_and_the_iteration_left() -> None:
    text = """
try:
    loader, iterator = begin(Slow())
    say("iterating")
    list(iterator)
except KeyboardInterrupt:
    iterator = None
say("left")
print([batch.tolist() for batch in DataLoader(Quick(), batch_size=32, num_workers=2)] == [
    list(range(32)), list(range(32, 64))])
"""
    with Program(text) as program:
        program.line()
        assert program.line() == ["iterating"]
        os.killpg(program.process.pid, signal.SIGINT)
        deadline = time.monotonic() + DEADLINE
        assert program.line() == ["left"]
        assert time.monotonic() < deadline
        assert program.line() == ["True"]
        assert program.end(time.monotonic() + DEADLINE) == (0, "")


ENDINGS = {
    "iterator": "loader, iterator = begin(Slow())",
    "two busy iterators": "loader, first = begin(Slow(True))\nsecond = iter(loader)",
    "in a cycle": "iterator = begin(Slow(), collate_fn=list)[1]\niterator.itself = iterator",
    "persistent": "loader, _ = begin(Slow(), persistent_workers=True)",
    "at its end": "loader, iterator = begin(Quick(), persistent_workers=True)\nkept = list(iterator)",
    "threads": "loader, iterator = begin(Slow(), workers='thread')",
    "idle threads": "loader, iterator = begin(Quick(), workers='thread', persistent_workers=True)",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_the_program_ends_with_an_iterator_alive(ending: str) -> None:
    with Program(f"{ending}\nsay('leaving')") as program:
        program.line()
        assert program.line() == ["leaving"]
        code, errors = program.end(time.monotonic() + DEADLINE)
    assert (code, errors) == (0, "")


@pytest.mark.parametrize("arguments", ["", "persistent_workers=True"])
def test_an_exception_in_the_training_loop_ends_the_program(arguments: str) -> None:
    text = f"""
def train():
    loader, iterator = begin(Slow(), {arguments})
    for batch in iterator:
        say("leaving")
        raise ArithmeticError("the loss is not a number")

train()
"""
    with Program(text) as program:
        program.line()
        assert program.line() == ["leaving"]
        code, errors = program.end(time.monotonic() + DEADLINE)
    assert code == 1
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("ArithmeticError: the loss is not a number"), errors


# --- forks of the main process ------------------------------------------------------------------------------


def end_at_once(things: list) -> None:
    pass


def drop_all(things: list) -> None:
    things.clear()


def collect_all(things: list) -> None:
    things[0].itself = things[0]
    things.clear()
    gc.collect()


def drop_batches(things: list) -> None:
    del things[2:]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("act", [end_at_once, drop_all, collect_all, drop_batches])
def test_a_fork_of_the_main_process_does_not_disturb_the_iteration(act: Callable, persistent: bool) -> None:
    loader = Loader(Small(60), batch_size=2, num_workers=2, prefetch_factor=2, persistent_workers=persistent)
    iterator = iter(loader)
    things = [iterator, loader, next(iterator), next(iterator)]
    pid = os.fork()
    if pid == 0:
        del iterator, loader
        try:
            act(things)
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        batches = things[2:] + list(iterator)
    assert [indices.tolist() for indices, _ in batches] == [[i, i + 1] for i in range(0, 60, 2)]


@pytest.mark.timeout(20)
def test_a_fork_of_the_main_process_may_return() -> None:
    text = """
loader, iterator = begin(Quick(), prefetch_factor=2)
pid = os.fork()
if pid == 0:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
batches = [batch.tolist() for batch in iterator]
say(batches == [[i, i + 1] for i in range(2, 64, 2)])
"""
    with Program(text) as program:
        program.line()
        # multiprocessing, in the fork, ends workers that are not its children. They are replaced.
        assert program.line() == ["True"]
        assert program.end(time.monotonic() + DEADLINE)[0] == 0


class Signed(Dataset):
    """Samples that say which main process they were loaded for."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.tensor([i, os.getppid()]).repeat(300)


def misread(loader: Any) -> int:
    """How many batches are not what they must be."""
    expected = torch.arange(200).reshape(50, 4)
    wrong = 0
    for number, batch in enumerate(loader):
        signed = torch.stack([expected[number], torch.full((4,), os.getpid())], dim=1).repeat(1, 300)
        wrong += not torch.equal(batch, signed)
    return wrong


@pytest.mark.timeout(30)
@pytest.mark.parametrize("collate", [None, stacked])
def test_a_fork_of_the_main_process_may_use_the_same_loader(collate: Any) -> None:
    loader = Loader(Signed(), batch_size=4, num_workers=2, collate_fn=collate)
    assert misread(loader) == 0
    context = multiprocessing.get_context("fork")
    result = context.SimpleQueue()
    child = context.Process(target=lambda: result.put(misread(loader)))
    child.start()
    try:
        assert misread(loader) == 0
        assert gone_before(time.monotonic() + 10, lambda: [1] if result.empty() else []) == []
        assert result.get() == 0
    finally:
        child.kill()
        child.join()


def test_threads_end_with_their_epoch() -> None:
    before = threading.active_count()
    for _ in range(20):
        assert len(list(Loader(Small(), batch_size=3, num_workers=2, workers="thread"))) == 4
    assert threading.active_count() == before
