"""A cache that processes share: loaded once, bounded, read-only, and whole whoever is killed when.

Processes are told when to go on, and tell where they are, by pipes and by what the cache itself counts. Torch is not
imported here, because spawned processes import this file.
"""

import contextlib
import copy
import doctest
import faulthandler
import gc
import importlib
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import feedline
import numpy as np
import pytest
from feedline._key import digest

pytestmark = pytest.mark.timeout(120)

MIB = 1 << 20
#: Processes that are killed at random, more if asked for.
KILLS = int(os.environ.get("FEEDLINE_KILLS", "60"))
START_METHODS = ["fork", "spawn", "forkserver"]
Point = namedtuple("Point", "x y")


# --- helpers ------------------------------------------------------------------------------------------


def numbered(key: int, length: int = 1000) -> np.ndarray:
    """What is kept for a key, so that anybody can tell."""
    return np.arange(length, dtype=np.int64) * (key + 1)


def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.001)


def memory_of(cache: feedline.SharedCache) -> int:
    """The bytes behind its file."""
    return os.fstat(cache._engine.fd).st_blocks * 512


def descriptors() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(found)


def descriptors_of(cache: feedline.SharedCache) -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them is gone by now
            count += os.path.sameopenfile(int(name), cache._engine.fd)
    return count


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count("/memfd:feedline")


@contextlib.contextmanager
def process(context: Any, target: Callable, *arguments: Any) -> Iterator[Any]:
    """A process, which is not left behind."""
    started = context.Process(target=target, args=arguments, daemon=True)
    started.start()
    try:
        yield started
    finally:
        started.kill()
        started.join()


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def noted(file: Path, text: str) -> None:
    """One line, whole, whoever else writes."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


# --- one process --------------------------------------------------------------------------------------


def test_what_was_loaded_is_given_again_from_the_same_memory() -> None:
    cache = feedline.SharedCache(4 * MIB)
    first = cache.get("a", lambda: numbered(1))
    again = cache.get("a", lambda: pytest.fail("it is there"))
    np.testing.assert_array_equal(again, numbered(1))
    assert np.shares_memory(first, again)
    stats = cache.stats()
    used = stats.pop("bytes")
    assert stats == {
        "loads": 1,
        "hits": 1,
        "waits": 0,
        "evictions": 0,
        "too_large": 0,
        "private": 0,
        "entries": 1,
    }
    assert 8000 <= used <= 3 * 4096
    assert len(cache) == 1
    assert "a" in cache
    assert "b" not in cache
    assert repr(cache) == f"SharedCache(4194304): 1 entries, {used} bytes"
    assert cache.max_bytes == 4 * MIB


def structures() -> list[Any]:
    record = np.zeros(3, dtype=[("x", "f4"), ("name", "U5")])
    record["name"] = ["a", "ü", ""]
    return [
        np.arange(6.0).reshape(2, 3),
        {"ct": np.ones((4, 5), np.float32), "parts": [np.zeros(2, bool), (np.int16([1, 2]), "text", 1.5)]},
        [None, True, 3, -(1 << 80), 2.5, "Füße", b"bytes", np.float32(0.5), [], {}, ()],
        np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
        np.arange(20)[::3],
        np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
        np.array(7),
        np.empty((0, 3), np.uint16),
        np.array(["ab", "c"]),
        np.array(["2026-11-16", "NaT"], dtype="datetime64[D]"),
        np.array([1, 2], dtype=">i4"),
        np.array([1 + 2j]),
        record,
        np.array(["any", 3, None], dtype=object),
        Point(np.ones(3), {"deep": [np.ones(3)]}),
    ]


def assert_same(mine: Any, theirs: Any) -> None:
    assert type(mine) is type(theirs)
    if isinstance(mine, np.ndarray):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert mine.dtype.hasobject or not mine.flags.writeable
        np.testing.assert_array_equal(mine, theirs)
    elif isinstance(mine, dict):
        assert list(mine) == list(theirs)
        assert_same(list(mine.values()), list(theirs.values()))
    elif isinstance(mine, (list, tuple)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert_same(one, other)
    else:
        assert mine == theirs


@pytest.mark.parametrize("value", structures(), ids=range(len(structures())))
def test_structures_come_back_as_they_were_but_for_writing(value: Any) -> None:
    kept, tiny = feedline.SharedCache(MIB), feedline.SharedCache(1)
    for _ in range(2):
        assert_same(kept.get("key", lambda: value), value)
        assert_same(tiny.get("key", lambda: value), value)
    assert kept.stats()["loads"] == 1
    assert tiny.stats()["too_large"] == 2


def test_order_in_memory_is_kept() -> None:
    cache = feedline.SharedCache(MIB)
    array = cache.get("f", lambda: np.asfortranarray(np.arange(24).reshape(2, 3, 4)))
    assert array.flags.f_contiguous
    assert not array.flags.owndata


def test_a_mapped_file_is_kept_as_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", numbered(3))
    cache = feedline.SharedCache(MIB)
    for _ in range(2):
        array = cache.get("file", lambda: np.load(tmp_path / "array.npy", mmap_mode="r"))
        assert type(array) is np.ndarray
        np.testing.assert_array_equal(array, numbered(3))


def test_arrays_cannot_be_written_to() -> None:
    array = feedline.SharedCache(MIB).get("a", lambda: np.zeros(5))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True


def test_a_structure_is_the_callers_own() -> None:
    cache = feedline.SharedCache(MIB)
    cache.get("a", lambda: {"x": [1, 2]})["x"].append(3)
    assert cache.get("a", dict) == {"x": [1, 2]}


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    cache = feedline.SharedCache(4 * MIB)
    tensors = {
        "plain": torch.arange(10),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "last": torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last),
        "gaps": torch.arange(20)[::3],
        "none": torch.empty(0, 4),
        "number": torch.tensor(3.0),
        "learned": torch.ones(2, requires_grad=True),
        "array": np.ones(3),
    }
    first = cache.get("tensors", lambda: tensors)
    for given in (first, cache.get("tensors", dict)):
        for name, tensor in tensors.items():
            assert type(given[name]) is type(tensor)
            if name != "array":
                assert given[name].dtype == tensor.dtype
                assert torch.equal(given[name], tensor)
                assert given[name].requires_grad == tensor.requires_grad
    assert first["plain"].data_ptr() == cache.get("tensors", dict)["plain"].data_ptr()
    assert first["last"].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.filterwarnings("error")
def test_tensors_come_without_a_warning() -> None:
    torch = pytest.importorskip("torch")
    cache = feedline.SharedCache(MIB)
    assert torch.equal(cache.get(1, lambda: torch.arange(5)), cache.get(1, lambda: None))


@pytest.mark.parametrize("kind", ["sparse", "subclass", "history"])
def test_other_tensors_are_refused(kind: str) -> None:
    torch = pytest.importorskip("torch")
    made = {
        "sparse": lambda: torch.eye(3).to_sparse(),
        "subclass": lambda: torch.nn.Parameter(torch.ones(3)),
        "history": lambda: torch.ones(3, requires_grad=True) * 2,
    }
    cache = feedline.SharedCache(MIB)
    with pytest.raises(
        TypeError, match=r"what was loaded for 'key' cannot be shared: a tensor .* is not plain"
    ):
        cache.get("key", made[kind])
    assert "key" not in cache


def test_what_cannot_be_pickled_is_refused_by_its_key() -> None:
    cache = feedline.SharedCache(MIB)
    with pytest.raises(TypeError, match=r"what was loaded for \('a', 1\) cannot be shared"):
        cache.get(("a", 1), lambda: threading.Lock())
    assert cache.get(("a", 1), lambda: 1) == 1


def write_to_a_tensor(cache: feedline.SharedCache) -> None:
    import torch

    faulthandler.disable()  # it is what is expected
    cache.get("a", lambda: torch.zeros(5))[0] = 1


def test_whoever_writes_to_a_tensor_harms_only_itself() -> None:
    torch = pytest.importorskip("torch")
    cache = feedline.SharedCache(MIB)
    cache.get("a", lambda: torch.zeros(5))
    with process(multiprocessing.get_context("fork"), write_to_a_tensor, cache) as writer:
        writer.join()
        assert writer.exitcode == -signal.SIGSEGV
    assert cache.get("a", lambda: None).sum() == 0


# --- keys ---------------------------------------------------------------------------------------------

KEYS = [
    1,
    "1",
    b"1",
    1.0,
    True,
    None,
    (1,),
    ("1",),
    ((1,),),
    (1, "1"),
    ("11",),
    ("1", "1"),
    (),
    Path("1"),
    -1,
    1 << 70,
]


def test_keys_of_different_kinds_are_different() -> None:
    assert len({digest(key) for key in KEYS}) == len(KEYS)
    assert digest(np.int32(5)) == digest(5)
    assert digest(Point(1, 2)) == digest((1, 2))


def test_keys_are_the_same_in_every_process() -> None:
    code = "from feedline._key import digest; print(digest(('ü', 1, b'x', 2.5, None)).hex())"
    run = [sys.executable, "-c", code]
    seen = {
        subprocess.run(run, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert seen == {digest(("ü", 1, b"x", 2.5, None)).hex().encode() + b"\n"}


@pytest.mark.parametrize("key", [[1], {1: 2}, {1}, object(), ("a", [1]), 1j])
def test_other_keys_are_refused(key: Any) -> None:
    cache = feedline.SharedCache(MIB)
    with pytest.raises(TypeError, match="a key is a str, bytes, an integer"):
        cache.get(key, lambda: 1)
    with pytest.raises(TypeError, match="a key is a str"):
        key in cache  # noqa: B015


@pytest.mark.parametrize(
    ("size", "error"), [(0, ValueError), (-1, ValueError), ("1", TypeError), (1.5, TypeError)]
)
def test_a_cache_needs_memory(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        feedline.SharedCache(size)


# --- room ---------------------------------------------------------------------------------------------


def test_the_least_recently_used_is_dropped() -> None:
    cache = feedline.SharedCache(4 * MIB)
    for key in (1, 2, 3):
        cache.get(key, lambda key=key: numbered(key, MIB // 8))
    cache.get(1, lambda: pytest.fail("it is there"))
    cache.get(4, lambda: numbered(4, MIB // 8))
    assert [key for key in range(6) if key in cache] == [1, 3, 4]
    assert cache.stats()["evictions"] == 1


def test_what_is_in_use_stays() -> None:
    cache = feedline.SharedCache(4 * MIB)
    used = cache.get(0, lambda: numbered(0, MIB // 8))[10:20]
    for key in range(1, 20):
        cache.get(key, lambda key=key: numbered(key, MIB // 8))
        assert cache.stats()["bytes"] <= memory_of(cache) <= 4 * MIB
    assert 0 in cache
    np.testing.assert_array_equal(used, numbered(0, 20)[10:])
    del used
    for key in range(1, 20):
        cache.get(key, lambda key=key: numbered(key, MIB // 8))
    assert 0 not in cache


def test_memory_never_exceeds_the_bound() -> None:
    cache, chosen, held = feedline.SharedCache(3 * MIB), random.Random(1), []
    for _ in range(400):
        key = chosen.randrange(60)
        held.append(cache.get(key, lambda key=key: numbered(key, 2000 * (key + 1))))
        np.testing.assert_array_equal(held[-1], numbered(key, 2000 * (key + 1)))
        while len(held) > chosen.randrange(12):
            held.pop(chosen.randrange(len(held)))
        assert memory_of(cache) <= 3 * MIB
    stats = cache.stats()
    assert min(stats["evictions"], stats["hits"]) > 10
    held.clear()
    cache.clear()
    assert (cache.stats()["bytes"], len(cache)) == (0, 0)


def test_what_is_larger_than_the_cache_is_loaded_each_time() -> None:
    cache = feedline.SharedCache(MIB)
    for times in (1, 2, 3):
        array = cache.get("large", lambda: numbered(1, MIB))
        np.testing.assert_array_equal(array, numbered(1, MIB))
        assert not array.flags.writeable
        assert (cache.stats()["too_large"], cache.stats()["loads"]) == (times, times)
    assert len(cache) == 0


def test_without_room_everybody_has_a_copy_of_their_own() -> None:
    cache = feedline.SharedCache(4 * MIB)
    used = [cache.get(key, lambda key=key: numbered(key, MIB // 8)) for key in range(3)]
    for _ in range(2):
        own = cache.get(9, lambda: numbered(9, MIB // 8))
        np.testing.assert_array_equal(own, numbered(9, MIB // 8))
    assert cache.stats()["private"] == 2
    del used
    cache.get(9, lambda: numbered(9, MIB // 8))
    assert 9 in cache


def test_many_small_entries() -> None:
    cache = feedline.SharedCache(2 * MIB)
    for key in range(1000):
        np.testing.assert_array_equal(cache.get(key, lambda key=key: numbered(key, 5)), numbered(key, 5))
    assert 32 <= len(cache) <= 64


def test_what_is_cleared_is_loaded_again() -> None:
    cache = feedline.SharedCache(MIB)
    used = cache.get(1, lambda: numbered(1))
    cache.clear()
    assert 1 not in cache
    np.testing.assert_array_equal(cache.get(1, lambda: numbered(2)), numbered(2))
    np.testing.assert_array_equal(used, numbered(1))


# --- loads --------------------------------------------------------------------------------------------


def in_threads(count: int, run: Callable[[int], Any]) -> list[Any]:
    """What each thread gave, or raised."""
    results: list[Any] = [None] * count

    def main(number: int) -> None:
        try:
            results[number] = run(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=main, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def test_threads_load_once() -> None:
    cache, loads, barrier = feedline.SharedCache(8 * MIB), Counter[int](), threading.Barrier(8)

    def load(key: int) -> np.ndarray:
        loads[key] += 1
        return numbered(key)

    def run(number: int) -> None:
        barrier.wait()
        for key in random.Random(number).sample(range(50), 50):
            np.testing.assert_array_equal(cache.get(key, lambda key=key: load(key)), numbered(key))

    assert in_threads(8, run) == [None] * 8
    assert loads == dict.fromkeys(range(50), 1)


def test_a_load_that_fails_raises_its_own_error_and_the_next_tries() -> None:
    cache = feedline.SharedCache(MIB)

    def run(number: int) -> Any:
        def load() -> Any:
            until(lambda: cache.stats()["waits"] >= 2)
            if number != 1:
                raise OSError(f"failed for {number}")
            return numbered(1)

        return cache.get("key", load)

    for number, result in enumerate(in_threads(3, run)):
        if isinstance(result, OSError):
            assert str(result) == f"failed for {number}"
        else:
            np.testing.assert_array_equal(result, numbered(1))
    assert "key" in cache
    assert cache.stats()["loads"] == 1


def test_waiters_of_a_load_that_fails_each_get_their_own_error() -> None:
    cache = feedline.SharedCache(MIB)

    def run(number: int) -> Any:
        def load() -> Any:
            until(lambda: cache.stats()["waits"] >= 3)
            raise OSError(number)

        return cache.get("key", load)

    assert sorted(error.args[0] for error in in_threads(4, run)) == [0, 1, 2, 3]
    assert cache.stats()["loads"] == 0


def test_waiters_for_what_is_not_kept_load_it_side_by_side() -> None:
    cache, barrier = feedline.SharedCache(MIB), threading.Barrier(3)

    def run(number: int) -> Any:
        def load() -> Any:
            if cache.stats()["too_large"] == 0:
                until(lambda: cache.stats()["waits"] == 3)
            else:
                barrier.wait(30)
            return numbered(1, MIB)

        return len(cache.get("large", load))

    assert in_threads(4, run) == [MIB] * 4


def test_a_load_may_ask_for_other_keys() -> None:
    cache = feedline.SharedCache(MIB)

    def load(key: int) -> np.ndarray:
        return numbered(0) if key == 0 else cache.get(key - 1, lambda: load(key - 1)) + np.arange(1000)

    np.testing.assert_array_equal(cache.get(9, lambda: load(9)), numbered(9))
    assert sorted(key for key in range(12) if key in cache) == list(range(10))


def test_a_load_that_asks_for_its_own_key_is_refused() -> None:
    cache = feedline.SharedCache(MIB)
    message = "to load 'a' would wait for itself"
    with pytest.raises(RecursionError, match=message):
        cache.get("a", lambda: cache.get("a", lambda: 1))
    with pytest.raises(RecursionError, match=message):
        cache.get("a", lambda: cache.get("b", lambda: cache.get("a", lambda: 1)))
    assert cache.get("a", lambda: 1) == 1


def test_loads_that_wait_for_each_other_are_refused() -> None:
    cache, barrier = feedline.SharedCache(MIB), threading.Barrier(2)

    def run(number: int) -> Any:
        def outer() -> Any:
            barrier.wait(30)
            return cache.get(1 - number, lambda: 7)

        return cache.get(number, outer)

    results = in_threads(2, run)
    assert sum(isinstance(result, RecursionError) for result in results) == 1
    assert 7 in results


def test_waiting_can_be_interrupted() -> None:
    cache, begun, release = feedline.SharedCache(MIB), threading.Event(), threading.Event()

    def load() -> bool:
        begun.set()
        return release.wait(60)

    def loader() -> None:
        cache.get("slow", load)

    def interrupt() -> None:
        until(lambda: cache.stats()["waits"] == 1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=loader, daemon=True)
    thread.start()
    assert begun.wait(30)
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        cache.get("slow", lambda: pytest.fail("another loads it"))
    release.set()
    thread.join()
    assert "slow" in cache


def test_an_interrupted_load_is_the_next_ones() -> None:
    cache = feedline.SharedCache(MIB)
    with pytest.raises(KeyboardInterrupt):
        cache.get("a", lambda: signal.raise_signal(signal.SIGINT) or 1)
    assert cache.get("a", lambda: 2) == 2


# --- processes ----------------------------------------------------------------------------------------


def take_all(cache: feedline.SharedCache, seed: int, file: Path, barrier: Any) -> None:
    """Ask for all keys, in an order of one's own."""

    def load(key: int) -> np.ndarray:
        noted(file, str(key))
        return numbered(key)

    barrier.wait(60)
    for key in random.Random(seed).sample(range(25), 25):
        np.testing.assert_array_equal(cache.get(("key", key), lambda key=key: load(key)), numbered(key))
    assert descriptors_of(cache) == 1


@pytest.mark.parametrize("method", START_METHODS)
def test_eight_processes_load_once(method: str, tmp_path: Path) -> None:
    context, cache = multiprocessing.get_context(method), feedline.SharedCache(8 * MIB)
    barrier, file = context.Barrier(8), tmp_path / "loads"
    workers = [context.Process(target=take_all, args=(cache, seed, file, barrier)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert Counter(file.read_text().split()) == {str(key): 1 for key in range(25)}
    stats = cache.stats()
    assert (stats["loads"], stats["hits"], stats["entries"]) == (25, 175, 25)


def load_for_ever(cache: feedline.SharedCache, tell: Any) -> None:
    def load() -> None:
        tell.send("loading")
        signal.pause()

    cache.get("key", load)


def load_at_once(cache: feedline.SharedCache, tell: Any) -> None:
    tell.send(cache.get("key", lambda: numbered(7)).sum())


@pytest.mark.parametrize("method", START_METHODS)
def test_if_a_loader_is_killed_one_of_those_who_wait_takes_over(method: str) -> None:
    context, cache = multiprocessing.get_context(method), feedline.SharedCache(MIB)
    ear, mouth = context.Pipe(duplex=False)
    with contextlib.ExitStack() as ending:
        loader = ending.enter_context(process(context, load_for_ever, cache, mouth))
        assert ear.recv() == "loading"
        for _ in range(3):
            ending.enter_context(process(context, load_at_once, cache, mouth))
        until(lambda: cache.stats()["waits"] == 3, 60)
        assert not ear.poll()
        kill(loader)
        assert [ear.recv() for _ in range(3)] == [numbered(7).sum()] * 3
    assert (cache.stats()["loads"], cache.stats()["hits"]) == (1, 2)


def use_for_ever(cache: feedline.SharedCache, tell: Any) -> None:
    used = cache.get("used", lambda: numbered(1, MIB // 4))
    tell.send(len(used))
    signal.pause()


@pytest.mark.parametrize("method", START_METHODS)
def test_what_a_killed_process_used_makes_room(method: str) -> None:
    context, cache = multiprocessing.get_context(method), feedline.SharedCache(3 * MIB)
    ear, mouth = context.Pipe(duplex=False)
    with process(context, use_for_ever, cache, mouth) as user:
        assert ear.recv() == MIB // 4
        cache.get("other", lambda: numbered(2, MIB // 4))
        assert "other" not in cache
        assert cache.stats()["private"] == 1
        kill(user)
    assert "used" in cache
    cache.get("other", lambda: numbered(2, MIB // 4))
    assert "other" in cache
    assert "used" not in cache


def hammer(cache: feedline.SharedCache, seed: int, file: Path) -> None:
    """Ask, use, let go, clear, without end; note what is not as it should be."""
    chosen, held = random.Random(seed), []
    try:
        while True:
            key = chosen.randrange(40)
            held.append((key, cache.get(key, lambda key=key: numbered(key, 600 * (key + 1)))))
            while len(held) > chosen.randrange(8):
                key, array = held.pop(chosen.randrange(len(held)))
                np.testing.assert_array_equal(array, numbered(key, 600 * (key + 1)))
            if chosen.random() < 0.002:
                cache.clear()
    except BaseException as error:
        noted(file, repr(error))


def answers(cache: feedline.SharedCache) -> int:
    stats = cache.stats()
    return stats["loads"] + stats["hits"]


def test_processes_killed_at_any_moment_leave_the_cache_whole(tmp_path: Path) -> None:
    context, cache, chosen = (
        multiprocessing.get_context("fork"),
        feedline.SharedCache(2 * MIB),
        random.Random(5),
    )
    file, seeds = tmp_path / "errors", iter(range(10_000))
    with contextlib.ExitStack() as ending:

        def start() -> Any:
            return ending.enter_context(process(context, hammer, cache, next(seeds), file))

        crowd = [start() for _ in range(4)]
        for _ in range(KILLS):
            done = cache.stats()
            until(
                lambda done=done: (
                    cache.stats()["loads"] + cache.stats()["hits"] > sum((done["loads"], done["hits"]))
                )
            )
            time.sleep(chosen.random() * 0.02)  # any moment will do
            kill(crowd.pop(chosen.randrange(4)))
            crowd.append(start())
            assert cache.stats()["bytes"] <= 2 * MIB
            assert memory_of(cache) <= 2 * MIB
        for worker in crowd:
            assert worker.is_alive()
            kill(worker)
    assert not file.exists(), file.read_text()
    cache.clear()
    assert (cache.stats()["bytes"], len(cache)) == (0, 0)
    assert memory_of(cache) < MIB // 4
    loads = cache.stats()["loads"]
    for _ in range(2):
        for key in range(10):
            np.testing.assert_array_equal(cache.get(key, lambda key=key: numbered(key)), numbered(key))
    assert cache.stats()["loads"] == loads + 10


def test_a_forked_child_keeps_what_its_parent_used() -> None:
    cache = feedline.SharedCache(3 * MIB)
    used = cache.get("used", lambda: numbered(1, MIB // 4))
    (hear, tell), (hear_back, tell_back) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(hear, 1)
            same = (used == numbered(1, MIB // 4)).all()
            del used
            os.write(tell_back, b"y" if same else b"n")
            os.read(hear, 1)
        finally:
            os._exit(0)
    try:
        del used
        cache.get("other", lambda: numbered(2, MIB // 4))
        assert "other" not in cache
        os.write(tell, b".")
        assert os.read(hear_back, 1) == b"y"
        cache.get("other", lambda: numbered(2, MIB // 4))
        assert "other" in cache
    finally:
        os.write(tell, b".")
        os.waitpid(child, 0)
        for end in (hear, tell, hear_back, tell_back):
            os.close(end)


def use_and_end(cache: feedline.SharedCache, key: int) -> None:
    array = cache.get(key, lambda: numbered(key))
    os._exit(int(array.sum() != numbered(key).sum()))


def test_more_processes_than_seats_one_after_the_other() -> None:
    context, cache = multiprocessing.get_context("fork"), feedline.SharedCache(MIB)
    for number in range(150):
        with process(context, use_and_end, cache, number % 3) as child:
            child.join()
            assert child.exitcode == 0
    assert cache.stats()["loads"] == 3


def wait_for_the_end(cache: feedline.SharedCache, tell: Any, end: Any) -> None:
    tell.send(cache.get("key", lambda: numbered(3)).sum())
    end.wait()


def test_more_processes_than_seats_at_once() -> None:
    context, cache = multiprocessing.get_context("fork"), feedline.SharedCache(MIB)
    cache.get("key", lambda: numbered(3))
    (ear, mouth), end = context.Pipe(duplex=False), context.Event()
    crowd = [context.Process(target=wait_for_the_end, args=(cache, mouth, end)) for _ in range(130)]
    for child in crowd:
        child.start()
    assert [ear.recv() for _ in crowd] == [numbered(3).sum()] * 130
    end.set()
    for child in crowd:
        child.join()
    assert cache.stats()["private"] == 3
    assert cache.stats()["loads"] == 4


def test_forks_from_many_threads() -> None:
    cache, end = feedline.SharedCache(MIB), threading.Event()

    def ask() -> None:
        key = 0
        while not end.is_set():
            key = (key + 1) % 20
            cache.get(key, lambda key=key: numbered(key))

    asking = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for thread in asking:
        thread.start()

    def fork(number: int) -> int:
        with process(multiprocessing.get_context("fork"), use_and_end, cache, number) as child:
            child.join()
            return child.exitcode

    try:
        for _ in range(10):
            assert in_threads(3, fork) == [0] * 3
    finally:
        end.set()
        for thread in asking:
            thread.join()


def test_a_pickle_is_a_new_cache_and_a_copy_the_same() -> None:
    cache = feedline.SharedCache(MIB)
    cache.get("a", lambda: 1)
    other = pickle.loads(pickle.dumps(cache))
    assert (other.max_bytes, len(other)) == (MIB, 0)
    assert copy.copy(cache) is copy.deepcopy([cache])[0] is cache


# --- loaders ------------------------------------------------------------------------------------------


class Groups:
    """57 groups of 15 samples; all samples of a group need the same array."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cache = feedline.SharedCache(2 * MIB)

    def __len__(self) -> int:
        return 57 * 15

    def __getitem__(self, index: int) -> np.ndarray:
        group, at = divmod(index, 15)
        return self.cache.get(group, lambda: self.load(group))[at]

    def load(self, group: int) -> np.ndarray:
        noted(self.file, str(group))
        return np.full((15, 100), group) * 100 + np.arange(15)[:, None]


KINDS = ("feedline", "threads", "torch")
LOADERS = [(kind, workers, batch) for kind in KINDS for workers in (0, 2, 4) for batch in (1, 8)]
LOADERS += [("spawned", 2, 8), ("torch spawned", 2, 8)]


@pytest.mark.filterwarnings(
    "ignore:This DataLoader will create", "ignore:The given NumPy array is not writable"
)
@pytest.mark.parametrize(("kind", "workers", "batch"), LOADERS)
def test_under_a_loader_every_group_is_loaded_once(
    kind: str, workers: int, batch: int, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    loaders = {
        "feedline": (feedline.DataLoader, {}),
        "threads": (feedline.DataLoader, {"workers": "thread"}),
        "torch": (torch.utils.data.DataLoader, {}),
        "spawned": (feedline.DataLoader, {"multiprocessing_context": "spawn"}),
        "torch spawned": (torch.utils.data.DataLoader, {"multiprocessing_context": "spawn"}),
    }
    loader, options = loaders[kind]
    dataset = Groups(tmp_path / "loads")
    taken = torch.cat(list(loader(dataset, batch_size=batch, num_workers=workers, **options)))
    expected = [group * 100 + at for group in range(57) for at in range(15)]
    assert taken[:, 0].tolist() == taken[:, -1].tolist() == expected
    assert Counter((tmp_path / "loads").read_text().split()) == {str(group): 1 for group in range(57)}
    assert dataset.cache.stats()["loads"] == 57


def test_the_study_of_volumes_loads_every_patient_once(tmp_path: Path) -> None:
    torch, nrrd = pytest.importorskip("torch"), pytest.importorskip("nrrd")
    from feedline.bench.contestants import shared_cache
    from feedline.bench.data import volumes as data
    from feedline.bench.request import Request
    from feedline.bench.studies import volumes

    for number in range(3):
        data._write(tmp_path, number, side=24, encoding="raw")
    request = Request("volumes", "shared_cache", workers=2, batch=4, data=str(tmp_path))
    prepared = volumes.prepare(request, lambda done, of: None)
    expected = list(torch.utils.data.DataLoader(prepared.dataset, batch_size=4))
    read, files = nrrd.read, tmp_path / "files"
    nrrd.read = lambda *arguments, **named: noted(files, arguments[0]) or read(*arguments, **named)
    try:
        taken = list(shared_cache.open(prepared, request)())
    finally:
        nrrd.read = read
    assert Counter(Counter(files.read_text().split()).values()) == {1: 12}
    assert len(taken) == len(expected) == 12
    for mine, theirs in zip(taken, expected, strict=True):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert prepared.dataset.cache is None


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def epoch(number: int) -> None:
        dataset = Groups(tmp_path / f"loads {number}")
        for loader in (feedline.DataLoader, torch.utils.data.DataLoader):
            for _ in loader(dataset, batch_size=8, num_workers=2):
                pass
        kept = [dataset[at] for at in range(0, 855, 15)]
        assert sum(int(array[0]) for array in kept) == sum(range(57)) * 100
        before = dataset.cache.stats()["bytes"]
        del kept
        dataset.cache.clear()
        assert before > 0 == dataset.cache.stats()["bytes"]

    epoch(0)
    gc.collect()
    before = descriptors(), mappings()
    for number in range(1, 4):
        epoch(number)
    gc.collect()
    assert (descriptors(), mappings()) == before


def test_a_cache_is_gone_with_its_last_array() -> None:
    gc.collect()
    before = mappings()
    cache = feedline.SharedCache(MIB)
    array = cache.get("a", lambda: numbered(1))
    del cache
    gc.collect()
    assert mappings() > before
    np.testing.assert_array_equal(array, numbered(1))
    del array
    gc.collect()
    assert mappings() == before


def test_neither_torch_nor_numpy_is_needed() -> None:
    code = (
        "import sys, feedline; cache = feedline.SharedCache(1 << 20); assert cache.get('a', lambda: [1]) == [1];"
        "assert cache.get('a', list) == [1]; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", ["feedline.cache", "feedline._key"])
def test_the_examples_of_the_documentation(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert (failed, tried > 1) == (0, True)
