"""Which loader the parity tests examine.

The suite builds everything twice: with torch's own loader, the reference, and with `Loader`, the subject. The
subject is `feedline.DataLoader`; with `FEEDLINE_PARITY_SUBJECT=torch` in the environment it is torch's loader
itself, which shows that a test asserts what torch really does.

What a test leaves behind is collected before the next one: torch's iterators, for one, wait for their workers when
they die, and that would happen in whatever thread of a later test looks for garbage.

A shell that starts the suite in the background has it ignore Ctrl-C, and every process it starts would inherit that:
so the interrupt is made to work first.

Properties are tried with the same examples each time, so that a change is what a failure means.
"""

import gc
import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest
import torch.utils.data

hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")
signal.signal(signal.SIGINT, signal.default_int_handler)

SUBJECT_IS_TORCH = os.environ.get("FEEDLINE_PARITY_SUBJECT", "feedline") == "torch"

if SUBJECT_IS_TORCH:
    Loader = torch.utils.data.DataLoader
else:
    from feedline import DataLoader as Loader

__all__ = ["SUBJECT_IS_TORCH", "Loader"]


def pytest_collection_finish() -> None:
    """What is imported by now stays: to look through it after every test would take too long."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_garbage_of_other_tests() -> Iterator[None]:
    yield
    gc.collect()
