"""Images of many channels: the numbers that tifffile reads, the sizes that torchvision makes."""

from __future__ import annotations

import pickle
import struct
import sys
import time
from pathlib import Path
from typing import Any

import feedline
import numpy as np
import pytest
import tifffile
import torch
from feedline import Cells, DataLoader
from torchvision.transforms import v2

RNG = np.random.default_rng(3)


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype.startswith("f"):
        return RNG.normal(size=shape).astype(dtype)
    info = np.iinfo(dtype)
    # Neighbours are alike, so that something can be compressed.
    return (RNG.integers(info.min // 2, info.max // 2, shape) // 7 * 7).astype(dtype)


#: A number of channels for each pixel, which mean nothing in particular.
TOGETHER: dict[str, Any] = {"photometric": "minisblack", "planarconfig": "contig"}


def write(folder: Path, array: np.ndarray, **how: Any) -> str:
    path = folder / "cells.tif"
    tifffile.imwrite(path, array, **how)
    return str(path)


def planes(path: str) -> np.ndarray:
    array = Cells([path])[0][0]
    assert array.dtype == np.dtype(array.dtype).newbyteorder("=")
    return array


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_type_in_both_orders(tmp_path: Path, dtype: str, order: str) -> None:
    array = numbers((13, 11, 5), dtype)
    path = write(tmp_path, array, **TOGETHER, byteorder=order)
    np.testing.assert_array_equal(planes(path), array.transpose(2, 0, 1))


@pytest.mark.parametrize("compression", [None, "lzw", "zlib", "adobe_deflate", "packbits"])
@pytest.mark.parametrize("predictor", [False, True])
@pytest.mark.parametrize(
    "layout", [{}, {"rowsperstrip": 5}, {"tile": (16, 32)}, {"bigtiff": True}, {"byteorder": ">"}], ids=str
)
@pytest.mark.parametrize("kind", ["interleaved", "planar", "pages", "one"])
def test_every_layout(
    tmp_path: Path, compression: str | None, predictor: bool, layout: dict[str, Any], kind: str
) -> None:
    if predictor and compression in (None, "packbits"):
        predictor = False
    how: dict[str, Any] = {"compression": compression, "predictor": predictor, **layout}
    array = numbers((4, 37, 43), "u2")
    if kind == "interleaved":
        path = write(tmp_path, array.transpose(1, 2, 0), **TOGETHER, **how)
    elif kind == "planar":
        path = write(tmp_path, array, photometric="minisblack", planarconfig="separate", **how)
    elif kind == "pages":
        path = write(tmp_path, array, photometric="minisblack", **how)
    else:
        array = array[:1]
        path = write(tmp_path, array[0], photometric="minisblack", **how)
    found = tifffile.imread(path)
    np.testing.assert_array_equal(
        found.reshape(-1), (array if kind != "interleaved" else array.transpose(1, 2, 0)).reshape(-1)
    )
    np.testing.assert_array_equal(planes(path), array)


@pytest.mark.parametrize("planar", [False, True])
def test_some_channels(tmp_path: Path, planar: bool) -> None:
    array = numbers((5, 20, 30), "u2")
    if planar:
        path = write(tmp_path, array, photometric="minisblack", planarconfig="separate")
    else:
        path = write(tmp_path, array.transpose(1, 2, 0), **TOGETHER)
    np.testing.assert_array_equal(Cells([path]).channels([4, 0, 4])[0][0], array[[4, 0, 4]])


@pytest.mark.parametrize("size", [(220, 224), (17, 91), (50, 50), (25, 10)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
def test_sizes_are_torchvisions(tmp_path: Path, size: tuple[int, int], interpolation: str) -> None:
    array = numbers((50, 50, 5), "u2")
    path = write(tmp_path, array, **TOGETHER)
    floats = torch.from_numpy(array.astype(np.float32)).permute(2, 0, 1)
    mode = v2.InterpolationMode(interpolation)
    expected = v2.functional.resize(floats, list(size), interpolation=mode, antialias=True)
    cells = Cells([path]).resize(size, interpolation)
    torch.testing.assert_close(torch.from_numpy(cells.to_float()[0][0]), expected, rtol=1e-5, atol=0.05)
    # Numbers that keep their type are rounded to it.
    kept = cells[0][0]
    assert kept.dtype == np.uint16
    rounded = expected.round().clamp(0, 65535).numpy()
    assert np.abs(kept.astype(np.float64) - rounded).max() <= 1
    assert (kept != rounded).mean() < 0.01  # halves
    middle = v2.functional.center_crop(expected, [min(size) - 3])
    cut = cells.center_crop(min(size) - 3).to_float()
    torch.testing.assert_close(torch.from_numpy(cut[0][0]), middle, rtol=1e-5, atol=0.05)


def test_normalised_floats(tmp_path: Path) -> None:
    array = numbers((9, 8, 2), "i2")
    path = write(tmp_path, array, **TOGETHER)
    mean, std = [100.0, -3.0], [7.0, 0.5]
    expected = v2.functional.normalize(torch.from_numpy(array.astype(np.float32)).permute(2, 0, 1), mean, std)
    found, _ = Cells([path]).normalize(mean, std)[0]
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=0)
    cut, _ = Cells([path]).center_crop((4, 5))[0]
    np.testing.assert_array_equal(
        cut, v2.functional.center_crop(torch.from_numpy(array).permute(2, 0, 1), [4, 5])
    )


def test_flips_are_mirror_images(tmp_path: Path) -> None:
    array = numbers((6, 7, 3), "u2")
    path = write(tmp_path, array, **TOGETHER)
    chw = array.transpose(2, 0, 1)
    np.testing.assert_array_equal(Cells([path]).random_horizontal_flip(1)[0][0], chw[:, :, ::-1])
    np.testing.assert_array_equal(Cells([path]).random_vertical_flip(1)[0][0], chw[:, ::-1])
    both = Cells([path] * 200).random_horizontal_flip().random_vertical_flip()
    seen = {
        tuple(sample[0, [0, 0, -1, -1], [0, -1, 0, -1]])
        for batch, _ in DataLoader(both, 50)
        for sample in batch.numpy()
    }
    assert len(seen) == 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(5):
            array = numbers((10, 12, 5), "u2")
            tifffile.imwrite(tmp_path / name / f"{number}.tif", array, **TOGETHER)
    return tmp_path


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches(folder: Path, workers: int) -> None:
    cells = Cells.folder(folder)
    assert (len(cells), cells.shape, cells.dtype) == (10, (5, 10, 12), "uint16")
    loader = DataLoader(cells, 4, num_workers=workers, native="require")
    batches = list(loader)
    # In whatever type: rows are made by threads, or by the consumer, and never by Python.
    assert "without Python" in loader.explain()
    if workers:
        assert loader.stats()["rows"] == 10
    images = torch.cat([images for images, _ in batches])
    expected = [tifffile.imread(path).transpose(2, 0, 1) for path in cells.paths]
    np.testing.assert_array_equal(images.numpy(), np.stack(expected))
    assert torch.cat([labels for _, labels in batches]).tolist() == [0] * 5 + [1] * 5


def test_threads_go_on_while_somebody_else_has_the_lock_of_python(tmp_path: Path) -> None:
    path = write(tmp_path, numbers((40, 50, 5), "u2"), **TOGETHER)
    loader = DataLoader(Cells([path] * 1000), 4, num_workers=1, prefetch_factor=20, native="require")
    batches = iter(loader)
    # By then, it is known what rows look like.
    for _ in range(60):
        next(batches)
    interval, deadline, units = sys.getswitchinterval(), time.monotonic() + 30, 0
    sys.setswitchinterval(1000)
    try:
        # All that is asked for ahead, while this thread lets go of nothing.
        while units < 4 * 80 and time.monotonic() < deadline:
            units = loader.stats()["workers"][0]["units"]
    finally:
        sys.setswitchinterval(interval)
    assert units == 4 * 80


def test_cells_can_be_sent_and_shown(folder: Path) -> None:
    cells = Cells.folder(folder).channels([1]).to_float()
    again = pickle.loads(pickle.dumps(cells))
    np.testing.assert_array_equal(again[3][0], cells[3][0])
    assert repr(cells) == "Cells(10 files).channels([1]).float()"
    assert feedline.Cells is Cells


def test_steps_out_of_order_are_refused(folder: Path) -> None:
    cells = Cells.folder(folder)
    with pytest.raises(ValueError, match="channels after resize"):
        cells.resize(8).channels([0])
    with pytest.raises(ValueError, match="there is no channel 7: files have 5"):
        _ = cells.channels([7]).shape
    with pytest.raises(ValueError, match="resize to more before"):
        _ = cells.center_crop(11).shape
    with pytest.raises(ValueError, match="2 values were given for 5 channels"):
        _ = cells.normalize([0, 0], [1, 1]).shape
    with pytest.raises(ValueError, match="between 0 and 1"):
        _ = cells.random_horizontal_flip(2).shape


def damaged(good: bytes) -> dict[str, bytes]:
    circle = bytearray(good)
    first = struct.unpack("<I", good[4:8])[0]
    count = struct.unpack("<H", good[first : first + 2])[0]
    circle[first + 2 + 12 * count :][:4] = b""
    struct.pack_into("<I", circle, first + 2 + 12 * count, first)
    huge = bytearray(good)
    for entry in range(count):
        at = first + 2 + 12 * entry
        if struct.unpack_from("<H", huge, at)[0] in (256, 257):
            struct.pack_into("<HII", huge, at + 2, 4, 1, 1_000_000)
    return {
        "empty": b"",
        "html": b"<html>",
        "half": good[: len(good) // 2],
        "no pages": b"II\x2a\0\0\0\0\0",
        "circle": bytes(circle),
        "a million squared": bytes(huge),
    }


MESSAGES = {
    "empty": "the file is empty",
    "html": "HTML",
    "half": "truncated",
    "no pages": "it has no page",
    "circle": "in a circle",
    "a million squared": "1000000 . 1000000 pixels",
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_bad_files_say_what_is_wrong(tmp_path: Path, kind: str) -> None:
    good = write(
        tmp_path,
        numbers((10, 12, 5), "u2"),
        photometric="minisblack",
        planarconfig="contig",
        compression="zlib",
    )
    bad = tmp_path / "bad.tif"
    bad.write_bytes(damaged(Path(good).read_bytes())[kind])
    with pytest.raises(ValueError, match=f"bad.tif: .*{MESSAGES[kind]}"):
        Cells([good, str(bad)])[1]
    loader = DataLoader(Cells([good, str(bad), good]), 3, num_workers=1, on_error="skip")
    ((images, _),) = list(loader)
    assert (len(images), len(loader.failures())) == (2, 1)


def test_other_files_are_named(tmp_path: Path) -> None:
    good = write(tmp_path, numbers((10, 12, 5), "u2"), **TOGETHER)
    other = tmp_path / "other.tif"
    tifffile.imwrite(other, numbers((10, 12, 4), "u2"), **TOGETHER)
    with pytest.raises(
        ValueError, match=r"other\.tif: it is u16 of 4 channels.*the first file is u16 of 5 channels"
    ):
        Cells([good, str(other)])[1]
    tifffile.imwrite(other, numbers((9, 7, 5), "u2"), **TOGETHER)
    with pytest.raises(ValueError, match="all should be alike"):
        Cells([good, str(other)])[1]
    assert Cells([good, str(other)]).resize(8)[1][0].shape == (5, 8, 8)
    with pytest.raises(FileNotFoundError, match=r"none\.tif"):
        Cells([good, str(tmp_path / "none.tif")])[1]
    tifffile.imwrite(other, numbers((16, 16, 3), "u1"), compression="jpeg")
    with pytest.raises(ValueError, match="compressed as JPEG"):
        Cells([str(other)])[0]


def test_extents_are_those_of_files_which_need_not_be_alike(tmp_path: Path) -> None:
    shapes = [(13, 11, 5), (7, 9, 3), (50, 50, 5)]
    paths = [tmp_path / f"{number}.tif" for number in range(3)]
    for path, shape in zip(paths, shapes, strict=True):
        tifffile.imwrite(path, numbers(shape, "u2"), **TOGETHER)
    dataset = Cells(paths, [4, 5, 6]).extents()
    expected = [[channels, height, width] for height, width, channels in shapes]
    assert [sample.tolist() for sample, _ in dataset] == expected
    ((made, labels),) = DataLoader(dataset, batch_size=3, num_workers=2, native="require")
    assert (made.tolist(), labels.tolist(), made.dtype) == (expected, [4, 5, 6], torch.int64)
    for wrong in (lambda: dataset.to_float(), lambda: Cells(paths).channels([0]).extents()):
        with pytest.raises(ValueError, match="no other step comes before or after"):
            wrong()
    paths[1].write_bytes(paths[1].read_bytes()[:60])
    with pytest.raises(ValueError, match=r"1\.tif"):
        dataset[1]
