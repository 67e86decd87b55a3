"""The datasets, samples and samplers the parity tests load.

All of it is at module level, so that it pickles under `spawn`, and repeatable: sample i is a function of i
alone unless the docstring says otherwise.
"""

# The names of the methods are those of the protocols; what is special stands at the class.

import enum
import multiprocessing
import os
import random
import threading
import time
from collections import OrderedDict, UserDict, UserList, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Made(Dataset):
    """`n` samples, each made by a function of its index."""

    def __init__(self, make: Callable[[int], Any], n: int = 24) -> None:
        self.make = make
        self.n = n

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < self.n:
            raise IndexError(f"no sample {i}")
        return self.make(i)

    def __len__(self) -> int:
        return self.n


# --- samples --------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A typed namedtuple."""

    x: torch.Tensor
    label: int


Pair = namedtuple("Pair", ["left", "right"])


class Frozen(Mapping):
    """An immutable mapping that can be built from a dict."""

    def __init__(self, items: dict) -> None:
        self.items_ = dict(items)

    def __getitem__(self, key: Any) -> Any:
        return self.items_[key]

    def __iter__(self) -> Iterator:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)


class Stubborn(Mapping):
    """An immutable mapping that cannot be built from a dict: collation falls back to a plain dict."""

    def __init__(self, first: int, second: int) -> None:
        self.pair = (first, second)

    def __getitem__(self, key: str) -> int:
        return self.pair[("first", "second").index(key)]

    def __iter__(self) -> Iterator:
        return iter(("first", "second"))

    def __len__(self) -> int:
        return 2


class Labelled(UserDict):
    """A mutable mapping with an attribute beside its items; the first sample's survives collation."""

    def __init__(self, items: Any = None, origin: str = "nowhere") -> None:
        super().__init__(items)
        self.origin = origin


class Triple(Sequence):
    """An immutable sequence that can be built from a list."""

    def __init__(self, elements: Sequence) -> None:
        self.elements = list(elements)

    def __getitem__(self, i: int) -> Any:
        return self.elements[i]

    def __len__(self) -> int:
        return len(self.elements)


class Track(UserList):
    """A mutable sequence with an attribute."""

    def __init__(self, elements: Any = (), origin: str = "nowhere") -> None:
        super().__init__(elements)
        self.origin = origin


class Measure:
    """A type of the user's, collated by an entry of `default_collate_fn_map`."""

    def __init__(self, value: float) -> None:
        self.value = value


class Exact(Measure):
    """Found in the map by `isinstance` only."""


def collate_measures(batch: list, *, collate_fn_map: dict | None = None) -> dict:
    assert collate_fn_map is not None
    return {"measures": torch.tensor([measure.value for measure in batch])}


class Image(torch.Tensor):
    """A tensor subclass."""


class Size(enum.IntEnum):
    """Ints that are more than ints."""

    SMALL = 1
    LARGE = 2


class Word(str):
    """A string that is more than a string."""


def an_int(i: int) -> int:
    return i * 3 - 7


def a_float(i: int) -> float:
    return i / 7 - 1.0


def an_odd_float(i: int) -> float:
    return (float("nan"), float("inf"), -0.0, 1e308, 5e-324)[i % 5]


def a_bool(i: int) -> bool:
    return i % 3 == 0


def int_or_float(i: int) -> int | float:
    return i if i % 2 else i + 0.5


def bool_or_int(i: int) -> bool | int:
    return i if i % 2 else i % 4 == 0


def an_enum(i: int) -> Size:
    return Size(1 + i % 2)


def huge_int(i: int) -> int:
    return (2**63 - 1 - i, -(2**63) + i, 2**62 + i)[i % 3]


def _ramp(i: int, shape: tuple[int, ...] = (2, 3)) -> torch.Tensor:
    return (torch.arange(float(np.prod(shape)), dtype=torch.float64).reshape(shape) + i) / 2


def float32_tensor(i: int) -> torch.Tensor:
    return _ramp(i).float()


def float64_tensor(i: int) -> torch.Tensor:
    return _ramp(i)


def float16_tensor(i: int) -> torch.Tensor:
    return _ramp(i).half()


def bfloat16_tensor(i: int) -> torch.Tensor:
    return _ramp(i).bfloat16()


def int8_tensor(i: int) -> torch.Tensor:
    return _ramp(i - 12).to(torch.int8)


def uint8_tensor(i: int) -> torch.Tensor:
    return _ramp(i).to(torch.uint8)


def int64_tensor(i: int) -> torch.Tensor:
    return _ramp(i).long() - 2**40


def bool_tensor(i: int) -> torch.Tensor:
    return _ramp(i).long() % 2 == 0


def complex64_tensor(i: int) -> torch.Tensor:
    return torch.complex(_ramp(i).float(), -_ramp(i).float())


def scalar_tensor(i: int) -> torch.Tensor:
    return torch.tensor(i / 4)


def empty_tensor(i: int) -> torch.Tensor:
    return torch.empty(0, 3, dtype=torch.int16)


def transposed_tensor(i: int) -> torch.Tensor:
    return _ramp(i, (4, 5)).t()


def expanded_tensor(i: int) -> torch.Tensor:
    return torch.tensor([float(i)]).expand(6)


def strided_tensor(i: int) -> torch.Tensor:
    return _ramp(i, (10,))[1::3]


def tensor_of_two_dtypes(i: int) -> torch.Tensor:
    return _ramp(i).float() if i % 2 else _ramp(i)


def tensor_subclass(i: int) -> Image:
    return _ramp(i).float().as_subclass(Image)


def float32_array(i: int) -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3) * i


def float64_array(i: int) -> np.ndarray:
    return np.full(3, i / 3)


def int16_array(i: int) -> np.ndarray:
    return np.array([i, -i], dtype=np.int16)


def uint8_array(i: int) -> np.ndarray:
    return np.full((4, 4, 3), i, dtype=np.uint8)


def bool_array(i: int) -> np.ndarray:
    return np.arange(5) < i % 5


def complex128_array(i: int) -> np.ndarray:
    return np.array([i + 1j, i - 1j])


def fortran_array(i: int) -> np.ndarray:
    return np.asfortranarray(np.arange(20, dtype=np.int32).reshape(4, 5) + i)


def sliced_array(i: int) -> np.ndarray:
    return (np.arange(24.0).reshape(4, 6) + i)[::2, 1::2]


def scalar_array(i: int) -> np.ndarray:
    return np.array(i, dtype=np.int32)


def picture_array(i: int) -> np.ndarray:
    return np.random.default_rng(i).standard_normal((3, 64, 64), dtype=np.float32)


def numpy_float(i: int) -> np.float32:
    return np.float32(i / 3)


def numpy_double(i: int) -> np.float64:
    return np.float64(i / 3)


def numpy_int(i: int) -> np.int16:
    return np.int16(i - 5)


def numpy_bool(i: int) -> np.bool_:
    return np.bool_(i % 2)


def tensor_and_label(i: int) -> tuple[torch.Tensor, int]:
    return float32_tensor(i), i % 10


def nested_tuple(i: int) -> tuple:
    return (float32_array(i), (i, a_float(i)), [str(i), (i,)])


def point(i: int) -> Point:
    return Point(float32_tensor(i), i)


def pair_of_dicts(i: int) -> Pair:
    return Pair({"a": i}, {"b": a_float(i)})


def nested_dict(i: int) -> dict:
    return {
        "image": uint8_array(i),
        "meta": {"path": f"img{i:03}.png", "scale": i / 2, "box": np.array([i, i + 1.0]), "empty": {}},
        "label": i,
    }


def dict_of_bytes_and_lists(i: int) -> dict:
    return {b"raw": bytes([i, 255 - i]), "list": [i, float(i), str(i)], 3: [torch.tensor(i), (i, i)]}


def ordered_dict(i: int) -> OrderedDict:
    return OrderedDict([("z", i), ("a", float32_tensor(i))])


def growing_dict(i: int) -> dict:
    """Later samples have keys the first does not have; they are dropped."""
    return {"a": i, "b": float(i)} | {f"extra{k}": k for k in range(i % 4 if i % 5 else 0)}


def frozen_mapping(i: int) -> Frozen:
    return Frozen({"x": i, "y": float32_array(i)})


def stubborn_mapping(i: int) -> Stubborn:
    return Stubborn(i, -i)


def labelled_mapping(i: int) -> Labelled:
    return Labelled({"x": i}, origin=f"file{i}")


def triple(i: int) -> Triple:
    return Triple([i, a_float(i), float32_tensor(i)])


def track(i: int) -> Track:
    return Track([i, str(i)], origin=f"file{i}")


def range_sample(i: int) -> range:
    return range(i, i + 3)


def empty_containers(i: int) -> dict:
    return {"dict": {}, "tuple": (), "list": [], "text": ""}


def measure(i: int) -> Measure:
    return Measure(i / 2)


def measures(i: int) -> dict:
    return {"exact": Exact(i), "plain": [Measure(i), i]}


def text(i: int) -> str:
    return "ä" * (i % 4) + str(i)


def special_text(i: int) -> Word:
    return Word(f"w{i}")


def raw_bytes(i: int) -> bytes:
    return bytes(range(i))


def large_tensor(i: int) -> torch.Tensor:
    """8 MiB."""
    return torch.full((2, 1024, 1024), i, dtype=torch.float32)


def ragged(i: int) -> torch.Tensor:
    return torch.arange(i % 5 + 1)


def costly(i: int) -> tuple[int, torch.Tensor]:
    """Every seventh sample takes long."""
    if i % 7 == 0:
        time.sleep(0.03)
    return i, torch.full((4,), i)


def two_sizes(i: int) -> torch.Tensor:
    """The sizes agree inside batches of four, not between them."""
    return torch.full((i // 4 % 3 + 1, 2), i)


def two_kinds(i: int) -> Any:
    """The structure agrees inside batches of four, not between them."""
    return (i, {"x": i}, [float(i), str(i)], float32_array(i), text(i))[i // 4 % 5]


# --- datasets -------------------------------------------------------------------------------------


class Bulk(Dataset):
    """Fetches whole batches: `__getitems__` is used, `__getitem__` must not be."""

    def __len__(self) -> int:
        return 22

    def __getitem__(self, i: int) -> None:
        raise AssertionError("__getitem__ although there is __getitems__")

    def __getitems__(self, indices: list[int]) -> list:
        assert isinstance(indices, list)
        return [(i, len(indices), float32_tensor(i)) for i in indices]


class Unbulk(Made):
    """`__getitems__` exists and is falsy: single samples are asked for."""

    __getitems__ = None


class Files(Dataset):
    """Samples in "files" of six; keeps the last file it has read, as one worker or one process."""

    def __init__(self) -> None:
        self.number = None
        self.rows = None

    def __len__(self) -> int:
        return 30

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.number != i // 6:
            self.number = i // 6
            self.rows = torch.arange(6) + 100 * self.number
        return self.rows[i % 6]


class Echo(Dataset):
    """Answers with the index it was asked for, in words."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: Any) -> tuple[str, str]:
        return type(index).__name__, repr(index)


class BulkEcho(Echo):
    """Answers with the batch of indices it was asked for, in words."""

    def __getitems__(self, indices: Any) -> list[tuple[str, str]]:
        return [(type(indices).__name__, repr(index)) for index in indices]


class Lengthless:
    """A map-style dataset without `__len__` and without a base class."""

    def __getitem__(self, i: int) -> int:
        return i


class Counting(Dataset):
    """Counts the calls of its copy: shows which copies live on."""

    def __init__(self, n: int = 6) -> None:
        self.n = n
        self.calls = 0
        self.bonus = 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[int, int, int]:
        self.calls += 1
        return i, self.calls, self.bonus


class Who(Dataset):
    """Says which process made a sample and what it knows about itself. Not a function of i."""

    def __init__(self, n: int = 16) -> None:
        self.n = n
        self.tag = -1
        self.inits = 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict:
        info = get_worker_info()
        return {
            "index": i,
            "pid": os.getpid(),
            "worker": -1 if info is None else info.id,
            "tag": self.tag,
            "inits": self.inits,
        }


def tag_dataset(worker_id: int) -> None:
    """A `worker_init_fn` that leaves its mark on the worker's copy."""
    info = get_worker_info()
    info.dataset.tag = 100 + worker_id
    info.dataset.inits += 1


class Informed(Dataset):
    """Each sample describes `get_worker_info()`."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> dict:
        info = get_worker_info()
        if info is None:
            return {"info": "none"}
        try:
            info.id = 5
            frozen = "not frozen"
        except Exception as error:
            frozen = type(error).__name__
        return {
            "info": type(info).__name__,
            "id": info.id,
            "num_workers": info.num_workers,
            "seed_is_int": isinstance(info.seed, int),
            "own_dataset": info.dataset is self,
            "rng": repr(info.rng),
            "method": info.worker_method,
            "frozen": frozen,
            "slots": hasattr(info, "__dict__"),
            "repr": repr(info).split("(")[0],
        }


class Described(Dataset):
    """Says what kind of process it runs in."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> dict:
        process = multiprocessing.current_process()
        return {
            "daemon": process.daemon,
            "parent": os.getppid(),
            "threads": torch.get_num_threads(),
            "main_thread": threading.current_thread() is threading.main_thread(),
        }


class Gated(Dataset):
    """Sample `closed` waits until the gate is opened, at most a minute."""

    def __init__(self, gate: Any, closed: int = 0, n: int = 4) -> None:
        self.gate = gate
        self.closed = closed
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        if i == self.closed:
            self.gate.wait(60)
        return i


class Nested(Dataset):
    """Runs a loader of its own, without workers, inside a sample."""

    def __init__(self, loader_class: type) -> None:
        self.loader_class = loader_class

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.cat(list(self.loader_class(range(i, i + 5), batch_size=2)))


class Noisy(Dataset):
    """Draws from every generator a sample may draw from. Not a function of i."""

    def __init__(self, n: int = 14) -> None:
        self.n = n
        self.extra = 0.0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict:
        info = get_worker_info()
        return {
            "index": i,
            "python": random.random(),
            "numpy": np.random.rand(),
            "torch": torch.rand(2),
            "worker": -1 if info is None else info.id,
            "seed": 0 if info is None else info.seed,
            "initial": 0 if info is None else torch.initial_seed(),
            "extra": self.extra,
        }


def draw_at_start(worker_id: int) -> None:
    """A `worker_init_fn` that draws: the streams of the samples begin later."""
    get_worker_info().dataset.extra = random.random() + np.random.rand() + torch.rand(()).item() + worker_id


class Faulty(Dataset):
    """`n` ints; the samples in `bad` raise by calling `fail` with their index."""

    def __init__(self, fail: Callable[[int], Any], bad: Sequence[int] = (5,), n: int = 12) -> None:
        self.fail = fail
        self.bad = bad
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.fail(i) if i in self.bad else i


class FaultyBulk(Faulty):
    """Raises while it fetches a whole batch."""

    def __getitems__(self, indices: list[int]) -> list:
        return [self[i] for i in indices]


class PlainError(Exception):
    """Of the user's own, with the usual constructor."""


class TwoArgumentError(Exception):
    """Cannot be made from one string."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(f"{path}:{line}")


class KeywordError(Exception):
    """Cannot be made from a positional argument."""

    def __init__(self, *, path: str) -> None:
        super().__init__(path)


class PickyError(Exception):
    """Refuses most strings."""

    def __init__(self, code: str) -> None:
        super().__init__(f"code {int(code)}")


class MessageError(Exception):
    """Has a class attribute `message` and takes an argument of that name."""

    message = "a default"

    def __init__(self, code: int = 0, message: str = "") -> None:
        super().__init__(message)
        self.code = code


class KeyLikeError(KeyError):
    """A subclass of KeyError: its text is quoted, unlike that of KeyError itself."""


def raise_value(i: int) -> None:
    raise ValueError(f"bad sample {i}")


def raise_key(i: int) -> None:
    raise KeyError(f"key {i}")


def raise_key_like(i: int) -> None:
    raise KeyLikeError(f"key {i}")


def raise_index(i: int) -> None:
    raise IndexError(f"index {i}")


def raise_os(i: int) -> None:
    raise OSError(5, f"disk {i}")


def raise_missing_file(i: int) -> None:
    with open(f"/no/such/directory/{i}"):
        pass


def raise_unicode(i: int) -> None:
    b"\xff".decode("utf-8")


def raise_zero_division(i: int) -> float:
    return i / 0


def raise_plain(i: int) -> None:
    raise PlainError(f"plain {i}")


def raise_two_arguments(i: int) -> None:
    raise TwoArgumentError("file", i)


def raise_keyword(i: int) -> None:
    raise KeywordError(path=f"file{i}")


def raise_picky(i: int) -> None:
    raise PickyError(str(i))


def raise_message(i: int) -> None:
    raise MessageError(i, f"message {i}")


def raise_without_text(i: int) -> None:
    raise RuntimeError


def raise_assertion(i: int) -> None:
    raise AssertionError(f"claim {i}")


def raise_not_implemented(i: int) -> None:
    raise NotImplementedError(f"sample {i}")


def raise_chained(i: int) -> None:
    try:
        raise_zero_division(i)
    except ZeroDivisionError as error:
        raise ValueError(f"chained {i}") from error


def raise_noted(i: int) -> None:
    error = ValueError(f"noted {i}")
    error.add_note("a note")
    raise error


def raise_stop(i: int) -> None:
    raise StopIteration


def raise_interrupt(i: int) -> None:
    raise KeyboardInterrupt


def raise_system_exit(i: int) -> None:
    raise SystemExit(3)


def raise_generator_exit(i: int) -> None:
    raise GeneratorExit


def end_process(i: int) -> None:
    os._exit(3)


def fail_init(worker_id: int) -> None:
    """A `worker_init_fn` that fails."""
    raise PermissionError(f"worker {worker_id} may not")


def fail_collate(batch: list) -> None:
    """A collate function that refuses batches with a five."""
    if 5 in batch:
        raise LookupError(f"cannot collate {batch}")
    return batch


class BrokenSampler:
    """Raises when its position `bad` is drawn."""

    def __init__(self, bad: int) -> None:
        self.bad = bad

    def __iter__(self) -> Iterator[int]:
        for i in range(20):
            if i == self.bad:
                raise ArithmeticError(f"no index {i}")
            yield i


class UnstartableSampler:
    """Cannot be iterated."""

    def __iter__(self) -> Iterator[int]:
        raise ArithmeticError("no indices at all")


# Samples that the default collation refuses, four to a batch.


def sizes_that_differ(i: int) -> torch.Tensor:
    return torch.zeros(4 if i % 4 == 3 else 3)


def sizes_that_shrink(i: int) -> torch.Tensor:
    return torch.zeros(3 if i % 4 else 4)


def dimensions_that_differ(i: int) -> torch.Tensor:
    return torch.zeros((2,) * (i % 4 + 1))


def array_sizes_that_differ(i: int) -> np.ndarray:
    return np.zeros((2, i % 4))


def keys_that_differ(i: int) -> dict:
    return {"a": i, "b": i} if i % 4 == 0 else {"a": i}


def lengths_that_differ(i: int) -> tuple:
    return (i,) * (i % 4 + 1)


def nested_lengths_that_differ(i: int) -> dict:
    return {"a": i, "list": [i] * (i % 2 + 1)}


def none_sample(i: int) -> None:
    return None


def none_sometimes(i: int) -> int | None:
    return i if i % 4 else None


def none_later(i: int) -> int | None:
    return None if i % 4 == 2 else i


def none_inside(i: int) -> dict:
    return {"a": i, "b": None}


def object_sample(i: int) -> object:
    return object()


def set_sample(i: int) -> set:
    return {i}


def type_sample(i: int) -> type:
    return int


def complex_sample(i: int) -> complex:
    return complex(i, 1)


def text_array(i: int) -> np.ndarray:
    return np.array(["a", "bcd"])


def bytes_array(i: int) -> np.ndarray:
    return np.array([b"a", b"bcd"])


def object_array(i: int) -> np.ndarray:
    return np.array([None, i], dtype=object)


def numpy_text(i: int) -> np.datetime64:
    return np.datetime64("2001-01-01")


def foreign_endian_array(i: int) -> np.ndarray:
    return np.arange(3, dtype=">f4")


def backward_array(i: int) -> np.ndarray:
    return np.arange(4.0)[::-1]


def too_large_int(i: int) -> int:
    return 2**63 + i


def int_then_text(i: int) -> int | str:
    return i if i % 4 == 0 else str(i)


def tensor_then_int(i: int) -> torch.Tensor | int:
    return torch.tensor(i) if i % 4 == 0 else i


def tuple_then_int(i: int) -> tuple | int:
    return (i, i) if i % 4 == 0 else i


def dict_then_int(i: int) -> dict | int:
    return {"a": i} if i % 4 == 0 else i


def int_then_float_tensor(i: int) -> torch.Tensor:
    return torch.tensor([i]) if i % 4 == 0 else torch.tensor([i + 0.5])


def needs_gradient(i: int) -> torch.Tensor:
    return torch.tensor([float(i)], requires_grad=True)


def sparse_tensor(i: int) -> torch.Tensor:
    return torch.tensor([[0.0, i], [1.0, 0.0]]).to_sparse()


def compressed_tensor(i: int) -> torch.Tensor:
    return torch.tensor([[0.0, i], [1.0, 0.0]]).to_sparse_csr()


def nested_tensor(i: int) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)])


# --- iterable datasets ----------------------------------------------------------------------------


class Stream(IterableDataset):
    """`range(n)`, shared out among the workers unless `shard` is false."""

    def __init__(self, n: int, shard: bool = True) -> None:
        self.n = n
        self.shard = shard

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is None or not self.shard:
            return iter(range(self.n))
        return iter(range(info.id, self.n, info.num_workers))

    def __repr__(self) -> str:
        return f"Stream({self.n})"


class SizedStream(Stream):
    """A stream that announces a length, which may be a lie."""

    def __init__(self, n: int, announced: int, shard: bool = True) -> None:
        super().__init__(n, shard)
        self.announced = announced

    def __len__(self) -> int:
        return self.announced

    def __repr__(self) -> str:
        return f"SizedStream({self.n}, {self.announced})"


class Shards(IterableDataset):
    """Worker w yields `lengths[w]` samples; the main process yields all of them."""

    def __init__(self, lengths: Sequence[int], make: Callable[[int], Any] = an_int) -> None:
        self.lengths = lengths
        self.make = make

    def __iter__(self) -> Iterator:
        info = get_worker_info()
        mine = range(len(self.lengths)) if info is None else [info.id]
        for shard in mine:
            for i in range(self.lengths[shard]):
                yield self.make(100 * shard + i)


class Epochs(IterableDataset):
    """Counts how often its copy has been iterated."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter([self.epoch] * 4)


class NoisyStream(IterableDataset):
    """A stream that draws random numbers. Not a function of the position."""

    def __iter__(self) -> Iterator[dict]:
        noisy = Noisy(9)
        return (noisy[i] for i in range(9))


class OneShot(IterableDataset):
    """Its own iterator: the second epoch of the same copy finds it exhausted."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __iter__(self) -> "OneShot":
        return self

    def __next__(self) -> int:
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.left


class BreakingStream(IterableDataset):
    """Raises at position `bad`: a generator, which ends with its error."""

    def __init__(self, n: int, bad: int, worker: int | None = None) -> None:
        self.n = n
        self.bad = bad
        self.worker = worker

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        armed = info is None or self.worker is None or info.id == self.worker
        for i in range(self.n):
            if i == self.bad and armed:
                raise ValueError(f"broken at {i}")
            yield i


class StumblingStream(IterableDataset):
    """Raises at position `bad` and goes on with the next one when asked again."""

    def __init__(self, n: int, bad: int) -> None:
        self.n = n
        self.bad = bad

    def __iter__(self) -> "StumblingIterator":
        return StumblingIterator(self.n, self.bad)


class StumblingIterator:
    """The iterator of `StumblingStream`."""

    def __init__(self, n: int, bad: int) -> None:
        self.n = n
        self.bad = bad
        self.position = -1

    def __iter__(self) -> "StumblingIterator":
        return self

    def __next__(self) -> int:
        self.position += 1
        if self.position == self.n:
            raise StopIteration
        if self.position == self.bad:
            raise ValueError(f"stumbled at {self.position}")
        return self.position


class UnstartableStream(IterableDataset):
    """Cannot be iterated."""

    def __iter__(self) -> Iterator:
        raise OSError("the stream cannot be opened")


# --- samplers -------------------------------------------------------------------------------------


class Recorder:
    """A batch sampler that records how many batches were drawn and where it runs."""

    def __init__(self, batches: int = 20) -> None:
        self.batches = batches
        self.drawn = 0
        self.places: set = set()

    def __iter__(self) -> Iterator[list[int]]:
        for k in range(self.batches):
            self.drawn += 1
            self.places.add((os.getpid(), threading.get_ident()))
            yield [k, k + 1]

    def __len__(self) -> int:
        return self.batches


class Endless:
    """A sampler without an end and without a length."""

    def __iter__(self) -> Iterator[int]:
        i = 0
        while True:
            yield i % 10
            i += 1


# --- collate functions ----------------------------------------------------------------------------


def as_list(batch: list) -> list:
    return batch


def padded(batch: list[torch.Tensor]) -> dict:
    return {
        "values": torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=-1),
        "lengths": [len(sequence) for sequence in batch],
    }


class Bag:
    """A batch of the user's own type, which knows how to pin itself."""

    def __init__(self, batch: list) -> None:
        self.total = sum(batch)
        self.items = tuple(batch)
        self.pinned = False

    def pin_memory(self) -> "Bag":
        self.pinned = True
        return self


def summed(batch: list) -> torch.Tensor:
    """Collates without keeping the batch dimension."""
    return torch.stack(batch).sum(0)


def ignore_worker(worker_id: int) -> None:
    """A `worker_init_fn` that does nothing but be picklable."""


# --- other processes --------------------------------------------------------------------------------


def double(incoming: Any, outgoing: Any) -> None:
    """A process that receives one batch and sends it back doubled."""
    batch = incoming.get()
    outgoing.put({name: tensor * 2 for name, tensor in batch.items()})
    # Shared tensors need their sender until they have arrived.
    incoming.get()
