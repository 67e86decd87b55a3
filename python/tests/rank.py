"""One rank of a distributed run, which writes down the records that its loaders gave it.

    python -m torch.distributed.run --nproc-per-node 2 rank.py plain|lightning DIRECTORY

Each rank runs the reference and the subject one after the other and writes `DIRECTORY/{rank}.json`: for each run,
its batches of record numbers by epoch and stage, and what the run's loader was.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning
import torch
import torch.distributed
from conftest import SUBJECT_IS_TORCH, Loader
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, DistributedSampler

EPOCHS = 2
SEED = 11
RECORDS = 48
BATCH = 3


class Records(Dataset):
    """Record i is i with a feature to train on."""

    def __init__(self, n: int = RECORDS) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[int, torch.Tensor]:
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i, torch.tensor([i / self.n])


class Model(pytorch_lightning.LightningModule):
    """Trains one weight, and notes the records of each batch; `hooks` are its `*_dataloader` methods."""

    def __init__(self, **hooks: Callable[[], Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[tuple[str, int, list[int]]] = []
        for name, make in hooks.items():
            setattr(self, name, make)

    def training_step(self, batch: Any, position: int) -> torch.Tensor:
        """The loss of a batch."""
        return self._loss("train", batch)

    def validation_step(self, batch: Any, position: int) -> torch.Tensor:
        """The loss of a batch."""
        return self._loss("val", batch)

    def predict_step(self, batch: Any, position: int) -> list[int]:
        """The records of a batch."""
        return batch[0].tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The plainest."""
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def _loss(self, stage: str, batch: Any) -> torch.Tensor:
        numbers, features = batch
        stage = "sanity" if self.trainer.sanity_checking else stage
        self.seen.append((stage, self.current_epoch, numbers.tolist()))
        return (self.layer(features) - torch.rand(1)).square().mean()


def new_trainer(**options: Any) -> pytorch_lightning.Trainer:
    """A trainer that prints, logs and saves nothing."""
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    return pytorch_lightning.Trainer(**{"accelerator": "cpu", "max_epochs": EPOCHS, **quiet, **options})


def plain() -> dict[str, Any]:
    """A training loop as torch's manual has it."""
    torch.distributed.init_process_group("gloo")
    runs = {
        "reference": _loop(TorchLoader),
        "subject": _loop(Loader),
        "persistent": _loop(Loader, persistent_workers=True),
        "threads": _loop(Loader, **({} if SUBJECT_IS_TORCH else {"workers": "thread"})),
    }
    torch.distributed.destroy_process_group()
    return runs


def _loop(loader_class: type, **options: Any) -> dict[str, Any]:
    torch.manual_seed(SEED)
    records = Records()
    sampler: DistributedSampler = DistributedSampler(records, seed=SEED)
    loader = loader_class(records, batch_size=BATCH, sampler=sampler, num_workers=2, **options)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    seen = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for numbers, features in loader:
            seen.append(("train", epoch, numbers.tolist()))
            model(features).sum().backward()
    return {"seen": seen}


def lightning() -> dict[str, Any]:
    """Lightning's trainer, which puts its own sampler into loaders that were made without one."""
    return {
        "reference": _fit(TorchLoader, in_hooks=False),
        "subject": _fit(Loader, in_hooks=False),
        "hooks": _fit(Loader, in_hooks=True),
    }


def _fit(loader_class: type, in_hooks: bool) -> dict[str, Any]:
    def new_loader() -> Any:
        return loader_class(Records(), batch_size=BATCH, shuffle=True, num_workers=2)

    pytorch_lightning.seed_everything(SEED, workers=True, verbose=False)
    trainer = new_trainer(strategy="ddp", devices=2)
    if in_hooks:
        model = Model(train_dataloader=new_loader, val_dataloader=new_loader)
        trainer.fit(model)
    else:
        model = Model()
        trainer.fit(model, new_loader(), new_loader())
    train, val = trainer.train_dataloader, trainer.val_dataloaders
    return {
        "seen": model.seen,
        "distributed": [isinstance(loader.sampler, DistributedSampler) for loader in (train, val)],
        "same_class": [type(loader) is loader_class for loader in (train, val)],
        "weight": model.layer.weight.item(),
    }


if __name__ == "__main__":
    kind, directory = sys.argv[1:]
    runs = {"plain": plain, "lightning": lightning}[kind]()
    Path(directory, f"{os.environ['RANK']}.json").write_text(json.dumps(runs))
