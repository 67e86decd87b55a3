"""The ``feedline`` command as a person meets it, and the processes that it measures."""

from __future__ import annotations

import importlib.metadata
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from feedline.bench import data
from feedline.bench.consumer import take
from feedline.bench.data import cells, text, volumes
from feedline.bench.request import BadRequestError, Request, seconds_of

pytestmark = pytest.mark.timeout(300)

SETTINGS = ["--workers", "0,2", "--batch", "2", "--repeats", "2", "--scale", "smoke"]
SMALL = [*SETTINGS, "--batches", "3"]


def feedline(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "feedline", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, **options)


def run(request: dict[str, Any], folder: Path | None = None) -> list[dict[str, Any]]:
    """The lines of a runner."""
    command = [sys.executable, "-m", "feedline.bench.runner"]
    answer = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, timeout=200, cwd=folder
    )
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_a_study_is_measured_shown_and_kept_and_goes_on_where_it_was(tmp_path: Path) -> None:
    asked = [
        "bench",
        "delay",
        "--variant",
        "small",
        *SMALL,
        "--out",
        "runs",
        "--cache",
        str(tmp_path / "cache"),
    ]
    first = feedline(tmp_path, *asked)
    assert first.returncode == 0, first.stderr
    assert first.stderr == ""
    assert "\x1b" not in first.stdout
    lines = first.stdout.splitlines()
    assert lines[0] == "delay small, smoke scale, 2 repeats"
    assert {line.split()[0] for line in lines[3:8]} == {"torch", "feedline", "feedline,"}
    assert lines[-1] == "report: runs/report.html"
    record = json.loads((tmp_path / "runs/delay-small-smoke.json").read_text())
    assert (record["kind"], record["version"]) == ("feedline-bench", 1)
    assert [len(point["repeats"]) for point in record["points"]] == [2] * 5
    assert all(point["repeats"][0]["epochs"][0]["items"] == 6 for point in record["points"])
    assert record["contestants"]["feedline"]["check"]["same"] is True
    page = (tmp_path / "runs/report.html").read_text()
    assert page.count("<svg") >= 6
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    # Nothing is measured again.
    again = feedline(tmp_path, *asked, "--json")
    assert json.loads(again.stdout)[0]["points"] == record["points"]
    # A page of the record alone, and its plots.
    told = feedline(tmp_path, "report", "runs/delay-small-smoke.json", "--out", "page.html", "--svg", "plots")
    assert told.returncode == 0, told.stderr
    assert len(list((tmp_path / "plots").glob("*.svg"))) == page.count("<svg")


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path) -> None:
    asked = [
        "bench",
        "delay",
        *SETTINGS,
        "--batches",
        "100",
        "--out",
        "runs",
        "--cache",
        str(tmp_path / "cache"),
    ]
    command = [sys.executable, "-m", "feedline", *asked]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    record = tmp_path / "runs/delay-image-smoke.json"
    deadline = time.monotonic() + 120
    while not (record.exists() and '"waits_ms"' in record.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted; the same command goes on where it was" in out
    assert err == ""
    kept = json.loads(record.read_text())["points"]
    assert 0 < sum(len(point["repeats"]) for point in kept) < 10
    # What was measured is not measured again.
    (whole,) = json.loads(feedline(tmp_path, *asked, "--json").stdout)
    for before, after in zip(kept, whole["points"], strict=True):
        assert len(after["repeats"]) == 2
        assert after["repeats"][: len(before["repeats"])] == before["repeats"]


OWN = """
import os, time, torch

class Squares:
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return torch.tensor([index * index])

squares = Squares()

def make():
    return Squares()

class Broken(Squares):
    def __getitem__(self, index):
        raise ValueError(f"no sample {index}")

class Frozen(Squares):
    def __init__(self):
        self.rng = torch.Generator().manual_seed(1)
        self.lock = __import__("threading").Lock()
    def __getitem__(self, index):
        return torch.rand(3, generator=self.rng)

class Noisy(Squares):
    def __getitem__(self, index):
        return torch.rand(3)

class Hanging(Squares):
    def __getitem__(self, index):
        time.sleep(1000)

class Deadly(Squares):
    def __getitem__(self, index):
        os.kill(os.getpid(), 9)
"""


def test_a_dataset_of_ones_own_is_measured(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    settings = ["--workers", "2", "--batch", "2", "--batches", "3", "--repeats", "1", "--only", "torch,null"]
    for name in ("mine:make", "mine:squares"):
        found = feedline(tmp_path, "bench", name, *settings, "--step", "1ms", "--json", "--out", "runs")
        assert found.returncode == 0, found.stderr
        (record,) = json.loads(found.stdout)
        assert record["job"]["data"] == name
        assert [len(point["repeats"]) for point in record["points"]] == [1, 1]
        assert len(record["points"][0]["repeats"][0]["epochs"][0]["steps_ms"]) == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["dealy"], 'there is no study "dealy"; there are delay, images, cells, text, volumes'),
        (["delay", "--variant", "big"], 'delay has no variant "big"; it has image, small'),
        (["delay", "--against", "tensorflow"], 'there is no contestant "tensorflow"; there are'),
        (["delay", "--batch", "0"], "--batch must be at least 1"),
        (["delay", "--pin", "maybe"], "--pin is off, on, or off,on, not"),
        (["delay", "--config", "none.toml"], "none.toml cannot be read"),
        (["delay", "--python", "/none"], "the loaders could not be listed"),
        (["delay", "--out", "/proc/none"], "/proc/none cannot be made"),
    ],
)
def test_what_cannot_be_asked_is_explained(tmp_path: Path, asked: list[str], said: str) -> None:
    answer = feedline(tmp_path, "bench", *asked)
    assert answer.returncode == 1
    assert said in answer.stderr
    assert "panicked" not in answer.stderr


def test_a_dataset_that_fails_is_an_error_of_its_points_and_the_others_are_measured(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "settings.toml").write_text("workers = [0]\nbatch = [2]\nbatches = 3\nrepeats = 1\n")
    for name, said in (("mine:Broken", "no sample 0"), ("mine:Deadly", "ended")):
        found = feedline(tmp_path, "bench", name, "--config", "settings.toml", "--out", "runs")
        assert found.returncode == 1, found.stdout
        assert found.stdout.startswith(f"{name}, default scale")
        assert said in found.stdout
    # Without the traceback that torch's error has in the middle.
    asked = ["bench", "mine:Broken", "--config", "settings.toml", "--workers", "2", "--only", "torch"]
    assert "process 0. ValueError: no sample 0\n" in feedline(tmp_path, *asked).stdout


def test_what_no_contestant_can_load_ends_a_run_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "empty").mkdir()
    for asked, said in (
        (["mine:none"], "mine has no 'none'"),
        (["none:make"], "there is no module 'none'"),
        (["images", "--data", "empty"], "there are no files *.jpg"),
        (["images", "--data", "none"], "there is no folder none"),
        (["mine:Hanging", "--limit", "5"], "no result after 5 s; it was stopped"),
    ):
        found = feedline(tmp_path, "bench", *asked)
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr.startswith("feedline: ")
        assert said in found.stderr
        assert found.stderr.count("\n") == 1


def test_what_the_studies_need_is_named_where_it_is_missing(tmp_path: Path) -> None:
    # A torch that is not there, for an interpreter that has all else.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    found = feedline(tmp_path, "bench", "delay", env={**os.environ, "PYTHONPATH": _path(tmp_path)})
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == (
        "feedline: there is no torch here; pip install 'feedline[bench]' brings what the studies need\n"
    )


def _path(first: Path) -> str:
    return os.pathsep.join([str(first), os.environ.get("PYTHONPATH", "")])


def test_a_report_of_half_a_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"kind": "feedline-bench", "ver')
    answer = feedline(tmp_path, "report", "run.json")
    assert answer.returncode == 1
    assert "run.json is not a whole record of feedline bench" in answer.stderr


def test_a_runner_says_what_it_does_and_what_is_wrong_in_lines(tmp_path: Path) -> None:
    request = {"study": "text", "contestant": "torch", "batch": 8, "batches": 2, "cache": str(tmp_path)}
    lines = run(request)
    assert lines[0] == {"event": "state", "state": "preparing"}
    assert lines[-1]["event"] == "result"
    assert lines[-1]["epochs"][0]["items"] == 16
    for wrong, said in (
        ({"study": "txt"}, "there is no study 'txt'"),
        ({"contestant": "tf"}, "there is no contestant 'tf'"),
        ({"wokers": 2}, "there is no setting wokers"),
        ({"step": "soon"}, "a step is none, a time such as 20ms"),
        ({"variant": "xml"}, "text has no variant 'xml'"),
        ({"data": str(tmp_path / "none")}, "cannot be read"),
    ):
        (*_, last) = run(request | wrong)
        assert last["event"] == "error"
        assert said in last["message"]


def test_a_first_batch_is_compared(tmp_path: Path) -> None:
    request = {"study": "text", "contestant": "torch", "batch": 8, "batches": 2, "cache": str(tmp_path)}
    kept = {"mode": "keep", "reference": str(tmp_path / "first.npz")}
    assert run(request | kept)[-1]["event"] == "result"
    check = kept | {"mode": "check"}
    same = run(request | check | {"contestant": "feedline", "workers": 2})[-1]
    assert (same["same"], same["difference"]) == (True, 0.0)
    other = run(request | check | {"batch": 4})[-1]
    assert other["same"] is False


@pytest.mark.parametrize("contestant", ["torch", "feedline", "threads"])
def test_a_timeline_says_who_loaded_what_when(contestant: str) -> None:
    request = {"study": "delay", "variant": "small", "contestant": contestant, "mode": "timeline"}
    *_, result = run({**request, "workers": 2, "batch": 8, "batches": 3, "step": "1ms"})
    assert result["event"] == "result", result
    epoch, lanes = result["epoch"], result["lanes"]
    assert len(epoch["waits_ms"]) == len(epoch["steps_ms"]) == 3
    assert len(lanes) == 2
    pieces = [piece for lane in lanes for piece in lane]
    for number in range(3):
        of_batch = [piece for piece in pieces if piece[2] == number]
        assert sum(piece[3] for piece in of_batch) == 8
        assert contestant != "torch" or len(of_batch) == 1, "torch has a batch made by one worker"
    assert all(0 <= begin <= end <= epoch["total_s"] for begin, end, _, _ in pieces)
    for lane in lanes:
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(lane))


def test_the_clock_stands_still_while_somebody_looks_at_a_loader_that_is_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, alive, looked = [0.0], [False], list[bool]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def loader() -> Iterator[Any]:
        alive[0] = True
        for number in range(3):
            now[0] += 1
            yield np.array([number, number])
        alive[0] = False

    def look() -> None:
        looked.append(alive[0])
        now[0] += 100

    request = Request("own", "torch", batch=2)
    for last, is_there in ((3, True), (None, False)):
        looked.clear()
        taken = take(loader, request, lambda _: None, look, last)
        assert looked == [is_there]
        assert (taken.total, taken.paused, taken.waits) == (3, 100, [1, 1, 1])


def test_memory_is_looked_at_however_brief_a_run_is(tmp_path: Path) -> None:
    asked = ["bench", "delay", "--variant", "small", "--only", "torch,null", "--workers", "1", "--batch", "1"]
    found = feedline(tmp_path, *asked, "--batches", "2", "--repeats", "1", "--json")
    assert found.returncode == 0, found.stderr
    (record,) = json.loads(found.stdout)
    for point in record["points"]:
        (measured,) = point["repeats"]
        # Torch and numpy alone take more than this; before they are imported a process has a tenth of it.
        assert measured["memory"]["median_mb"] > 60
        assert measured["memory"]["monitor"] < 0.01


def test_a_loader_that_does_other_work_is_shown_but_not_ranked(tmp_path: Path) -> None:
    asked = ["bench", "delay", "--variant", "small", "--only", "torch,null", "--workers", "1", "--batch", "2"]
    found = feedline(tmp_path, *asked, "--batches", "3", "--repeats", "1")
    assert found.returncode == 0, found.stderr
    said = "nothing is not ranked: loads nothing: it hands out one finished batch again and again"
    assert said in found.stdout.splitlines()
    assert "nothing (other work)" in found.stdout
    assert "\N{MULTIPLICATION SIGN} torch" not in found.stdout, "there is nobody else to compare with torch"
    assert said in (tmp_path / "feedline-runs/report.html").read_text()


def test_steps_are_times() -> None:
    assert seconds_of("none") == (False, 0.0)
    assert seconds_of("2s") == (False, 2.0)
    assert seconds_of("cpu:20ms") == (True, 0.02)
    for wrong in ("", "2", "-1s", "cpu:", "infs", "nans"):
        with pytest.raises(BadRequestError):
            seconds_of(wrong)
    with pytest.raises(BadRequestError):
        Request.from_json({"study": "delay", "contestant": "torch", "scale": "huge"})


def test_generated_data_is_the_same_everywhere_and_written_once(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    folder = text.folder(tmp_path, "smoke", "jsonl", lambda done, of: told.append((done, of)))
    assert told[-1] == (1, 1)
    assert text.folder(tmp_path, "smoke", "jsonl", pytest.fail) == folder
    first = json.loads((folder / "reviews.jsonl").read_text().splitlines()[0])
    assert first == {"text": text.review(0, text.vocabulary())[0], "label": 0}
    assert not [path for path in tmp_path.iterdir() if path != folder]


def test_an_interrupted_generator_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        data.generated(tmp_path, "half", range(4), _fail, lambda done, of: None)
    assert list(tmp_path.iterdir()) == []


def _fail(_folder: Path, index: int) -> None:
    assert 1 // (2 - index) or True


def test_a_volume_and_a_cell_are_files_of_their_format() -> None:
    ct, pet, mask, predicted = volumes.patient(0, 16)
    assert {volume.shape for volume in (ct, pet, mask, predicted)} == {(16, 16, 16)}
    head, _, body = volumes.nrrd(mask, "raw").partition(b"\n\n")
    assert b"sizes: 16 16 16" in head
    assert np.array_equal(np.frombuffer(body, np.uint8).reshape(16, 16, 16), mask)
    pixels = cells.cell(3)
    written = cells.tiff(pixels)
    assert written[:4] == b"II*\0"
    assert np.array_equal(np.frombuffer(written[-pixels.nbytes :], np.uint16).reshape(pixels.shape), pixels)
    pages = tifffile.imread(io.BytesIO(cells.tiff_of_pages(pixels)))
    assert np.array_equal(pages, pixels.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("study", "variant"),
    [("cells", "read"), ("cells", "open"), ("cells", "pages"), ("text", "pieces"), ("text", "jsonl")],
)
def test_what_needs_no_python_gives_what_python_gives(tmp_path: Path, study: str, variant: str) -> None:
    asked = {"study": study, "variant": variant, "scale": "smoke", "batch": 8, "batches": 2, "workers": 2}
    asked |= {"cache": str(tmp_path), "reference": str(tmp_path / "first.npz")}
    assert run(asked | {"contestant": "torch", "mode": "keep"})[-1]["event"] == "result"
    checked = run(asked | {"contestant": "native", "mode": "check"})[-1]
    assert (checked["same"], checked["difference"]) == (True, 0.0)


def test_the_process_of_a_measurement_ends_with_the_command(tmp_path: Path) -> None:
    """A command that is killed leaves no process behind."""
    asked = ["bench", "delay", *SETTINGS, "--batches", "400", "--cache", str(tmp_path / "cache")]
    process = subprocess.Popen(
        [sys.executable, "-m", "feedline", *asked], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (children := _asked_with(process.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    while any(Path(f"/proc/{pid}").exists() and _alive(pid) for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _asked_with(parent: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_list_names_every_contestant() -> None:
    command = [sys.executable, "-m", "feedline.bench.runner", "--list"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=100, env=dict(os.environ))
    (line,) = [json.loads(line) for line in answer.stdout.splitlines()]
    found = {entry["name"]: entry for entry in line["contestants"]}
    assert {"torch", "feedline", "threads", "null", "dali", "spdl", "grain"} <= set(found)
    assert found["torch"]["version"] == importlib.metadata.version("torch")
    assert found["feedline"]["version"] == importlib.metadata.version("feedline"), (
        "not that of torch, which it needs"
    )
    assert found["ffcv"]["differs"].startswith("decodes files that its writer has encoded anew")
    assert found["dali"]["how"].startswith("pip install")


def test_the_best_setting_is_found_and_said_how_to_use(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    asked = ["tune", "mine:make", "--seconds", "1", "--workers", "0,2", "--batch", "4"]
    said = feedline(tmp_path, *asked)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0] in ("from feedline import DataLoader", "from torch.utils.data import DataLoader")
    assert lines[1].startswith("DataLoader(dataset, batch_size=4, num_workers=")
    document = json.loads(feedline(tmp_path, *asked, "--json").stdout)
    assert (document["kind"], document["version"]) == ("feedline-tune", 1)
    assert {entry["point"]["contestant"] for entry in document["ranked"]} == {"torch", "feedline", "threads"}
    broken = feedline(tmp_path, "tune", "mine:Broken", "--seconds", "1", "--workers", "0")
    assert broken.returncode == 1
    assert "no setting could be measured: ValueError: no sample 0" in broken.stderr


def test_a_doctor_finds_what_is_unhealthy_about_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)

    def found(name: str, code: int = 0) -> dict[str, str]:
        answer = feedline(tmp_path, "doctor", name, "--json")
        assert answer.returncode == code, answer.stderr
        document = json.loads(answer.stdout)
        assert (document["kind"], document["version"]) == ("feedline-doctor", 1)
        return {entry["about"]: entry["severity"] for entry in document["findings"]}

    healthy = found("mine:make")
    assert (healthy["pickling"], healthy["workers"]) == ("good", "good")
    assert "random numbers" not in healthy
    frozen = found("mine:Frozen")
    assert (frozen["pickling"], frozen["random numbers"]) == ("warning", "warning")
    assert found("mine:Noisy")["random numbers"] == "good"
    assert found("mine:Broken", 1)["samples"] == "problem"
    answer = feedline(tmp_path, "doctor", "mine:none")
    assert answer.returncode == 1
    assert "mine has no 'none'" in answer.stderr
