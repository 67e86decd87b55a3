"""Volumes without Python, beside pynrrd and nibabel: to the bit."""

import bz2
import doctest
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nibabel
import nrrd
import numpy as np
import pytest
from feedline import volumes

# All names that pynrrd has for numbers.
NRRD_TYPES = {name: kind for name, kind in nrrd.reader._TYPEMAP_NRRD2NUMPY.items() if kind != "V"}
KINDS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
NAMES = {kind: name for name, kind in reversed(NRRD_TYPES.items())}
SHAPES = [(7,), (3, 5), (4, 3, 2), (2, 3, 4, 5)]
ENDIANS = {"little": "<", "big": ">"}


def numbers(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Numbers over the whole range of a type; of floats, also some that are none."""
    rng = np.random.default_rng(seed)
    array = np.frombuffer(rng.bytes(np.dtype(kind).itemsize * int(np.prod(shape))), kind).copy()
    if kind == "f4" or kind == "f8":
        array = rng.normal(0, 1000, array.shape).astype(kind)
        array[:3] = [np.nan, np.inf, -0.0]
    return array.reshape(shape)


def packed(array: np.ndarray, encoding: str, endian: str) -> bytes:
    if encoding in ("ascii", "text", "txt", "ASCII"):
        return "\n".join(repr(number) for number in array.ravel().tolist()).encode()
    data = array.astype(array.dtype.newbyteorder(ENDIANS[endian])).tobytes()
    if encoding == "hex":
        return data.hex("\n", 20).encode()
    if encoding in ("gzip", "gz"):
        return gzip.compress(data, 1)
    return bz2.compress(data) if encoding in ("bzip2", "bz2") else data


def write_nrrd(
    path: Path,
    array: np.ndarray,
    encoding: str = "raw",
    endian: str = "little",
    *,
    name: str | None = None,
    data: bytes | None = None,
    detached: str | None = None,
    more: tuple[str, ...] = (),
    newline: str = "\n",
) -> Path:
    """A file whose first axis is the last of the array."""
    lines = [
        "NRRD0005",
        f"type: {name or NAMES[array.dtype.str[1:]]}",
        f"dimension: {array.ndim}",
        f"sizes: {' '.join(map(str, reversed(array.shape)))}",
        f"endian: {endian}",
        f"encoding: {encoding}",
        *more,
    ]
    data = packed(array, encoding, endian) if data is None else data
    if detached is None:
        path.write_bytes(newline.join([*lines, "", ""]).encode() + data)
    else:
        (path.parent / detached).write_bytes(data)
        path.write_bytes(newline.join([*lines, f"data file: {detached}", ""]).encode())
    return path


def assert_as_pynrrd(path: Path) -> volumes.Volume:
    for order in ("F", "C"):
        expected, _ = nrrd.read(str(path), index_order=order)
        found = volumes.read(path, order)
        assert_same(found.array, expected)
        assert found.array.flags["F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"]
    return found


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    native = expected.astype(expected.dtype.newbyteorder("="))
    assert (found.shape, found.dtype) == (native.shape, native.dtype)
    assert found.tobytes() == native.tobytes()
    assert found.flags["WRITEABLE"]
    assert found.flags["ALIGNED"]


@pytest.mark.parametrize("endian", ENDIANS)
@pytest.mark.parametrize("name", NRRD_TYPES)
def test_every_name_of_a_type_is_known(tmp_path, name, endian):
    array = numbers(NRRD_TYPES[name], (3, 4))
    assert_as_pynrrd(write_nrrd(tmp_path / "a.nrrd", array, endian=endian, name=name))


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("endian", ENDIANS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2", "ascii"])
def test_nrrd_is_read_as_pynrrd_does(tmp_path, encoding, kind, endian, detached):
    for shape in SHAPES:
        array = numbers(kind, shape)
        path = tmp_path / ("a.nhdr" if detached else "a.nrrd")
        write_nrrd(path, array, encoding, endian, detached="a.data" if detached else None)
        assert_same(assert_as_pynrrd(path).array, array)


@pytest.mark.parametrize("encoding", ["gz", "bz2", "text", "txt", "ASCII"])
def test_every_name_of_an_encoding_is_known(tmp_path, encoding):
    assert_as_pynrrd(write_nrrd(tmp_path / "a.nrrd", numbers("i4", (3, 4)), encoding))


@pytest.mark.parametrize("endian", ENDIANS)
@pytest.mark.parametrize("kind", KINDS)
def test_hexadecimal_digits_are_bytes(tmp_path, kind, endian):
    array = numbers(kind, (3, 5))
    assert_same(volumes.read(write_nrrd(tmp_path / "a.nrrd", array, "hex", endian)).array, array)


def test_what_pynrrd_writes_is_read(tmp_path):
    array = numbers("i2", (4, 5, 6))
    for encoding in ("raw", "gzip", "bzip2", "ascii"):
        for name in ("a.nrrd", "a.nhdr"):
            header = {
                "encoding": encoding,
                "space": "left-posterior-superior",
                "space directions": np.diag([0.5, 2.0, 3.0]),
                "space origin": np.zeros(3),
                "kinds": ["domain"] * 3,
                "who": "a person",
            }
            nrrd.write(str(tmp_path / name), array, header)
            found = volumes.read(tmp_path / name, "F")
            assert_same(found.array, nrrd.read(str(tmp_path / name))[0])
            assert_same(found.array, array)
            assert found.spacing == (0.5, 2.0, 3.0)
            assert volumes.read(tmp_path / name).spacing == (3.0, 2.0, 0.5)
            assert (found.header["who"], found.header["type"]) == ("a person", "int16")


def test_headers_of_all_kinds(tmp_path):
    array = numbers("u2", (2, 3, 4, 3))
    more = (
        "# a comment: with a colon",
        "space directions: none (0,0,2) (0,-0.5,0) (3,0,4)",
        'labels: "" "x" "y" "z"',
        "kinds: vector domain domain domain",
        "key:=a value := of mine",
        "content: ",
    )
    for newline in ("\n", "\r\n"):
        found = assert_as_pynrrd(write_nrrd(tmp_path / "a.nrrd", array, more=more, newline=newline))
        assert found.spacing == (5.0, 0.5, 2.0, None)
        assert (found.header["key"], found.header["content"]) == ("a value := of mine", "")
        expected = nrrd.read_header(str(tmp_path / "a.nrrd"))
        assert list(found.header) == list(expected)
    assert volumes.read(write_nrrd(tmp_path / "b.nrrd", array)).spacing == (None,) * 4
    spaced = write_nrrd(tmp_path / "c.nrrd", array, more=("spacings: 1 2 3.5 4e-1",))
    assert assert_as_pynrrd(spaced).spacing == (0.4, 3.5, 2.0, 1.0)


def test_lines_and_bytes_before_the_numbers(tmp_path):
    array = numbers("f4", (3, 4))
    data = array.tobytes()
    for detached in (None, "a.raw"):
        for junk, more in (
            (b"one\ntwo\n", ("line skip: 2",)),
            (b"12345", ("byte skip: 5",)),
            (b"one\n12", ("lineskip: 1", "byteskip: 2")),
            (b"any number of\nbytes", ("byte skip: -1",)),
        ):
            path = tmp_path / "a.nhdr"
            write_nrrd(path, array, data=junk + data, detached=detached, more=more)
            assert_same(assert_as_pynrrd(path).array, array)
    # Of what is packed, lines come before and bytes after it is unpacked.
    line = b"one\n" + gzip.compress(data)
    assert_as_pynrrd(write_nrrd(tmp_path / "b.nrrd", array, "gzip", data=line, more=("line skip: 1",)))
    for pack, encoding in ((gzip.compress, "gzip"), (bz2.compress, "bzip2")):
        last = write_nrrd(
            tmp_path / "c.nrrd", array, encoding, data=pack(b"123" + data), more=("byte skip: -1",)
        )
        assert_same(assert_as_pynrrd(last).array, array)
        some = write_nrrd(
            tmp_path / "d.nrrd", array, encoding, data=pack(b"123" + data), more=("byte skip: 3",)
        )
        assert_same(volumes.read(some).array, array)


def test_several_members_are_one_stream(tmp_path):
    array = numbers("i4", (50, 100))
    data = array.tobytes()
    for pack, encoding in ((gzip.compress, "gzip"), (bz2.compress, "bzip2")):
        members = pack(data[:7000]) + pack(b"") + pack(data[7000:])
        path = write_nrrd(tmp_path / "a.nrrd", array, encoding, data=members)
        assert_same(volumes.read(path).array, array)
        short = write_nrrd(tmp_path / "b.nrrd", array, encoding, data=pack(data[:7000]))
        with pytest.raises(ValueError, match="20000 bytes of numbers, but there are 7000"):
            volumes.read(short)


# --- NIfTI ---

NIFTI_CLASSES = {1: nibabel.Nifti1Header, 2: nibabel.Nifti2Header}


def write_nifti(
    path: Path,
    array: np.ndarray,
    version: int = 1,
    endian: str = "little",
    scaling: tuple[float, float] = (1.0, 0.0),
    offset: int | None = None,
    behind: bytes = b"",
    **fields: object,
) -> Path:
    header = NIFTI_CLASSES[version](endianness=ENDIANS[endian])
    header.set_data_shape(array.shape)
    header.set_data_dtype(array.dtype)
    pair = ".hdr" in path.name
    header["vox_offset"] = offset if offset is not None else 0 if pair else header.single_vox_offset
    header["scl_slope"], header["scl_inter"] = scaling
    header["pixdim"][1:5] = 0.5, 2.0, 3.0, 7.0
    for name, value in fields.items():
        header[name] = value
    if pair:
        header["magic"] = header.pair_magic
    data = array.astype(array.dtype.newbyteorder(ENDIANS[endian])).tobytes("F")
    before = bytes(int(header["vox_offset"]) - (0 if pair else len(header.binaryblock)))
    opened = gzip.open if path.name.endswith(".gz") else open
    if pair:
        with opened(path, "wb") as file:
            file.write(header.binaryblock)
        with opened(path.parent / path.name.replace(".hdr", ".img"), "wb") as file:
            file.write(before + data + behind)
    else:
        with opened(path, "wb") as file:
            file.write(header.binaryblock + before + data + behind)
    return path


def assert_as_nibabel(path: Path) -> volumes.Volume:
    image = nibabel.load(path)
    with np.errstate(all="ignore"):
        expected = image.get_fdata()
    for order, turned in (("F", expected), ("C", expected.T)):
        assert_same(volumes.read(path, order).array, turned)
    found = volumes.read(path, "F", scaled=False)
    assert_same(found.array, np.asanyarray(image.dataobj.get_unscaled()))
    return found


@pytest.mark.parametrize("endian", ENDIANS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "a.hdr", "a.hdr.gz"])
def test_nifti_is_read_as_nibabel_does(tmp_path, name, version, kind, endian):
    for shape in SHAPES:
        array = numbers(kind, shape)
        for scaling in ((1.0, 0.0), (0.0, 5.0), (np.nan, 1.0), (0.1, -1024.0), (2.5, 0.0), (1.0, 1e-3)):
            found = assert_as_nibabel(write_nifti(tmp_path / name, array, version, endian, scaling))
            assert_same(found.array, array)
        assert found.spacing == (0.5, 2.0, 3.0, None)[: len(shape)]


def test_what_nibabel_writes_is_read(tmp_path):
    values = np.random.default_rng(0).normal(0, 100, (4, 5, 6))
    for kind in (nibabel.Nifti1Image, nibabel.Nifti2Image):
        for name in ("a.nii", "a.nii.gz"):
            image = kind(values, np.diag([1.5, 1.5, 4.0, 1.0]))
            image.header.set_data_dtype("int16")
            nibabel.save(image, tmp_path / name)
            found = assert_as_nibabel(tmp_path / name)
            assert found.spacing == (1.5, 1.5, 4.0)
            header = nibabel.load(tmp_path / name).header
            for field in ("datatype", "sform_code", "qoffset_x"):
                assert float(found.header[field]) == float(header[field])
            for field in ("dim", "pixdim", "srow_z"):
                assert found.header[field].split() == [
                    str(float(n)).removesuffix(".0") for n in header[field]
                ]


def test_nifti_with_more_around_its_numbers(tmp_path):
    array = numbers("i2", (5, 6, 7))
    for name in ("a.nii", "a.nii.gz"):
        assert_as_nibabel(write_nifti(tmp_path / name, array, offset=1024, behind=b"nobody's"))
    data = write_nifti(tmp_path / "b.nii", array).read_bytes()
    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(data[:100]) + gzip.compress(data[100:]))
    assert_as_nibabel(tmp_path / "b.nii.gz")


def test_axes_of_a_single_number_need_no_spacing(tmp_path):
    array = numbers("u1", (5, 6, 1))
    found = assert_as_nibabel(write_nifti(tmp_path / "a.nii", array, pixdim=[1, 2, 3, 0, 0, 0, 0, 0]))
    assert found.spacing == (2.0, 3.0, None)


# --- bad input ---

LITTLE = np.arange(6, dtype="f4").reshape(2, 3)
BOMB = gzip.compress(bytes(1 << 28), 9)


def bad(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are not what they should be, and what is said about them."""
    data = LITTLE.tobytes()
    small = np.zeros((1 << 10,), "u1")
    outside = folder / "outside.raw"
    outside.write_bytes(data)
    inside = folder / "inside"
    inside.mkdir()

    def text(name: str, content: str | bytes) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def claim(name: str, encoding: str, sizes: str, data: bytes) -> Path:
        dimension = len(sizes.split())
        header = f"NRRD0004\ntype: uchar\ndimension: {dimension}\nsizes: {sizes}\nencoding: {encoding}\n\n"
        return text(name, header.encode() + data)

    def little(title: str, *arguments: object, **more: object) -> Path:
        return write_nrrd(folder / f"{title}.nrrd", LITTLE, *arguments, **more)

    def nifti(name: str, array: np.ndarray = LITTLE, **more: object) -> Path:
        return write_nifti(folder / name, array, **more)

    huge, large = "10000 10000 10000", "10000 1000 1000"
    zeros, half = bz2.compress(bytes(10**6)), nifti("whole.nii").read_bytes()[:300]
    bomb = write_nrrd(folder / "bomb.nrrd", small, "gzip", data=BOMB)
    bomb2 = write_nrrd(folder / "bomb2.nrrd", small, "bzip2", data=bz2.compress(bytes(1 << 26)))
    up = write_nrrd(inside / "up.nhdr", LITTLE, detached="../outside.raw")
    absolute = write_nrrd(inside / "absolute.nhdr", LITTLE, detached=str(outside))
    return {
        "empty": (text("empty.nrrd", ""), "empty"),
        "not one": (text("page.nrrd", "<html>"), "neither an NRRD nor a NIfTI file"),
        "10^12 voxels": (claim("t.nrrd", "gzip", huge, BOMB), "more than 17179869184 bytes"),
        "10^12 voxels, raw": (claim("u.nrrd", "raw", huge, data), "more than 17179869184 bytes"),
        "10^10 voxels, raw": (claim("v.nrrd", "raw", large, data), "but there are 24"),
        "10^10 voxels, gzip": (claim("w.nrrd", "gzip", large, data), "at most 24768 in the 24 bytes of gzip"),
        "10^9 voxels, bzip2": (
            claim("x.nrrd", "bzip2", "10000 100000", zeros),
            "bytes of bzip2 that the file",
        ),
        "10^8 voxels, bzip2": (claim("x8.nrrd", "bzip2", "10000 10000", zeros), "at most 1000000 in the"),
        "10^10 voxels, text": (claim("y.nrrd", "text", large, b"1 2 3"), "at most 3"),
        "a bomb": (bomb, "1024 bytes of numbers, but there are more"),
        "a bomb of bzip2": (bomb2, "1024 bytes of numbers, but there are more"),
        "short": (little("short", data=data[:-1]), "24 bytes of numbers, but there are 23"),
        "short gzip": (little("short-gzip", "gzip", data=gzip.compress(data[:8])), "but there are 8"),
        "cut gzip": (little("cut-gzip", "gzip", data=gzip.compress(data)[:-9]), "damaged"),
        "cut bzip2": (little("cut-bzip2", "bzip2", data=bz2.compress(data)[:-9]), "damaged"),
        "long": (little("long", data=data * 2), "but there are more"),
        "nan spacing": (little("nan", more=("spacings: 1 nan",)), "spacing of its axis 1 is NaN"),
        "zero spacing": (little("zero", more=("spacings: 0 1",)), "spacing of its axis 0 is 0"),
        "nan direction": (little("way", more=("space directions: (1,0) (nan,1)",)), "its axis 1 is NaN"),
        "outside": (up, "outside its folder"),
        "outside, absolute": (absolute, "outside its folder"),
        "a block": (little("block", name="block"), '"block", which is not read'),
        "words": (little("words", "text", data=b"1 2 three 4 5 6"), '"three", its number 2'),
        "out of range": (
            claim("range.nrrd", "text", "2", b"1 256"),
            '"256", its number 1, is not of type u8',
        ),
        "nifti, short": (
            nifti("short.nii", LITTLE[:1], dim=[2, 9, 9, 1, 1, 1, 1, 1]),
            "324 bytes of numbers",
        ),
        "nifti, 10^12": (
            nifti("t.nii.gz", dim=[3, 10**4, 10**4, 10**4, 1, 1, 1, 1]),
            "more than 17179869184",
        ),
        "nifti, 10^9": (
            nifti("u.nii.gz", dim=[3, 1000, 1000, 1000, 1, 1, 1, 1]),
            "bytes of gzip that the file",
        ),
        "nifti, zero spacing": (nifti("zero.nii", pixdim=[1, 0, 1, 1, 1, 1, 1, 1]), "axis 0 is 0"),
        "nifti, nan spacing": (nifti("nan.nii", pixdim=[1, 1, np.nan, 1, 1, 1, 1, 1]), "axis 1 is NaN"),
        "nifti, complex": (nifti("complex.nii", LITTLE.astype("c8")), "complex ones"),
        "nifti, no intercept": (nifti("i.nii", scaling=(2.0, np.nan)), "intercept is NaN"),
        "nifti, cut": (text("cut.nii", half), "ends in its header"),
    }


# One process for all, which may take no more memory than this, and which has no torch.
LIMITED = """
import json, resource, sys
import numpy
from feedline import volumes
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 64 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
said = {}
for name, path in json.load(sys.stdin).items():
    try:
        said[name] = ["read", str(volumes.read(path))]
    except Exception as error:
        said[name] = [type(error).__name__, str(error)]
assert "torch" not in sys.modules
json.dump(said, sys.stdout)
"""


def test_bad_files_are_refused_in_little_memory(tmp_path):
    cases = bad(tmp_path)
    asked = json.dumps({name: str(path) for name, (path, _) in cases.items()})
    run = subprocess.run(
        [sys.executable, "-c", LIMITED], input=asked, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    for name, (path, expected) in cases.items():
        kind, text = said[name]
        assert kind == ("OSError" if name == "empty" else "ValueError"), (name, kind, text)
        assert re.search(expected, text), (name, text)
        assert path.name in text or "outside.raw" in text, (name, text)


def test_numbers_outside_are_read_if_that_is_allowed(tmp_path):
    (tmp_path / "inside").mkdir()
    path = write_nrrd(tmp_path / "inside/a.nhdr", LITTLE, detached="../a.raw")
    with pytest.raises(ValueError, match="outside its folder"):
        volumes.read(path)
    assert_same(volumes.read(path, allow_outside=True).array, LITTLE)
    os.symlink(tmp_path / "a.raw", tmp_path / "inside/link.raw")
    write_nrrd(path, LITTLE, detached="b.raw")
    path.write_text(path.read_text().replace("b.raw", "link.raw"))
    with pytest.raises(ValueError, match="outside its folder"):
        volumes.read(path)


def test_files_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"none\.nrrd"):
        volumes.read(tmp_path / "none.nrrd")
    with pytest.raises(OSError, match="is a directory"):
        volumes.read(tmp_path)
    path = write_nrrd(tmp_path / "a.nhdr", LITTLE, detached="a.raw")
    (tmp_path / "a.raw").rename(tmp_path / "b.raw")
    with pytest.raises(FileNotFoundError, match=r"a\.raw"):
        volumes.read(path)
    with pytest.raises(ValueError, match='the order is "C" or "F"'):
        volumes.read(path, "K")
    (tmp_path / "b.raw").rename(tmp_path / "a.raw")
    monkeypatch.chdir(tmp_path)
    assert_same(volumes.read("a.nhdr").array, LITTLE)


def test_threads_read_at_the_same_time(tmp_path):
    arrays = [numbers("i2", (10, 20, 30 + number), number) for number in range(8)]
    paths = [
        write_nrrd(tmp_path / f"{number}.nrrd", array, ("gzip", "raw", "bzip2")[number % 3])
        for number, array in enumerate(arrays)
    ]
    with ThreadPoolExecutor(4) as pool:
        for array, found in zip(arrays * 5, pool.map(volumes.read, paths * 5), strict=True):
            assert_same(found.array, array)


def test_other_threads_run_while_a_file_is_waited_for(tmp_path):
    # A pipe can be opened to be read once somebody opens it to be written: that is done by this thread.
    os.mkfifo(tmp_path / "pipe.nrrd")

    def read() -> None:
        with pytest.raises(OSError, match="empty"):
            volumes.read(tmp_path / "pipe.nrrd")

    reader = threading.Thread(target=read)
    reader.start()
    os.close(os.open(tmp_path / "pipe.nrrd", os.O_WRONLY))
    reader.join()


def test_the_examples_are_true():
    assert doctest.testmod(volumes).failed == 0
