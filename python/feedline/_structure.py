"""The structure of samples: what ``default_collate`` would make of them, without making it.

A sample of plain structure (numbers, tensors, arrays and strings in tuples, lists, dicts and named tuples) can be
written row by row into the columns of a batch, by whichever worker has it. The tree that describes the
structure is what workers publish and the consumer builds the batch from. Anything else has no tree, and its
batches are collated in one place by ``default_collate`` itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.utils.data import Subset
from torch.utils.data._utils import collate as torch_collate

from feedline._engine import Collected, Columns, Commons, FileRows, Hold

try:
    import numpy as np
except ImportError:  # torch works without it, and so do we
    np = None  # type: ignore[assignment]

Tree = tuple[Any, ...]
Batch = Any

#: The types ``default_collate`` knows by itself. A user who adds to them may have any opinion on any of ours.
_KNOWN = dict(torch_collate.default_collate_fn_map)

_TENSOR_DTYPES = {
    torch.bool,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
}


_NUMPY_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def _torch_dtype_of(dtype: Any) -> torch.dtype | None:
    """The dtype of the tensor that torch makes of an array, if it makes one."""
    if dtype.kind not in "biufc" or not dtype.isnative:
        return None
    return _numpy_dtypes().get(dtype.newbyteorder("="))


@lru_cache(maxsize=1)
def _numpy_dtypes() -> dict[Any, torch.dtype]:
    pairs = {}
    for name in _NUMPY_NAMES:
        try:
            pairs[np.dtype(name)] = torch.as_tensor(np.zeros(1, name)).dtype
        except TypeError:  # one that this torch does not know
            continue
    return pairs


def gives_batches(dataset: Any) -> bool:
    """Whether a dataset has its own way to load the samples of a batch."""
    while type(dataset) is Subset:
        dataset = dataset.dataset  # whose way it takes, if there is one
    return bool(getattr(dataset, "__getitems__", None))


def collates_by_default(collate_fn: Any) -> bool:
    """Whether batches are made by ``default_collate`` as it came."""
    return collate_fn is torch_collate.default_collate and torch_collate.default_collate_fn_map == _KNOWN


def describe(sample: Any) -> bytes | None:
    """The structure of a sample, to be published; ``None`` if it has none that rows can be made of."""
    tree = _describe(sample)
    if tree is None:
        return None
    try:
        return pickle.dumps((tree, _side(tree, sample)))
    except Exception:  # a key or a class that cannot be pickled
        return None


def _describe(value: Any) -> Tree | None:
    kind = type(value)
    if kind is int:
        return ("int",)
    if kind is float:
        return ("float",)
    if kind is bool:
        return ("bool",)
    if kind is str or kind is bytes:
        return ("object", kind)
    if kind is torch.Tensor:
        return _describe_tensor(value)
    if np is not None and kind is np.ndarray:
        if not has_tensor_dtype(value):
            return None
        return ("array", kind, value.dtype, value.shape, value.nbytes)
    if np is not None and isinstance(value, np.generic):
        if _torch_dtype_of(value.dtype) is None:
            return None
        return ("scalar", kind, value.dtype.itemsize)
    if kind is dict:
        children = _describe_all(value.values())
        return children and ("dict", tuple(value), children[0])
    if kind is tuple or kind is list:
        children = _describe_all(value)
        return children and (kind.__name__, children[0])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        children = _describe_all(value)
        return children and ("named", kind, children[0])
    return None


def _describe_all(values: Any) -> tuple[tuple[Tree, ...]] | None:
    """Wrapped once more, because there may be none, which is a structure too."""
    trees = [_describe(value) for value in values]
    return None if None in trees else (tuple(tree for tree in trees if tree is not None),)


def is_plain_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor is nothing but numbers in memory."""
    return (
        tensor.layout is torch.strided
        and tensor.is_cpu
        and not tensor.requires_grad
        and tensor.dtype in _TENSOR_DTYPES
        and not tensor.is_neg()
        and not tensor.is_nested
    )


def has_tensor_dtype(array: Any) -> bool:
    """Whether torch makes a tensor of an array."""
    return _torch_dtype_of(array.dtype) is not None


def _describe_tensor(tensor: torch.Tensor) -> Tree | None:
    if not is_plain_tensor(tensor):
        return None
    return (
        "tensor",
        torch.Tensor,
        tensor.dtype,
        tensor.layout,
        tensor.shape,
        tensor.numel() * tensor.itemsize,
    )


def _side(tree: Tree, sample: Any) -> int:
    """Bytes per row to keep for what does not go into columns: twice what this sample needs, and some more."""
    needed = _object_bytes(tree, sample)
    return 0 if needed == 0 else -(-(2 * needed + 48) // 8) * 8


def _object_bytes(tree: Tree, value: Any) -> int:
    match tree[0]:
        case "object":
            return len(value) + 16
        case "tuple" | "list" | "named":
            return sum(_object_bytes(child, part) for child, part in zip(tree[-1], value, strict=True))
        case "dict":
            return sum(
                _object_bytes(child, part) for child, part in zip(tree[2], value.values(), strict=True)
            )
    return 0


#: Tensors smaller than this are stacked by torch, where that needs no memory of others: it takes longer to look at
#: one from outside than to copy it.
SMALL = 32 << 10


def _with_small_tensors_aside(tree: Tree) -> Tree:
    match tree[0]:
        case "tensor" if tree[5] < SMALL:
            return ("stacked", torch.Tensor)
        case "tuple" | "list":
            return (tree[0], tuple(map(_with_small_tensors_aside, tree[1])))
        case "named" | "dict":
            return (*tree[:2], tuple(map(_with_small_tensors_aside, tree[2])))
    return tree


def _for_columns(tree: Tree) -> Tree:
    """What is stacked later is kept beside the columns, as strings are."""
    match tree[0]:
        case "stacked":
            return ("object", tree[1])
        case "tuple" | "list":
            return (tree[0], tuple(map(_for_columns, tree[1])))
        case "named" | "dict":
            return (*tree[:2], tuple(map(_for_columns, tree[2])))
    return tree


class Structure:
    """A described structure: how rows are written, and how a batch is built from them."""

    def __init__(self, described: bytes, local: bool = False) -> None:
        self.described = described
        self.tree, side = pickle.loads(described)
        if local:
            self.tree, side = _with_small_tensors_aside(self.tree), 0
        self.columns = Columns(_for_columns(self.tree), side)
        self._offsets: dict[int, list[int]] = {}
        counter = _Counter()
        self.assemble = _builder(self.tree, counter)
        #: How many leaves are kept beside the columns.
        self.objects = counter.objects

    def offsets(self, rows: int) -> list[int]:
        """Where the columns of a batch of so many rows begin, where its side does, and where it ends."""
        offsets = self._offsets.get(rows)
        if offsets is None:
            offsets = self._offsets[rows] = self.columns.offsets(rows)
        return offsets

    def bytes(self, rows: int) -> int:
        """The memory that a batch of so many rows takes."""
        return self.offsets(rows)[-1]

    def build(
        self,
        collected: Collected,
        rows: int,
        notes: list[tuple[int, list[list[Any]], list[Any]]],
        keep: list[int] | None = None,
    ) -> Batch:
        """The batch that ``default_collate`` would have made of the rows; only of those in `keep`, if given."""
        objects: list[list[Any]] = [[None] * rows for _ in range(self.objects)]
        for first, lists, _ in notes:
            for leaf, values in zip(objects, lists, strict=False):
                leaf[first : first + len(values)] = values
        if keep is not None:
            objects = [[values[row] for row in keep] for values in objects]
        return self.assemble(collected.hold, self.offsets(rows), rows, objects, keep, 0)

    def read(self, hold: Hold, rows: int, objects: list[list[Any]], row: int) -> Any:
        """A sample as it was before it was written."""
        return _reader(self.tree, _Counter())(hold, self.offsets(rows), row, objects)


class Stack:
    """Batches as ``default_collate`` makes them, one sample after the other, in memory that is used again."""

    def __init__(self) -> None:
        self._commons = Commons.private()
        self._structure: Structure | None = None
        # How often samples had no structure, or another one than those before.
        self._odd = 0

    def batch(self, get: Callable[[Any], Any], indices: list[Any]) -> Batch:
        """The batch of these samples, and torch's errors."""
        if self._odd >= 3:
            return torch_collate.default_collate([get(index) for index in indices])
        first = None
        if self._structure is None:
            first = get(indices[0])
            if (described := describe(first)) is None:
                self._odd += 1
                return torch_collate.default_collate([first, *[get(index) for index in indices[1:]]])
            self._structure = Structure(described, local=True)
        structure, rows = self._structure, len(indices)
        hold, objects, odd = structure.columns.stack(self._commons, get, indices, first)
        if odd is None:
            return structure.assemble(hold, structure.offsets(rows), rows, objects, None, 0)
        # The next batch may follow a new structure.
        self._structure, self._odd = None, self._odd + 1
        written, sample = odd
        samples = [structure.read(hold, rows, objects, row) for row in range(written)]
        samples += [sample, *[get(index) for index in indices[written + 1 :]]]
        return torch_collate.default_collate(samples)

    def native(
        self, files: FileRows, prototype: Any, indices: list[int], address: tuple[int, int]
    ) -> Batch | None:
        """The batch of these files, if all can be made without Python. Samples are like the prototype."""
        if self._structure is None:
            described = describe(prototype)
            assert described is not None, "files have numbers that torch has"
            self._structure = Structure(described, local=True)
        structure, rows = self._structure, len(indices)
        hold = structure.columns.stack_files(self._commons, files, indices, address)
        return None if hold is None else structure.assemble(hold, structure.offsets(rows), rows, [], None, 0)


class _Counter:
    """Numbers the leaves in the order in which the rows are written."""

    def __init__(self) -> None:
        self.columns = 0
        self.objects = 0

    def column(self) -> int:
        self.columns += 1
        return self.columns - 1

    def object(self) -> int:
        self.objects += 1
        return self.objects - 1


#: Of memory with columns at these offsets: so many rows, with these objects, only those to be kept, from a row on.
Build = Callable[[Hold | None, list[int], int, list[list[Any]], list[int] | None, int], Batch]


def _builder(tree: Tree, counter: _Counter, objects_as: type = list) -> Build:
    """How a node of the batch is built. Strings stay what they were collected into: a tuple or a list."""
    match tree[0]:
        case "int":
            return _numbers(torch.int64, counter.column())
        case "float":
            return _numbers(torch.float64, counter.column())
        case "bool":
            return _numbers(torch.bool, counter.column())
        case "scalar":
            return _numbers(_numpy_dtypes()[np.dtype(tree[1])], counter.column())
        case "tensor":
            return _tensors(tree[2], tuple(tree[4]), counter.column())
        case "array":
            return _tensors(_numpy_dtypes()[tree[2]], tree[3], counter.column())
        case "object":
            place = counter.object()
            return lambda hold, offsets, rows, objects, keep, first: objects_as(objects[place])
        case "stacked":
            place = counter.object()
            return lambda hold, offsets, rows, objects, keep, first: torch.stack(objects[place], 0)
        case "tuple" | "list":
            children = [_builder(child, counter, tuple) for child in tree[1]]
            return lambda *batch: [child(*batch) for child in children]
        case "named":
            cls, children = tree[1], [_builder(child, counter, tuple) for child in tree[2]]
            return lambda *batch: cls(*(child(*batch) for child in children))
        case "dict":
            fields = [(key, _builder(child, counter)) for key, child in zip(tree[1], tree[2], strict=True)]
            return lambda *batch: {key: child(*batch) for key, child in fields}
    raise AssertionError(f"no structure has a node {tree[0]!r}")


def _numbers(dtype: torch.dtype, column: int) -> Build:
    width = dtype.itemsize

    def build(
        hold: Any, offsets: list[int], rows: int, objects: Any, keep: list[int] | None, first: int
    ) -> torch.Tensor:
        numbers = torch.frombuffer(hold, dtype=dtype, count=rows, offset=offsets[column] + first * width)
        return numbers if keep is None else numbers[keep]

    return build


def _tensors(dtype: torch.dtype, shape: tuple[int, ...], column: int) -> Build:
    size = 1
    for extent in shape:
        size *= extent
    width = size * dtype.itemsize

    def build(
        hold: Any, offsets: list[int], rows: int, objects: Any, keep: list[int] | None, first: int
    ) -> torch.Tensor:
        if size == 0:
            return torch.empty((rows if keep is None else len(keep), *shape), dtype=dtype)
        place = offsets[column] + first * width
        flat = torch.frombuffer(hold, dtype=dtype, count=rows * size, offset=place)
        tensor = flat.view(rows, *shape)
        return tensor if keep is None else tensor[keep]

    return build


Read = Callable[[Hold, list[int], int, list[list[Any]]], Any]


def _reader(tree: Tree, counter: _Counter) -> Read:
    """How a node of a sample is read back from its row."""
    match tree[0]:
        case "int" | "float" | "bool":
            column, dtype = counter.column(), {"int": torch.int64, "float": torch.float64, "bool": torch.bool}
            numbers = _numbers(dtype[tree[0]], column)
            return lambda hold, offsets, row, _: numbers(hold, offsets, 1, [], None, row)[0].item()
        case "scalar":
            numbers = _numbers(_numpy_dtypes()[np.dtype(tree[1])], counter.column())
            return lambda hold, offsets, row, _: numbers(hold, offsets, 1, [], None, row).numpy()[0]
        case "tensor":
            tensors = _tensors(tree[2], tuple(tree[4]), counter.column())
            return lambda hold, offsets, row, _: tensors(hold, offsets, 1, [], None, row)[0]
        case "array":
            tensors = _tensors(_numpy_dtypes()[tree[2]], tree[3], counter.column())
            return lambda hold, offsets, row, _: tensors(hold, offsets, 1, [], None, row)[0].numpy()
        case "object" | "stacked":
            place = counter.object()
            return lambda hold, offsets, row, objects: objects[place][row]
        case "tuple" | "list" | "named":
            cls = {"tuple": tuple, "list": list}.get(tree[0]) or tree[1]._make
            children = [_reader(child, counter) for child in tree[-1]]
            return lambda *row: cls(child(*row) for child in children)
        case "dict":
            fields = [(key, _reader(child, counter)) for key, child in zip(tree[1], tree[2], strict=True)]
            return lambda *row: {key: child(*row) for key, child in fields}
    raise AssertionError(f"no structure has a node {tree[0]!r}")
