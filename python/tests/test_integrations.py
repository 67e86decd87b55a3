"""Under trainers: Lightning, Accelerate, torchrun and subclasses of the user's.

Trainers do more with a loader than iterate: they build it anew from its attributes with a sampler of their own,
leave epochs early, set attributes, and look into its iterator to shut workers down. What training sees of that
must be what it sees with torch's loader. Record i is the number i, so batches can be compared by their records.
"""

# The names of the tests say the behaviour.

import copy
import faulthandler
import json
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import accelerate.data_loader
import accelerate.state
import lightning_fabric
import lightning_fabric.utilities.data
import pytest
import pytorch_lightning
import pytorch_lightning.utilities.data
import rank
import torch
from _pytest.faulthandler import fault_handler_stderr_fd_key
from accelerate.data_loader import prepare_data_loader, skip_first_batches
from compare import assert_same
from conftest import SUBJECT_IS_TORCH, Loader
from pytorch_lightning.callbacks import BasePredictionWriter, Callback
from rank import BATCH, EPOCHS, RECORDS, SEED, Model, Records, new_trainer
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import DistributedSampler, IterableDataset, get_worker_info

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings(
        "ignore:This DataLoader will create",
        "ignore:.*does not have many workers",
        "ignore:.*sampler has shuffling enabled",
        "ignore:.*enabled .* dataloader shuffling",
        "ignore:.*LeafSpec",
        "ignore:.*have no `val_dataloader`",
    ),
]

OF_FEEDLINE = pytest.mark.skipif(SUBJECT_IS_TORCH, reason="torch's own loader has no such arguments")

#: None of them the default.
OPTIONS = [{"workers": "thread"}, {"dispatch": "batch"}, {"rng": "torch"}, {"on_error": "skip"}]
EACH_OPTION = pytest.mark.parametrize("options", OPTIONS, ids=[next(iter(option)) for option in OPTIONS])


@pytest.fixture(autouse=True)
def _trainers_leave_no_trace(pytestconfig: pytest.Config) -> Iterator[None]:
    """Seeds in the environment, and states that all of a process share, end with the test."""
    before = dict(os.environ)
    yield
    # Lightning sets all signals back to what Python knows of them; a crash shall still say where it was.
    faulthandler.disable()
    faulthandler.enable(pytestconfig.stash[fault_handler_stderr_fd_key])
    os.environ.clear()
    os.environ.update(before)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


def new_loader(loader_class: type, dataset: Any = None, **options: Any) -> Any:
    options = {"batch_size": BATCH, "num_workers": 2, **options}
    return loader_class(dataset if dataset is not None else Records(), **options)


def records(loader: Any) -> list[list[int]]:
    return [batch[0].tolist() for batch in loader]


def flat(batches: list[list[int]]) -> list[int]:
    return [record for batch in batches for record in batch]


class Flawed(Records):
    """Some records cannot be read; the others say which process read them."""

    def __getitem__(self, i: int) -> tuple[int, int]:
        if i % 5 == 1:
            raise OSError(f"record {i} is broken")
        return i, os.getpid()


class Streamed(IterableDataset):
    """Records in a row, shared out among the workers."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return ((i, i) for i in range(first, RECORDS, step))


# --- Lightning ----------------------------------------------------------------------------------


def fit(
    loader_class: type, trainer_options: dict, seed_workers: bool = True, **options: Any
) -> tuple[Any, Model]:
    """Train as a user would, with shuffled loaders for training and validation."""
    pytorch_lightning.seed_everything(SEED, workers=seed_workers, verbose=False)
    trainer, model = new_trainer(**trainer_options), Model()
    train, val = (new_loader(loader_class, shuffle=True, **options) for _ in range(2))
    trainer.fit(model, train, val)
    return trainer, model


@pytest.mark.parametrize(
    ("options", "trainer_options"),
    [
        ({}, {}),
        ({"num_workers": 0}, {}),
        ({"persistent_workers": True}, {}),
        ({"persistent_workers": True}, {"limit_train_batches": 3, "limit_val_batches": 2}),
        ({}, {"max_steps": 5}),
        ({}, {"val_check_interval": 5}),
        ({}, {"overfit_batches": 4}),
        ({"drop_last": True, "batch_size": 5}, {"accumulate_grad_batches": 2}),
    ],
    ids=[
        "plain",
        "no workers",
        "persistent",
        "limited",
        "stopped",
        "checked often",
        "overfit",
        "accumulated",
    ],
)
def test_lightning_trains_on_torchs_batches(options: dict, trainer_options: dict) -> None:
    runs = []
    for loader_class in (Loader, TorchLoader):
        trainer, model = fit(loader_class, trainer_options, **options)
        assert type(trainer.train_dataloader) is type(trainer.val_dataloaders) is loader_class
        runs.append((model.seen, model.layer.weight.detach(), torch.get_rng_state()))
    assert_same(runs[0], runs[1])
    assert {stage for stage, _, _ in runs[0][0]} >= {"sanity", "train"}


@pytest.mark.parametrize("persistent", [False, True])
def test_lightning_ends_the_workers(persistent: bool) -> None:
    before = set(multiprocessing.active_children())
    trainer, _ = fit(Loader, {}, persistent_workers=persistent)
    assert trainer.state.finished
    assert set(multiprocessing.active_children()) <= before


@OF_FEEDLINE
@pytest.mark.parametrize("seed_workers", [False, True])
def test_lightning_trains_on_torchs_batches_from_threads(seed_workers: bool) -> None:
    # To seed workers Lightning gives loaders a `worker_init_fn`, which sets generators of the process it is in.
    runs = []
    for loader_class, options in ((Loader, {"workers": "thread"}), (TorchLoader, {})):
        _, model = fit(loader_class, {}, seed_workers, **options)
        runs.append((model.seen, model.layer.weight.detach(), torch.get_rng_state()))
    assert_same(runs[0], runs[1])


class Saver(Callback):
    """Saves a checkpoint after some batch."""

    def __init__(self, path: Path, after: int) -> None:
        self.path = path
        self.after = after

    def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:
        """Called with each batch."""
        if trainer.global_step == self.after:
            trainer.save_checkpoint(self.path)


class EpochSaver(Callback):
    """Saves a checkpoint after each epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        """Called after each epoch."""
        trainer.save_checkpoint(self.path / f"{trainer.current_epoch}.ckpt")


def trained_on(model: Model) -> list[list[int]]:
    return [batch for stage, _, batch in model.seen if stage == "train"]


def train(
    generator_seed: int, callbacks: list, checkpoint: Path | None, options: dict, **trainer_options: Any
) -> list[list[int]]:
    """Train with an order of the loader's own, from a checkpoint if there is one."""
    trainer, model = new_trainer(callbacks=callbacks, limit_val_batches=0, **trainer_options), Model()
    generator = torch.Generator().manual_seed(generator_seed)
    loader = new_loader(Loader, shuffle=True, generator=generator, **options)
    trainer.fit(model, loader, ckpt_path=checkpoint)
    return trained_on(model)


GOING_ON = pytest.mark.parametrize(
    "options",
    [{"num_workers": 0}, {}, {"persistent_workers": True}],
    ids=["no workers", "workers", "persistent"],
)


@OF_FEEDLINE
@GOING_ON
@pytest.mark.parametrize("after", [1, 5, 15, 21])
def test_lightning_goes_on_within_an_epoch(after: int, options: dict, tmp_path: Path) -> None:
    path = tmp_path / "within.ckpt"
    whole = train(SEED, [Saver(path, after)], None, options)
    assert len(whole) == EPOCHS * RECORDS // BATCH
    assert train(SEED + 1, [], path, options) == whole[after:]


@OF_FEEDLINE
@GOING_ON
def test_lightning_goes_on_after_an_epoch(options: dict, tmp_path: Path) -> None:
    # It does not load the state then: the next epoch is whole, in the order of the generator that it finds.
    train(SEED, [EpochSaver(tmp_path)], None, options)
    rest = train(SEED + 1, [], tmp_path / "0.ckpt", options)
    assert sorted(flat(rest)) == list(range(RECORDS))


@OF_FEEDLINE
@pytest.mark.parametrize("persistent", [False, True])
def test_lightning_goes_on_after_an_epoch_of_training_by_steps(persistent: bool, tmp_path: Path) -> None:
    # Of the epoch in the state nothing is left; the next one follows in the order it would have had. Not so without
    # workers: of a sampler that nobody reads ahead Lightning looks for the end only when it goes on, and a random
    # sampler draws at its end.
    by_steps, options = {"max_epochs": -1, "max_steps": 40}, {"persistent_workers": persistent}
    whole = train(SEED, [EpochSaver(tmp_path)], None, options, **by_steps)
    rest = train(SEED + 1, [], tmp_path / "0.ckpt", options, **by_steps)
    assert rest == whole[RECORDS // BATCH :]
    assert len(whole) == 40


class Writer(BasePredictionWriter):
    """Notes which records Lightning believes to be in a batch."""

    def __init__(self) -> None:
        super().__init__("batch")
        self.believed: list[list[int]] = []

    def write_on_batch_end(
        self, trainer: Any, module: Any, prediction: Any, indices: Any, *rest: Any
    ) -> None:
        """Called with each batch."""
        self.believed.append(list(indices))


@pytest.mark.parametrize("in_hook", [False, True], ids=["direct", "hook"])
def test_lightning_knows_the_records_of_predictions(in_hook: bool) -> None:
    # To know them it builds the loader anew, around a batch sampler that listens.
    def make() -> Any:
        return new_loader(Loader)

    writer = Writer()
    trainer = new_trainer(callbacks=[writer])
    model = Model(**({"predict_dataloader": make} if in_hook else {}))
    predicted = trainer.predict(model, None if in_hook else make())
    assert type(trainer.predict_dataloaders) is Loader
    assert predicted == writer.believed == records(new_loader(TorchLoader))


def rebuilders() -> list:
    """Lightning's functions that build a loader anew with another sampler."""
    return [
        pytest.param(pytorch_lightning.utilities.data._update_dataloader, id="trainer"),
        pytest.param(lightning_fabric.utilities.data._update_dataloader, id="fabric"),
    ]


REBUILDERS = pytest.mark.parametrize("rebuild", rebuilders())


@REBUILDERS
@pytest.mark.parametrize("shard", [0, 1])
def test_lightning_builds_a_loader_anew_with_its_own_sampler(rebuild: Callable, shard: int) -> None:
    rebuilt = []
    for loader_class in (Loader, TorchLoader):
        loader = new_loader(loader_class, shuffle=True, drop_last=True, timeout=60)
        sampler = DistributedSampler(loader.dataset, num_replicas=2, rank=shard, seed=SEED)
        rebuilt.append(rebuild(loader, sampler))
    subject, reference = rebuilt
    assert type(subject) is Loader
    assert records(subject) == records(reference)
    for name in (
        "batch_size",
        "num_workers",
        "drop_last",
        "timeout",
        "prefetch_factor",
        "persistent_workers",
    ):
        assert getattr(subject, name) == getattr(reference, name), name


def made_in_a_hook(make: Callable[[], Any]) -> Any:
    """A loader as Lightning gets it from a `*_dataloader` method, where it notes the arguments."""
    with lightning_fabric.utilities.data._replace_dunder_methods(TorchLoader, "dataset"):
        return make()


def made_outside(make: Callable[[], Any]) -> Any:
    """A loader as Lightning gets it from an argument of `fit`: all it knows are its attributes."""
    return make()


MADE = pytest.mark.parametrize("made", [made_in_a_hook, made_outside])


@OF_FEEDLINE
@MADE
@REBUILDERS
@EACH_OPTION
def test_options_survive_being_built_anew(options: dict, rebuild: Callable, made: Callable) -> None:
    loader = made(lambda: new_loader(Loader, **options))
    rebuilt = rebuild(loader, DistributedSampler(loader.dataset, num_replicas=2, rank=0))
    (name,) = options
    assert getattr(rebuilt._options, name) == getattr(loader._options, name) == options[name]


@OF_FEEDLINE
@REBUILDERS
@MADE
@pytest.mark.parametrize("options", [{}, {"prefetch_factor": 2}], ids=["default", "asked"])
def test_the_window_survives_being_built_anew(options: dict, rebuild: Callable, made: Callable) -> None:
    loader = made(lambda: new_loader(Loader, **options))
    rebuilt = rebuild(loader, DistributedSampler(loader.dataset, num_replicas=2, rank=0))
    assert rebuilt.prefetch_factor == loader.prefetch_factor
    assert rebuilt._options.strict_window == loader._options.strict_window


@OF_FEEDLINE
@pytest.mark.parametrize("in_hook", [False, True], ids=["direct", "hook"])
def test_options_take_effect_in_a_loader_that_lightning_built(in_hook: bool) -> None:
    def make() -> Any:
        return new_loader(Loader, Flawed(), workers="thread", on_error="skip")

    trainer = new_trainer()
    model = Model(**({"predict_dataloader": make} if in_hook else {}))
    model.predict_step = lambda batch: batch  # type: ignore[method-assign, assignment]
    batches = trainer.predict(model, None if in_hook else make())
    assert flat(records(batches)) == [i for i in range(RECORDS) if i % 5 != 1]
    assert {pid for _, pids in batches for pid in pids.tolist()} == {os.getpid()}


@pytest.mark.parametrize("workers", [0, 2])
def test_fabric_gives_torchs_batches(workers: int) -> None:
    epochs = []
    for loader_class in (Loader, TorchLoader):
        lightning_fabric.seed_everything(SEED, workers=True, verbose=False)
        fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
        loader = fabric.setup_dataloaders(new_loader(loader_class, shuffle=True, num_workers=workers))
        epochs.append([records(loader) for _ in range(EPOCHS)] + [torch.get_rng_state()])
    assert_same(epochs[0], epochs[1])


# --- Accelerate ---------------------------------------------------------------------------------


@pytest.fixture(params=["as it is", "rebound"])
def prepared_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """The class that Accelerate builds loaders of: torch's, or the subject, where its name is bound to that."""
    if request.param == "as it is":
        return TorchLoader
    monkeypatch.setattr(accelerate.data_loader, "DataLoader", Loader)
    return Loader


@contextmanager
def reference_only() -> Iterator[None]:
    """Accelerate builds loaders of torch's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerate.data_loader, "DataLoader", TorchLoader)
        yield


def test_accelerate_builds_the_class_that_its_name_is_bound_to(prepared_class: type) -> None:
    # Whatever it is given. So without the rebinding there is nothing of Feedline in a prepared loader.
    prepared = accelerate.Accelerator(cpu=True).prepare(new_loader(Loader))
    assert type(prepared) is accelerate.data_loader.DataLoaderShard
    assert type(prepared.base_dataloader) is prepared_class
    assert isinstance(prepared, prepared_class)
    assert type(skip_first_batches(prepared, 1).base_dataloader) is prepared_class
    assert type(skip_first_batches(new_loader(Loader), 1)) is prepared_class


@pytest.mark.parametrize("options", [{"num_workers": 0}, {}, {"persistent_workers": True}], ids=str)
def test_accelerate_gives_torchs_batches(options: dict, prepared_class: type) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    epochs = []
    for loader_class in (Loader, TorchLoader):
        accelerate.utils.set_seed(SEED)
        with reference_only() if loader_class is TorchLoader else nullcontext():
            prepared = accelerator.prepare(new_loader(loader_class, shuffle=True, **options))
        ends = [(batch[0].tolist(), prepared.end_of_dataloader) for _ in range(EPOCHS) for batch in prepared]
        epochs.append([ends, len(prepared), prepared.total_batch_size, torch.get_rng_state()])
    assert_same(epochs[0], epochs[1])
    assert [number for number, (_, is_end) in enumerate(epochs[0][0], 1) if is_end] == [16, 32]


@pytest.mark.parametrize("split_batches", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"shuffle": True}, {"drop_last": True}, {"dataset": Streamed()}],
    ids=["map", "drop", "stream"],
)
def test_accelerate_gives_each_process_torchs_shard(
    options: dict, split_batches: bool, prepared_class: type
) -> None:
    # 48 records are not a whole number of batches of 10, for two processes.
    def shards(loader_class: type) -> list:
        found = []
        for process in (0, 1):
            torch.manual_seed(SEED)
            prepared = prepare_data_loader(
                new_loader(loader_class, batch_size=10, **options),
                num_processes=2,
                process_index=process,
                put_on_device=False,
                split_batches=split_batches,
                dispatch_batches=False,
            )
            assert type(prepared.base_dataloader) is accelerate.data_loader.DataLoader
            found.append([records(prepared) for _ in range(EPOCHS)])
        return found

    subject = shards(Loader)
    with reference_only():
        assert subject == shards(TorchLoader)
    if "drop_last" not in options:
        for epoch in range(EPOCHS):
            assert {i for shard in subject for batch in shard[epoch] for i in batch} == set(range(RECORDS))


@pytest.mark.parametrize("skipped", [0, 3, 16])
@pytest.mark.parametrize("dataset", [Records(), Streamed()], ids=["map", "stream"])
def test_accelerate_skips_the_first_batches(dataset: Any, skipped: int, prepared_class: type) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    expected = records(new_loader(TorchLoader, dataset))[skipped:]
    loader = new_loader(Loader, dataset)
    assert records(skip_first_batches(loader, skipped)) == expected
    assert records(skip_first_batches(accelerator.prepare(loader), skipped)) == expected


@OF_FEEDLINE
@pytest.mark.parametrize("prepared_class", ["rebound"], indirect=True)
@pytest.mark.parametrize("dataset", [Records(), Streamed()], ids=["map", "stream"])
def test_a_prepared_loader_goes_on_within_an_epoch(dataset: Any, prepared_class: type) -> None:
    # Accelerate takes the state before each batch, adds an entry of its own and gives it back as it is.
    accelerator = accelerate.Accelerator(cpu=True)
    prepared = accelerator.prepare(new_loader(Loader, dataset))
    batches = iter(prepared)
    begun = [next(batches) for _ in range(5)]
    state = copy.deepcopy(prepared.state_dict())
    other = accelerator.prepare(new_loader(Loader, dataset))
    other.load_state_dict(state)
    assert records(begun) + records(other) == records(begun + list(batches))


@OF_FEEDLINE
def test_a_prepared_loader_can_be_given_a_loader_with_options() -> None:
    prepared = accelerate.Accelerator(cpu=True).prepare(new_loader(Loader, Flawed()))
    options = {"num_workers": 2, "workers": "thread", "on_error": "skip"}
    prepared.base_dataloader = Loader(prepared.dataset, batch_sampler=prepared.batch_sampler, **options)
    batches = list(prepared)
    assert flat(records(batches)) == [i for i in range(RECORDS) if i % 5 != 1]
    assert {pid for _, pids in batches for pid in pids.tolist()} == {os.getpid()}


# --- torchrun -----------------------------------------------------------------------------------


def run_ranks(kind: str, directory: Path) -> list[dict[str, Any]]:
    """What the two ranks of a run wrote down."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(port), rank.__file__, kind, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads((directory / f"{number}.json").read_text()) for number in (0, 1)]


def assert_shards(ranks: list[dict[str, Any]], run: str) -> None:
    """Each epoch of a stage gives every record to exactly one rank, in the reference's batches."""
    for one in ranks:
        assert one[run]["seen"] == one["reference"]["seen"]
    for stage in {stage for stage, _, _ in ranks[0][run]["seen"]} - {"sanity"}:
        orders = []
        for epoch in range(EPOCHS):
            shards = [
                [i for name, when, batch in one[run]["seen"] if (name, when) == (stage, epoch) for i in batch]
                for one in ranks
            ]
            assert sorted(shards[0] + shards[1]) == list(range(RECORDS))
            orders.append(shards)
        assert orders[0] != orders[1]


def test_ranks_of_torchrun_get_torchs_shards(tmp_path: Path) -> None:
    ranks = run_ranks("plain", tmp_path)
    for run in ("subject", "persistent", "threads"):
        assert_shards(ranks, run)


def test_ranks_of_lightning_get_torchs_shards(tmp_path: Path) -> None:
    ranks = run_ranks("lightning", tmp_path)
    for run in ("subject", "hooks"):
        assert_shards(ranks, run)
        for one in ranks:
            assert one[run]["distributed"] == one[run]["same_class"] == [True, True]
            assert one[run]["weight"] == ranks[0]["reference"]["weight"]


# --- subclasses and copies ----------------------------------------------------------------------


class Tagged(Loader):  # type: ignore[misc, valid-type]
    """A loader of the user's, with an argument and attributes of its own, as trainers of models have them."""

    def __init__(self, *args: Any, tag: str = "none", **kwargs: Any) -> None:
        self.tag = tag
        super().__init__(*args, **kwargs)
        self.epochs = 0

    def __iter__(self) -> Any:
        """Counts epochs."""
        self.epochs += 1
        return super().__iter__()


def copied(loader: Any) -> Any:
    return copy.copy(loader)


def copied_deeply(loader: Any) -> Any:
    return copy.deepcopy(loader)


def pickled(loader: Any) -> Any:
    return pickle.loads(pickle.dumps(loader))


COPIES = pytest.mark.parametrize("copy_of", [copied, copied_deeply, pickled])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_subclass_gives_torchs_batches_and_keeps_its_attributes(workers: int) -> None:
    torch.manual_seed(SEED)
    loader = new_loader(Tagged, shuffle=True, num_workers=workers, tag="mine")
    subject = [records(loader) for _ in range(EPOCHS)]
    torch.manual_seed(SEED)
    reference = new_loader(TorchLoader, shuffle=True, num_workers=workers)
    assert subject == [records(reference) for _ in range(EPOCHS)]
    assert (loader.tag, loader.epochs) == ("mine", EPOCHS)
    with pytest.raises(
        ValueError, match="batch_size attribute should not be set after Tagged is initialized"
    ):
        loader.batch_size = 7


@REBUILDERS
@MADE
def test_lightning_builds_a_subclass_anew(made: Callable, rebuild: Callable) -> None:
    loader = made(lambda: new_loader(Tagged, tag="mine"))
    rebuilt = rebuild(loader, DistributedSampler(loader.dataset, num_replicas=2, rank=1, shuffle=False))
    assert type(rebuilt) is Tagged
    assert rebuilt.tag == "mine"
    assert flat(records(rebuilt)) == list(range(1, RECORDS, 2))


# Torch's own loader cannot be copied, or not well, while it has an iterator for all epochs.
@COPIES
@pytest.mark.parametrize("persistent", [False, pytest.param(True, marks=OF_FEEDLINE)])
def test_a_copy_gives_the_same_batches(copy_of: Callable, persistent: bool) -> None:
    options = {"persistent_workers": persistent, "shuffle": True}
    loader = new_loader(Tagged, tag="mine", generator=torch.Generator().manual_seed(SEED), **options)
    records(loader)  # what an epoch leaves behind in the loader is not in the way
    twin = copy_of(loader)
    assert type(twin) is Tagged
    assert (twin.tag, twin.epochs) == ("mine", 1)
    reference = new_loader(TorchLoader, generator=loader.generator.clone_state(), **options)
    expected = [records(reference) for _ in range(EPOCHS)]
    assert [records(twin) for _ in range(EPOCHS)] == expected
    assert (twin.epochs, loader.epochs) == (1 + EPOCHS, 1)


@COPIES
def test_a_copy_made_during_an_epoch_leaves_it_alone(copy_of: Callable) -> None:
    loader = new_loader(Tagged, persistent_workers=not SUBJECT_IS_TORCH)
    batches = iter(loader)
    begun = [next(batches)]
    twin = copy_of(loader)
    assert records(twin) == records(begun + list(batches)) == records(new_loader(TorchLoader))


@OF_FEEDLINE
@COPIES
@EACH_OPTION
def test_a_copy_keeps_the_options(options: dict, copy_of: Callable) -> None:
    loader = new_loader(Tagged, **options)
    assert copy_of(loader)._options == loader._options


@OF_FEEDLINE
@COPIES
def test_a_copy_counts_failures_of_its_own(copy_of: Callable) -> None:
    loader = new_loader(Loader, Flawed(), on_error="skip")
    twin = copy_of(loader)
    records(twin)
    assert len(twin.failures()) == sum(i % 5 == 1 for i in range(RECORDS))
    assert loader.failures() == []
