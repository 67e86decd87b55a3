"""A training loop that can be stopped at any batch and goes on where it was.

    python examples/python/training_loop.py --stop-after 7
    python examples/python/training_loop.py

The second command trains on exactly the batches that the first did not see.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from feedline import DataLoader
from torch import nn


class Spirals(torch.utils.data.Dataset):
    """Points of two spirals, with some noise that differs from epoch to epoch."""

    def __len__(self) -> int:
        """How many there are."""
        return 1000

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        """A point and the spiral it is of."""
        angle, label = torch.tensor(i / 80), i % 2
        sign = 1.0 if label else -1.0
        point = sign * angle * torch.stack([torch.cos(angle), torch.sin(angle)])
        return point + 0.1 * torch.randn(2), label


def main() -> None:
    """Train, saving after every batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stop-after", type=int, default=None, help="end after so many batches")
    parser.add_argument("--checkpoint", type=Path, default=Path("target/training_loop.json"))
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(Spirals(), batch_size=64, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    epoch = steps = 0
    if arguments.checkpoint.exists():
        saved = json.loads(arguments.checkpoint.read_text())
        loader.load_state_dict(saved["loader"])
        model.load_state_dict({name: torch.tensor(value) for name, value in saved["model"].items()})
        epoch = saved["epoch"]
        print(f"going on in epoch {epoch}")

    while epoch < arguments.epochs:
        for points, labels in loader:
            loss = nn.functional.cross_entropy(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            weights = {name: value.tolist() for name, value in model.state_dict().items()}
            state = {"loader": loader.state_dict(), "model": weights, "epoch": epoch}
            arguments.checkpoint.parent.mkdir(parents=True, exist_ok=True)
            arguments.checkpoint.write_text(json.dumps(state))
            if steps == arguments.stop_after:
                print(f"stopped after {steps} batches, loss {loss.item():.3f}")
                return
        epoch += 1
    arguments.checkpoint.unlink(missing_ok=True)
    print(f"trained {steps} batches, loss {loss.item():.3f}")
    print(loader.explain())


if __name__ == "__main__":
    main()
