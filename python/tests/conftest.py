"""Which loader the parity tests examine.

The suite builds everything twice: with torch's own loader, the reference, and with `Loader`, the subject. The
subject is `feedline.DataLoader`; with `FEEDLINE_PARITY_SUBJECT=torch` in the environment it is torch's loader
itself, which shows that a test asserts what torch really does.
"""

import os

import torch.utils.data

SUBJECT_IS_TORCH = os.environ.get("FEEDLINE_PARITY_SUBJECT", "feedline") == "torch"

if SUBJECT_IS_TORCH:
    Loader = torch.utils.data.DataLoader
else:
    from feedline import DataLoader as Loader

__all__ = ["SUBJECT_IS_TORCH", "Loader"]
