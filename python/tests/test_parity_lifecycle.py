"""The life of iterators, workers and batches: when they begin, what they share, when they end.

Ends are waited for with a deadline on the processes themselves. Batches are kept, changed, sent away and
outlive everything that made them.
"""

# The names of the tests say the behaviour.

import contextlib
import copy
import io
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from compare import assert_same, clone, failure_of, multiset, steps
from conftest import SUBJECT_IS_TORCH, Loader
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _BaseDataLoaderIter

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

BOTH = pytest.mark.parametrize("loader_class", [TorchLoader, Loader], ids=["reference", "subject"])
WORKERS = pytest.mark.parametrize("workers", [0, 1, 2])

# Seconds a process may take to end.
DEADLINE = 30


def values(batches: Any) -> list:
    return [batch.tolist() for batch in batches]


def assert_ended(workers: list) -> None:
    """Fails unless every process ends before the deadline."""
    for worker in workers:
        wait([worker.sentinel], timeout=DEADLINE)
        worker.join(timeout=DEADLINE)
        assert not worker.is_alive(), f"{worker} lives on"


# --- iterators ----------------------------------------------------------------------------------


@BOTH
@WORKERS
def test_every_iter_makes_a_new_iterator(loader_class: type, workers: int) -> None:
    loader = loader_class(range(4), num_workers=workers)
    first, second = iter(loader), iter(loader)
    assert first is not second
    assert iter(first) is first
    assert isinstance(first, _BaseDataLoaderIter)
    assert next(first).tolist() == next(second).tolist() == [0]


@BOTH
@WORKERS
def test_iterators_of_one_loader_do_not_disturb_each_other(loader_class: type, workers: int) -> None:
    loader = loader_class(range(12), batch_size=3, num_workers=workers)
    first, second = iter(loader), iter(loader)
    seen = [next(first), next(second), next(first), next(first), next(second)]
    assert [batch[0].item() for batch in seen] == [0, 0, 3, 6, 3]
    third = list(loader)
    assert values(third) == values(seen[:1] + seen[2:4] + [next(first)])
    assert values(steps(second)) == [[6, 7, 8], [9, 10, 11]]


@WORKERS
def test_nested_loops_over_one_shuffled_loader(workers: int) -> None:
    def loops(loader_class: type) -> list:
        torch.manual_seed(3)
        loader = loader_class(range(4), batch_size=2, shuffle=True, num_workers=workers)
        return [[outer.tolist(), inner.tolist()] for outer in loader for inner in loader]

    subject = loops(Loader)
    assert len(subject) == 4
    assert_same(subject, loops(TorchLoader))


@WORKERS
def test_an_epoch_left_early_does_not_affect_the_next(workers: int) -> None:
    def epochs(loader_class: type) -> list:
        torch.manual_seed(4)
        loader = loader_class(range(20), batch_size=3, shuffle=True, num_workers=workers)
        seen = []
        for stop in (1, 3, 100):
            seen.append([])
            for batch in loader:
                seen[-1].append(batch)
                if len(seen[-1]) == stop:
                    break
        return seen

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert [len(epoch) for epoch in subject] == [1, 3, 7]


@BOTH
@WORKERS
def test_after_the_end_an_iterator_stays_at_its_end(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(range(3), num_workers=workers))
    assert len(steps(iterator)) == 3
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


@BOTH
@WORKERS
def test_an_iterator_counts_what_it_has_yielded(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(range(5), num_workers=workers))
    assert iterator._num_yielded == 0
    next(iterator)
    next(iterator)
    assert iterator._num_yielded == 2


@BOTH
@WORKERS
def test_each_step_is_recorded_by_the_profiler(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(range(3), num_workers=workers))
    with torch.autograd.profiler.profile() as profile:
        next(iterator)
        next(iterator)
    steps_seen = [event.name for event in profile.function_events if "enumerate(DataLoader)#" in event.name]
    assert len(steps_seen) == 2
    assert all(name.endswith(".__next__") for name in steps_seen)


@BOTH
@WORKERS
def test_a_loader_can_be_iterated_in_another_thread(loader_class: type, workers: int) -> None:
    seen: list = []
    loader = loader_class(range(10), batch_size=4, num_workers=workers)
    thread = threading.Thread(target=lambda: seen.extend(values(loader)))
    thread.start()
    thread.join(60)
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@BOTH
@WORKERS
def test_an_iterator_can_be_handed_to_another_thread(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(range(10), batch_size=4, num_workers=workers))
    seen = [next(iterator).tolist()]
    thread = threading.Thread(target=lambda: seen.append(next(iterator).tolist()))
    thread.start()
    thread.join(60)
    seen.append(next(iterator).tolist())
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@BOTH
@WORKERS
def test_a_sample_may_use_a_loader_of_its_own(loader_class: type, workers: int) -> None:
    loader = loader_class(zoo.Nested(loader_class), batch_size=3, num_workers=workers)
    expected = [[[i + k for k in range(5)] for i in range(start, start + 3)] for start in (0, 3)]
    assert values(loader) == expected


# --- copies of the loader -----------------------------------------------------------------------


def _pickled(loader: Any) -> Any:
    return pickle.loads(pickle.dumps(loader))


@BOTH
@WORKERS
@pytest.mark.parametrize("duplicate", [_pickled, copy.copy, copy.deepcopy])
def test_a_loader_can_be_copied(loader_class: type, duplicate: Any, workers: int) -> None:
    loader = loader_class(zoo.Made(zoo.nested_dict), batch_size=5, shuffle=True, num_workers=workers)
    list(loader)
    running = iter(loader)
    next(running)
    twin = duplicate(loader)
    assert type(twin) is loader_class
    assert twin is not loader
    assert (twin.batch_size, twin.num_workers, len(twin)) == (5, workers, 5)
    torch.manual_seed(9)
    expected = list(loader)
    torch.manual_seed(9)
    assert_same(list(twin), expected)
    assert failure_of(lambda: setattr(twin, "batch_size", 2)).type is ValueError


@BOTH
@WORKERS
def test_an_iterator_cannot_be_pickled(loader_class: type, workers: int) -> None:
    iterator = iter(loader_class(range(3), num_workers=workers))
    failure = failure_of(lambda: pickle.dumps(iterator))
    assert failure.type is NotImplementedError
    assert "cannot be pickled" in failure.text
    assert next(iterator).tolist() == [0]


# --- workers ------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("persistent", [False, True])
def test_the_workers_are_listed_as_processes(loader_class: type, persistent: bool) -> None:
    loader = loader_class(zoo.Who(), batch_size=4, num_workers=2, persistent_workers=persistent)
    iterator = iter(loader)
    workers = list(iterator._workers)
    assert len(workers) == 2
    assert all(worker.is_alive() and worker.exitcode is None for worker in workers)
    pids = {worker.pid for worker in workers}
    assert len(pids) == 2
    assert os.getpid() not in pids
    seen = {pid for batch in iterator for pid in batch["pid"].tolist()}
    assert seen <= pids
    assert seen


@BOTH
def test_workers_end_with_the_epoch(loader_class: type) -> None:
    iterator = iter(loader_class(range(10), num_workers=2))
    workers = list(iterator._workers)
    assert len(steps(iterator)) == 10
    assert_ended(workers)
    assert all(worker.exitcode is not None for worker in workers)


@BOTH
@pytest.mark.parametrize("taken", [0, 1, 5])
def test_workers_end_with_an_iterator_that_is_dropped(loader_class: type, taken: int) -> None:
    iterator = iter(loader_class(range(1000), num_workers=2))
    workers = list(iterator._workers)
    for _ in range(taken):
        next(iterator)
    del iterator
    assert_ended(workers)


@BOTH
def test_workers_end_with_a_loop_that_is_left(loader_class: type) -> None:
    loader = loader_class(zoo.Who(1000), num_workers=2)
    for batch in loader:
        descriptor = os.pidfd_open(batch["pid"].item())
        break
    try:
        assert select.select([descriptor], [], [], DEADLINE)[0], "a worker lives on"
    finally:
        os.close(descriptor)


@BOTH
def test_workers_end_while_they_are_busy(loader_class: type) -> None:
    iterator = iter(loader_class(zoo.Made(zoo.large_tensor, 40), batch_size=2, num_workers=2))
    next(iterator)
    workers = list(iterator._workers)
    del iterator
    assert_ended(workers)


@BOTH
def test_workers_of_a_stream_end_with_it(loader_class: type) -> None:
    iterator = iter(loader_class(zoo.Shards((1, 9)), num_workers=2))
    workers = list(iterator._workers)
    assert len(steps(iterator)) == 10
    assert_ended(workers)


@BOTH
def test_workers_end_after_their_errors(loader_class: type) -> None:
    iterator = iter(loader_class(zoo.Faulty(zoo.raise_value, range(12)), batch_size=4, num_workers=2))
    workers = list(iterator._workers)
    assert len(steps(iterator)) == 3
    assert_ended(workers)


@BOTH
def test_workers_can_be_shut_down_by_hand(loader_class: type) -> None:
    iterator = iter(loader_class(range(100), num_workers=2))
    next(iterator)
    workers = list(iterator._workers)
    iterator._shutdown_workers()
    assert_ended(workers)
    iterator._shutdown_workers()


@BOTH
def test_worker_processes_are_daemons_with_one_thread(loader_class: type) -> None:
    (batch,) = loader_class(zoo.Described(), batch_size=4, num_workers=2)
    assert batch["daemon"].tolist() == [True] * 4
    assert batch["parent"].tolist() == [os.getpid()] * 4
    assert batch["threads"].tolist() == [1] * 4
    assert batch["main_thread"].tolist() == [True] * 4


SCRIPT = """
import os, signal, sys
import zoo
from conftest import Loader

if __name__ == "__main__":
    end, persistent, batches = sys.argv[1], sys.argv[2] == "persistent", int(sys.argv[3])
    loader = Loader(zoo.Who(1000), batch_size=2, num_workers=2, persistent_workers=persistent)
    iterator = iter(loader)
    for _ in range(batches):
        next(iterator)
    print(*(worker.pid for worker in iterator._workers), flush=True)
    sys.stdin.readline()
    if end == "error":
        raise ValueError("the end")
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def assert_workers_end_with_main(end: str, code: int, persistent: str, batches: int) -> None:
    """Runs the script up to its end and waits for its workers with a deadline."""
    main = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, end, persistent, str(batches)],
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    descriptors: list[int] = []
    try:
        pids = [int(pid) for pid in main.stdout.readline().split()]
        descriptors += [os.pidfd_open(pid) for pid in pids]
        assert len(descriptors) == 2
        main.stdin.write("go\n")
        main.stdin.flush()
        assert main.wait(timeout=DEADLINE) == code
        lives = [not select.select([descriptor], [], [], DEADLINE)[0] for descriptor in descriptors]
        assert lives == [False, False], f"a worker of {pids} lives on"
        assert main.stderr.read().count("Traceback") == (1 if end == "error" else 0)
    finally:
        main.kill()
        main.wait()
        for descriptor in descriptors:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)
        for pipe in (main.stdin, main.stdout, main.stderr):
            pipe.close()


@pytest.mark.parametrize("persistent", ["passing", "persistent"])
@pytest.mark.parametrize(("end", "code"), [("return", 0), ("error", 1), ("kill", -signal.SIGKILL)])
def test_workers_end_with_the_main_process(end: str, code: int, persistent: str) -> None:
    # Four batches in order: every worker of torch's has finished its start and made one.
    assert_workers_end_with_main(end, code, persistent, batches=4)


@pytest.mark.skipif(SUBJECT_IS_TORCH, reason="a worker of torch's looks for its parent only after its start")
@pytest.mark.parametrize("persistent", ["passing", "persistent"])
def test_workers_end_with_a_main_process_killed_while_they_start(persistent: str) -> None:
    assert_workers_end_with_main("kill", -signal.SIGKILL, persistent, batches=0)


# --- what workers know and keep -----------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("persistent", [False, True])
def test_the_init_function_is_called_once_in_each_worker(loader_class: type, persistent: bool) -> None:
    dataset = zoo.Who()
    loader = loader_class(
        dataset,
        batch_size=4,
        num_workers=2,
        worker_init_fn=zoo.tag_dataset,
        persistent_workers=persistent,
    )
    for _ in range(2):
        batches = list(loader)
        assert [i for batch in batches for i in batch["index"].tolist()] == list(range(16))
        for batch in batches:
            assert batch["tag"].tolist() == [100 + worker for worker in batch["worker"].tolist()]
            assert batch["inits"].tolist() == [1] * 4
    assert (dataset.tag, dataset.inits) == (-1, 0)


@BOTH
def test_batches_of_a_collate_function_go_to_the_workers_in_turn(loader_class: type) -> None:
    for epoch in range(2):
        loader = loader_class(zoo.Who(18), batch_size=2, num_workers=3, collate_fn=zoo.as_list)
        for k, batch in enumerate(loader):
            assert [sample["worker"] for sample in batch] == [k % 3] * 2, (epoch, k)


@pytest.mark.parametrize("workers", [0, 1])
def test_worker_info(workers: int) -> None:
    def described(loader_class: type) -> list:
        return list(loader_class(zoo.Informed(), batch_size=4, num_workers=workers))

    (subject,) = described(Loader)
    assert_same([subject], described(TorchLoader))
    if workers:
        assert subject["frozen"] == ["FrozenInstanceError"] * 4
        assert subject["own_dataset"].all()


@BOTH
def test_worker_info_of_several_workers(loader_class: type) -> None:
    (batch,) = loader_class(zoo.Informed(), batch_size=4, num_workers=3, collate_fn=zoo.as_list)
    for info in batch:
        assert info["id"] in range(3)
        assert info["num_workers"] == 3
        assert info["own_dataset"]


@BOTH
@WORKERS
def test_there_is_no_worker_info_in_the_main_process(loader_class: type, workers: int) -> None:
    assert get_worker_info() is None
    for _ in loader_class(range(4), num_workers=workers):
        assert get_worker_info() is None
    assert get_worker_info() is None


@pytest.mark.parametrize(
    ("arguments", "calls"),
    [
        ({"num_workers": 0}, [6, 12, 18]),
        ({"num_workers": 1}, [6, 6, 6]),
        ({"num_workers": 1, "persistent_workers": True}, [6, 12, 18]),
    ],
    ids=str,
)
def test_copies_of_the_dataset_live_as_long_as_their_worker(arguments: dict, calls: list) -> None:
    def epochs(loader_class: type) -> list:
        loader = loader_class(zoo.Counting(), batch_size=3, **arguments)
        return [list(loader) for _ in range(3)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert [epoch[-1][1][-1].item() for epoch in subject] == calls


@BOTH
@pytest.mark.parametrize(("persistent", "second"), [(False, 7), (True, 0)])
def test_changes_of_the_dataset_reach_new_workers_only(
    loader_class: type, persistent: bool, second: int
) -> None:
    dataset = zoo.Counting()
    loader = loader_class(dataset, batch_size=6, num_workers=2, persistent_workers=persistent)
    ((_, _, bonus),) = loader
    assert bonus.tolist() == [0] * 6
    dataset.bonus = 7
    ((_, _, bonus),) = loader
    assert bonus.tolist() == [second] * 6
    assert dataset.calls == 0


# --- persistent workers -------------------------------------------------------------------------


@BOTH
def test_a_persistent_loader_has_one_iterator_and_one_set_of_workers(loader_class: type) -> None:
    loader = loader_class(zoo.Who(), batch_size=4, num_workers=2, persistent_workers=True)
    assert loader._iterator is None
    iterator = iter(loader)
    pids = [worker.pid for worker in iterator._workers]
    for _ in range(3):
        seen = {pid for batch in loader for pid in batch["pid"].tolist()}
        assert seen <= set(pids)
        assert loader._iterator is iterator
        assert iter(loader) is iterator
        assert [worker.pid for worker in iterator._workers] == pids
        assert all(worker.is_alive() for worker in iterator._workers)


@BOTH
def test_persistent_workers_end_with_their_loader(loader_class: type) -> None:
    loader = loader_class(range(8), num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 8
    workers = list(loader._iterator._workers)
    assert all(worker.is_alive() for worker in workers)
    del loader
    assert_ended(workers)


def test_persistent_epochs_are_shuffled_alike() -> None:
    def epochs(loader_class: type) -> list:
        torch.manual_seed(6)
        loader = loader_class(
            zoo.Made(zoo.nested_dict), batch_size=5, shuffle=True, num_workers=2, persistent_workers=True
        )
        return [list(loader) for _ in range(4)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert subject[0][0]["label"].tolist() != subject[1][0]["label"].tolist()


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_persistent_epoch_left_early_starts_again(taken: int) -> None:
    def epochs(loader_class: type) -> list:
        torch.manual_seed(8)
        loader = loader_class(
            zoo.Made(zoo.costly, 20), batch_size=3, shuffle=True, num_workers=2, persistent_workers=True
        )
        iterator = iter(loader)
        first = [next(iterator) for _ in range(taken)]
        return [first, list(loader), list(loader)]

    subject = epochs(Loader)
    assert_same(subject, epochs(TorchLoader))
    assert [len(epoch) for epoch in subject] == [taken, 7, 7]


@BOTH
def test_a_persistent_iterator_stays_at_its_end_until_it_is_reset(loader_class: type) -> None:
    loader = loader_class(range(4), num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    assert len(steps(iterator)) == 4
    with pytest.raises(StopIteration):
        next(iterator)
    assert len(list(loader)) == 4


# --- order --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("shuffle", [False, True])
def test_out_of_order_the_batches_are_the_same(shuffle: bool, workers: int) -> None:
    def epochs(loader_class: type) -> list:
        torch.manual_seed(10)
        loader = loader_class(
            zoo.Made(zoo.costly, 30), batch_size=4, shuffle=shuffle, num_workers=workers, in_order=False
        )
        return [multiset([indices for indices, _ in loader]) for _ in range(2)]

    subject = epochs(Loader)
    assert subject == epochs(TorchLoader)
    assert sorted(i for batch in subject[0] for i in batch) == list(range(30))


@BOTH
def test_in_order_a_late_batch_holds_up_the_others(loader_class: type) -> None:
    gate = torch.multiprocessing.get_context("fork").Event()
    timer = threading.Timer(0.5, gate.set)
    timer.start()
    loader = loader_class(zoo.Gated(gate, closed=1, n=8), batch_size=2, num_workers=2)
    assert values(loader) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    timer.join()


@BOTH
def test_out_of_order_a_late_batch_is_overtaken(loader_class: type) -> None:
    gate = torch.multiprocessing.get_context("fork").Event()
    # A collate function: a batch is the work of one worker, so the other one is free to go on.
    loader = loader_class(
        zoo.Gated(gate, n=8), batch_size=2, num_workers=2, in_order=False, collate_fn=zoo.as_list
    )
    iterator = iter(loader)
    seen = [next(iterator)]
    assert seen[0] == [2, 3]
    gate.set()
    seen += steps(iterator)
    assert sorted(seen) == [[0, 1], [2, 3], [4, 5], [6, 7]]


# --- batches that outlive what made them --------------------------------------------------------

SHAPES = {
    "tensors": zoo.float32_tensor,
    "pictures": zoo.picture_array,
    "dicts": zoo.nested_dict,
    "pairs": zoo.tensor_and_label,
    "ints": zoo.an_int,
}


@pytest.mark.parametrize(
    ("workers", "persistent"), [(0, False), (1, False), (2, False), (1, True), (2, True)]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_batches_that_are_kept_are_not_overwritten(shape: str, persistent: bool, workers: int) -> None:
    dataset = zoo.Made(SHAPES[shape], 60)
    expected = list(TorchLoader(dataset, batch_size=4))
    loader = Loader(dataset, batch_size=4, num_workers=workers, persistent_workers=persistent)
    kept = [list(loader) for _ in range(3)]
    for epoch in kept:
        assert_same(epoch, expected)


@WORKERS
def test_views_keep_their_batch(workers: int) -> None:
    dataset = zoo.Made(zoo.picture_array, 60)
    rows, arrays, slices = [], [], []
    for batch in Loader(dataset, batch_size=4, num_workers=workers):
        rows.append(batch[1])
        arrays.append(batch.numpy()[2])
        slices.append(batch[:, :, 10:20, ::2].transpose(1, 2))
    for k, (row, array, part) in enumerate(zip(rows, arrays, slices, strict=True)):
        samples = [torch.from_numpy(zoo.picture_array(4 * k + i)) for i in range(4)]
        assert_same(row, samples[1])
        assert_same(torch.from_numpy(array), samples[2])
        assert torch.equal(part, torch.stack(samples)[:, :, 10:20, ::2].transpose(1, 2))


@BOTH
@WORKERS
def test_batches_that_are_kept_do_not_stop_the_loader(loader_class: type, workers: int) -> None:
    loader = loader_class(zoo.Made(zoo.picture_array, 120), num_workers=workers, batch_size=2)
    kept = [*loader, *loader]
    assert len({batch.data_ptr() for batch in kept}) == 120


@WORKERS
def test_a_batch_can_be_changed_without_changing_another(workers: int) -> None:
    def changed(loader_class: type) -> list:
        loader = loader_class(zoo.Made(zoo.nested_dict), batch_size=4, num_workers=workers)
        batches = list(loader)
        for batch in batches[::2]:
            batch["image"].zero_()
            batch["meta"]["box"] += 1000
            batch["meta"]["path"].append("extra")
            batch["label"] = None
        return [batches, list(loader)]

    assert_same(changed(Loader), changed(TorchLoader))


@WORKERS
def test_a_batch_changed_at_once_does_not_reach_later_ones(workers: int) -> None:
    dataset = zoo.Made(zoo.float32_tensor, 40)
    expected = list(TorchLoader(dataset, batch_size=4))
    for persistent in (False, True) if workers else (False,):
        loader = Loader(dataset, batch_size=4, num_workers=workers, persistent_workers=persistent)
        for _ in range(2):
            for position, batch in enumerate(loader):
                assert_same(batch, expected[position])
                batch.fill_(-1)


@WORKERS
def test_batches_outlive_loader_and_workers(workers: int) -> None:
    loader = Loader(zoo.Made(zoo.nested_dict), batch_size=4, num_workers=workers)
    iterator = iter(loader)
    batch = next(iterator)
    processes = list(getattr(iterator, "_workers", []))
    del iterator, loader
    assert_ended(processes)
    assert_same(batch, next(iter(TorchLoader(zoo.Made(zoo.nested_dict), batch_size=4))))


@WORKERS
def test_batches_of_one_loader_outlast_the_epochs_of_others(workers: int) -> None:
    dataset = zoo.Made(zoo.picture_array, 12)
    expected = list(TorchLoader(dataset, batch_size=4))
    kept = list(Loader(dataset, batch_size=4, num_workers=workers))
    for _ in range(3):
        list(Loader(zoo.Made(zoo.large_tensor, 4), batch_size=2, num_workers=workers))
    assert_same(kept, expected)


@BOTH
@WORKERS
def test_batches_are_ordinary_tensors(loader_class: type, workers: int) -> None:
    first, second = loader_class(zoo.Made(zoo.float32_tensor, 8), batch_size=4, num_workers=workers)
    assert type(first) is torch.Tensor
    assert first.is_contiguous()
    assert not first.requires_grad
    assert first.grad_fn is None
    assert first.is_leaf
    before = clone(second)
    first.requires_grad_()
    (first * 2).sum().backward()
    assert first.grad.tolist() == torch.full_like(first, 2).tolist()
    assert torch.cat([first.detach(), second]).shape == (8, 2, 3)
    assert first.detach().view(-1).shape == (24,)
    first.detach().numpy()[:] = 5
    assert first.unique().tolist() == [5]
    assert_same(second, before)


@BOTH
@WORKERS
def test_batches_can_be_copied_and_stored(loader_class: type, workers: int) -> None:
    def stored(batch: dict) -> dict:
        file = io.BytesIO()
        torch.save(batch, file)
        file.seek(0)
        return torch.load(file)

    for batch in loader_class(zoo.Made(zoo.nested_dict, 8), batch_size=4, num_workers=workers):
        before = clone(batch)
        duplicates = [copy.deepcopy(batch), pickle.loads(pickle.dumps(batch)), stored(batch)]
        batch["image"].zero_()
        for duplicate in duplicates:
            assert_same(duplicate, before)


@BOTH
@WORKERS
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_batches_can_be_sent_to_other_processes(loader_class: type, method: str, workers: int) -> None:
    context = torch.multiprocessing.get_context(method)
    there, back = context.Queue(), context.Queue()
    loader = loader_class(zoo.Made(zoo.ordered_dict, 8), batch_size=4, num_workers=workers)
    first, second = loader
    process = context.Process(target=zoo.double, args=(there, back), daemon=True)
    process.start()
    try:
        there.put(second)
        doubled = back.get(timeout=DEADLINE * 2)
        expected = {name: tensor * 2 for name, tensor in second.items()}
        assert_same(clone(doubled), expected)
        assert first["z"].tolist() == [0, 1, 2, 3]
    finally:
        there.put(None)
        process.join(DEADLINE)
        process.kill()


@BOTH
@WORKERS
def test_batches_can_be_moved_to_shared_memory(loader_class: type, workers: int) -> None:
    first, second = loader_class(zoo.Made(zoo.float32_tensor, 8), batch_size=4, num_workers=workers)
    before = clone(second)
    second.share_memory_()
    assert second.is_shared()
    first.fill_(3)
    assert_same(second, before)
