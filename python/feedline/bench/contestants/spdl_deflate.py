"""SPDL with the fastest unpacking that Python has: libdeflate, without the GIL, and a header read by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from feedline.bench.contestants import spdl
from feedline.bench.data.volumes import PARTS, TYPES
from feedline.bench.request import BadRequestError, Request
from feedline.bench.studies import Prepared, Repeated
from feedline.bench.studies.volumes import Reading

LABEL = "SPDL, libdeflate"
PACKAGES = ["deflate", "spdl"]
STUDIES = ["volumes"]
WORKERS = "threads"


class Unpacked(Reading):
    """Patients: their four files, unpacked by libdeflate."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        folder = Path(self.folders[index])
        return {part: volume(folder / f"{part}.nrrd") for part in PARTS}


def volume(path: Path) -> Any:
    """The numbers of a file with an attached header, as the study writes them."""
    import deflate
    import numpy as np
    import torch

    head, packed = path.read_bytes().split(b"\n\n", 1)
    fields = dict(line.split(": ", 1) for line in head.decode().splitlines()[1:])
    shape = [int(extent) for extent in reversed(fields["sizes"].split())]
    dtype = next(np.dtype(name) for name, theirs in TYPES.items() if theirs == fields["type"])
    data = deflate.gzip_decompress(packed, int(np.prod(shape)) * dtype.itemsize)
    return torch.from_numpy(np.frombuffer(data, dtype).reshape(shape))


def open(prepared: Prepared, request: Request) -> Callable[[], Iterable[Any]]:
    """As SPDL."""
    if prepared.variant != "read":
        raise BadRequestError("libdeflate unpacks files; try the variant read")
    dataset: Any = Unpacked(prepared.paths)
    if isinstance(prepared.dataset, Repeated):
        repeated = copy(prepared.dataset)
        repeated.dataset = dataset
        dataset = repeated
    return spdl.open(replace(prepared, dataset=dataset), request)
