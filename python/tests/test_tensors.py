"""Arrays in files without Python, beside numpy and torch."""

import io
import json
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from feedline import DataLoader, ImageFolder, Tensors

TYPES = ["bool", "uint8", "uint16", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng(seed).integers(0, 100, shape)
    return (numbers % 2 == 0) if dtype == "bool" else numbers.astype(dtype)


def batches(dataset: Tensors, workers: int) -> list:
    loader = DataLoader(dataset, batch_size=3, num_workers=workers, native="require")
    made = list(loader)
    assert "without Python" in loader.explain()
    return made


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (5,), (3, 4, 2)])
def test_npy_is_read_as_numpy_does(tmp_path, dtype, shape, workers):
    arrays = [values(dtype, shape, seed) for seed in range(7)]
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
    tensors = Tensors([tmp_path / f"{number}.npy" for number in range(7)], range(10, 17))
    assert (tensors.shape, tensors.dtype) == (shape, dtype)
    assert np.array_equal(tensors[3][0], arrays[3])
    found = batches(tensors, workers)
    assert torch.equal(torch.cat([batch for batch, _ in found]), torch.from_numpy(np.stack(arrays)))
    assert torch.cat([labels for _, labels in found]).tolist() == list(range(10, 17))


def test_npy_of_other_machines_and_versions(tmp_path):
    big = np.arange(6, dtype=">i4").reshape(2, 3)
    np.save(tmp_path / "big.npy", big)
    assert np.array_equal(Tensors([tmp_path / "big.npy"])[0][0], big)
    with open(tmp_path / "two.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(4.0), version=(2, 0))
    assert np.array_equal(Tensors([tmp_path / "two.npy"])[0][0], np.arange(4.0))


def test_npz_is_read_by_name(tmp_path):
    np.savez(tmp_path / "one.npz", only=np.arange(5))
    assert np.array_equal(Tensors([tmp_path / "one.npz"])[0][0], np.arange(5))
    np.savez(tmp_path / "two.npz", a=np.arange(5), b=np.ones((2, 2)))
    assert np.array_equal(Tensors([tmp_path / "two.npz"], key="b")[0][0], np.ones((2, 2)))
    with pytest.raises(ValueError, match="several arrays"):
        Tensors([tmp_path / "two.npz"])[0]
    with pytest.raises(ValueError, match=r"no array \"c\" in it; there are \"a.npy\", \"b.npy\""):
        Tensors([tmp_path / "two.npz"], key="c")[0]
    np.savez_compressed(tmp_path / "small.npz", a=np.zeros(1000))
    with pytest.raises(ValueError, match="compressed"):
        Tensors([tmp_path / "small.npz"])[0]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "uint8", "bool"])
def test_pt_is_read_as_torch_does(tmp_path, dtype, workers):
    tensors = [(10 * torch.rand(3, 8, 5)).to(getattr(torch, dtype)) for _ in range(4)]
    for number, tensor in enumerate(tensors):
        torch.save(tensor, tmp_path / f"{number}.pt")
    found = batches(Tensors([tmp_path / f"{number}.pt" for number in range(4)]), workers)
    assert torch.equal(torch.cat([batch for batch, _ in found]), torch.stack(tensors))


def test_pt_of_several_kinds(tmp_path):
    def read(value, key=None):
        torch.save(value, tmp_path / "x.pt")
        return Tensors([tmp_path / "x.pt"], key=key)[0][0]

    whole = torch.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(read({"a": whole, "n": 5}), whole)
    assert np.array_equal(read({"a": whole, "b": whole + 1}, "b"), whole + 1)
    assert np.array_equal(read(OrderedDict(a=whole)), whole)
    assert np.array_equal(read(torch.nn.Parameter(whole).detach()), whole)
    assert np.array_equal(read(whole[1]), whole[1])  # a part of what is stored
    assert np.array_equal(read(torch.tensor(7)), 7)
    assert read(torch.zeros(0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match="not contiguous"):
        read(whole.transpose(0, 1))
    with pytest.raises(ValueError, match="neither a tensor nor"):
        read([whole])
    with pytest.raises(ValueError, match="no array"):
        read({"n": 5})


class Evil:
    """What runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_nothing_in_a_file_is_executed(tmp_path):
    torch.save({"a": torch.ones(3), "evil": Evil(tmp_path / "ran")}, tmp_path / "x.pt")
    assert Tensors([tmp_path / "x.pt"])[0][0].tolist() == [1, 1, 1]
    np.save(tmp_path / "x.npy", np.array([Evil(tmp_path / "ran")]), allow_pickle=True)
    with pytest.raises(ValueError, match="unpickled"):
        Tensors([tmp_path / "x.npy"])[0]
    assert not (tmp_path / "ran").exists()


def safetensors(**arrays: np.ndarray) -> bytes:
    names = {"float32": "F32", "int64": "I64", "uint8": "U8"}
    table, data = {}, b""
    for name, array in arrays.items():
        end = len(data) + array.nbytes
        table[name] = {
            "dtype": names[str(array.dtype)],
            "shape": array.shape,
            "data_offsets": [len(data), end],
        }
        data += array.tobytes()
    header = json.dumps(table).encode()
    return len(header).to_bytes(8, "little") + header + data


def test_safetensors_are_read_by_name(tmp_path):
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3)
    (tmp_path / "x.safetensors").write_bytes(safetensors(a=a, b=b))
    for key, expected in (("a", a), ("b", b)):
        assert np.array_equal(Tensors([tmp_path / "x.safetensors"], key=key)[0][0], expected)
    with pytest.raises(ValueError, match="several arrays"):
        Tensors([tmp_path / "x.safetensors"])[0]


def test_files_that_differ_are_named(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float32))
    np.save(tmp_path / "b.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match=r"b\.npy.*F32 of shape \[3, 2\].*\[2, 3\]"):
        list(DataLoader(Tensors([tmp_path / "a.npy", tmp_path / "b.npy"]), batch_size=2, num_workers=1))


def saved(array) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def pt_of(array) -> bytes:
    out = io.BytesIO()
    torch.save(torch.from_numpy(array), out)
    return out.getvalue()


def bad_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps(object))
    return out.getvalue()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"<html>",
        saved(np.zeros(100))[:-1],
        saved(np.zeros(3)).replace(b"(3,)", b"(9999999999999,)"),
        pt_of(np.zeros(100))[:-1000],
        pt_of(np.zeros(3))[:200],
        bad_zip(),
        safetensors(a=np.zeros(3, np.float32))[:-1],
    ],
)
def test_bad_files_are_named(tmp_path, content, workers):
    np.save(tmp_path / "good.npy", np.zeros(3))
    (tmp_path / "bad").write_bytes(content)
    dataset = Tensors([tmp_path / "good.npy", tmp_path / "bad"])
    with pytest.raises((ValueError, OSError), match="bad"):
        list(DataLoader(dataset, batch_size=2, num_workers=workers))
    loader = DataLoader(dataset, batch_size=2, num_workers=workers, on_error="skip")
    assert [len(batch) for batch, _ in loader] == [1]
    assert [failure["index"] for failure in loader.failures()] == [1]


@pytest.mark.parametrize("workers", [0, 2])
def test_archives_whose_tensors_are_elsewhere_are_read_all_the_same(tmp_path, workers):
    # The name of a file is written into it, so that its numbers begin later if it is longer.
    names = ["a.pt", "b.pt", "a_much_longer_name_than_all_the_others_have" * 3 + ".pt", "c.pt", "d.pt"]
    tensors = [torch.full((4, 5), float(number)) for number in range(5)]
    for name, tensor in zip(names, tensors, strict=True):
        torch.save(tensor, tmp_path / name)
    found = batches(Tensors([tmp_path / name for name in names]), workers)
    assert torch.equal(torch.cat([batch for batch, _ in found]), torch.stack(tensors))


def test_arrays_in_memory_are_as_good_as_files(tmp_path):
    saved = io.BytesIO()
    np.save(saved, values("int16", (3, 4)))
    tensors = Tensors([saved.getvalue(), saved.getvalue()[:-1]], [2, 0]).one_hot(3)
    array, label = tensors[0]
    assert np.array_equal(array, values("int16", (3, 4)))
    assert label.tolist() == [0.0, 0.0, 1.0]
    with pytest.raises(OSError, match="truncated"):
        tensors[1]


def table_of(folder: Path, text: str | bytes, name: str = "train.csv") -> Path:
    for number in range(4):
        np.save(folder / f"{number}.npy", np.full((2,), number, np.float32))
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def test_a_table_names_files_and_their_classes(tmp_path):
    far = tmp_path / "far"
    far.mkdir()
    np.save(far / "9.npy", np.full((2,), 9, np.float32))
    table = table_of(tmp_path, f"class,file\ndog,1.npy\ncat,0.npy\ndog,{far}/9.npy\nant,far/../3.npy\n")
    tensors = Tensors.table(table, path="file", label="class")
    assert (tensors.classes, tensors.class_to_idx) == (["ant", "cat", "dog"], {"ant": 0, "cat": 1, "dog": 2})
    rows, labels = next(iter(DataLoader(tensors, batch_size=4, num_workers=2, native="require")))
    assert rows[:, 0].tolist() == [1, 0, 9, 3]
    assert labels.tolist() == [2, 1, 2, 0]
    assert tensors.one_hot(3).classes == tensors.classes


def test_labels_of_a_table_that_are_numbers_stay_and_may_be_missing(tmp_path):
    table = table_of(tmp_path, "path\tlabel\n2.npy\t-7\n1.npy\t3\n", "train.tsv")
    assert Tensors.table(table).targets == [-7, 3]
    assert not hasattr(Tensors.table(table), "classes")
    assert Tensors.table(table, label=None).targets == [0, 0]
    semicolons = table_of(tmp_path, "path;label\n2.npy;5\n")
    assert Tensors.table(semicolons, delimiter=";", key=None).targets == [5]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("file,label\n0.npy,1\n", 'has no column "path"; there are "file", "label"'),
        ("path,label\n", "has no files"),
        ("path,label\n0.npy,1\n,2\n", 'line 3: the column "path" is empty'),
        ("path,label\n0.npy\n", 'line 2: there is nothing in the column "label"'),
        (b"path,label\n0.npy,1\n\xff.npy,1\n", "line 3: column 1 is not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, text, why):
    table = table_of(tmp_path, text)
    with pytest.raises(ValueError, match=re.escape(why)) as caught:
        Tensors.table(table)
    assert str(table) in str(caught.value)


def test_a_table_that_is_not_there_and_a_folder_that_is_no_table(tmp_path):
    with pytest.raises(FileNotFoundError):
        Tensors.table(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="one byte"):
        Tensors.table(table_of(tmp_path, "path,label\n"), delimiter="→")
    with pytest.raises(TypeError, match=r"Files\.table"):
        ImageFolder.table(tmp_path / "train.csv")
