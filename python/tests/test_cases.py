"""Cases of several volumes, made into samples: beside what numpy and scipy make of the same files."""

import doctest
import multiprocessing
import pickle
import threading
from pathlib import Path

import feedline
import nibabel
import nrrd
import numpy as np
import pytest
import torch
from compare import assert_same
from feedline import DataLoader, GroupBatches, Volumes, _engine, batches, cases, voxels
from feedline._machine import Machine
from scipy import ndimage

SHAPE = (12, 14, 16)
#: z, y, x.
SPACING = (3.0, 1.0, 1.5)
CASES = 5
#: Of so many cases, about half fit into a cache of so many bytes: the ten that the batches under way may be of, and
#: one more that each of eight workers still holds.
MANY, ROOM = 40, 108 << 10


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each case: a CT as packed NRRD, labels as NIfTI."""
    root = tmp_path_factory.mktemp("patients")
    for number in range(CASES):
        folder = root / f"case-{number}"
        folder.mkdir()
        ct, labels = arrays(number)
        # The fastest axis comes first in both formats.
        directions = np.diag(SPACING[::-1])
        nrrd.write(str(folder / "ct.nrrd"), ct, {"space directions": directions}, index_order="C")
        affine = np.diag([*SPACING[::-1], 1.0])
        nibabel.save(nibabel.Nifti1Image(labels.T, affine), folder / f"labels-{number}.nii.gz")
    return root


def arrays(number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(number)
    labels = np.zeros(SHAPE, np.uint8)
    labels[3:9, 4:10, 5 + number : 9 + number] = 1
    labels[10, 2, 3] = 2
    return rng.integers(-1000, 2000, SHAPE).astype(np.int16), labels


def patients(root: Path) -> Volumes:
    return Volumes.folder(root, ct="ct.nrrd", labels="labels*.nii.gz")


def as_array(image: np.ndarray) -> np.ndarray:
    """A function of a user's, that can be pickled."""
    return {"sum": image["ct"].astype(np.float32) + image["labels"].astype(np.float32)}


def part_of(volumes: dict, part: int) -> dict:
    return {"row": volumes["ct"][part].copy(), "part": np.array([part])}


def test_a_case_is_a_sample(root: Path) -> None:
    dataset = patients(root)
    assert len(dataset) == CASES
    for number in range(CASES):
        ct, labels = arrays(number)
        assert_same(dataset[number], {"ct": ct, "labels": labels})
    assert_same(dataset[-1], dataset[CASES - 1])
    with pytest.raises(IndexError):
        dataset[CASES]
    assert repr(dataset.select("ct")).startswith("Volumes(5 cases).Select")


def test_steps_are_those_of_numpy_and_scipy(root: Path) -> None:
    dataset = (
        patients(root)
        .window("ct", -160, 240)
        .label("labels", 1, to="tumour")
        .distance("tumour", to="far")
        .distance("tumour", to="near", sigma=4.0)
        .dilate("tumour", to="larger")
        .erode("tumour", to="smaller")
        .opened("tumour", to="opened")
        .gaussian("ct", 1.0, to="blurred")
    )
    for number in range(CASES):
        ct, labels = arrays(number)
        found, ones = dataset[number], np.ones((3, 3, 3))
        mask = labels == 1
        away = ndimage.distance_transform_edt(~mask, sampling=SPACING)
        np.testing.assert_allclose(found["ct"], (np.clip(ct, -160, 240) + 160) / 400, atol=1e-6)
        np.testing.assert_array_equal(found["tumour"], mask)
        np.testing.assert_allclose(found["far"], away, rtol=1e-6)
        np.testing.assert_allclose(found["near"], np.exp(-0.5 * (away / 4) ** 2), atol=1e-6)
        np.testing.assert_array_equal(found["larger"], ndimage.binary_dilation(mask, ones))
        np.testing.assert_array_equal(found["smaller"], ndimage.binary_erosion(mask, ones))
        np.testing.assert_array_equal(found["opened"], ndimage.binary_opening(mask, ones))
        np.testing.assert_allclose(found["blurred"], ndimage.gaussian_filter(found["ct"], 1.0), atol=1e-5)


def test_numbers_of_nifti_stand_for_values(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(np.arange(8, dtype=np.int16).reshape(2, 2, 2), np.eye(4))
    image.header.set_slope_inter(2.0, 1.0)
    nibabel.save(image, tmp_path / "scaled.nii")
    found = Volumes([{"ct": tmp_path / "scaled.nii"}])[0]["ct"]
    assert_same(found, nibabel.load(tmp_path / "scaled.nii").get_fdata().T.copy())


def test_a_mask_of_nothing_is_infinitely_far(root: Path) -> None:
    empty = patients(root).label("labels", 7, to="none")
    assert np.isinf(empty.distance("none", to="far")[0]["far"]).all()
    assert not empty.distance("none", to="near", sigma=1.0)[0]["near"].any()


def test_spacing_and_shape_can_be_made_the_same(root: Path) -> None:
    dataset = patients(root).resample((1.5, 1.5, 1.5), labels=["labels"])
    found, (ct, labels) = dataset[1], arrays(1)
    zoom = [old / 1.5 for old in SPACING]
    expected = ndimage.zoom(ct.astype(np.float32), zoom, order=1, grid_mode=True, mode="nearest")
    np.testing.assert_allclose(found["ct"], expected, atol=0.01)
    assert set(np.unique(found["labels"])) == set(np.unique(labels))
    # Steps that follow know the new one.
    near = dataset.label("labels", 2).distance("labels", to="far")[1]
    assert near["far"][near["far"] > 0].min() == 1.5
    shaped = dataset.crop_or_pad((16, 16, 16), fill=-1)[1]
    assert_same(shaped["ct"], voxels.crop_or_pad(found["ct"], (16, 16, 16), -1))


@pytest.mark.parametrize("by", [None, "tumour"])
def test_slices(root: Path, by: str | None) -> None:
    dataset = patients(root).label("labels", 1, to="tumour").slices((0, 2), 3, by=by)
    assert len(dataset) == CASES * 6
    for index in range(len(dataset)):
        number, part = divmod(index, 6)
        axis, rank = (0, 2)[part // 3], part % 3
        ct, labels = arrays(number)
        if by is None:
            at = int((rank + 0.5) * SHAPE[axis] / 3)
        else:
            areas = (labels == 1).sum(axis=tuple({0, 1, 2} - {axis}))
            at = sorted(range(SHAPE[axis]), key=lambda one: (-areas[one], one))[rank]
        np.testing.assert_array_equal(dataset[index]["ct"], np.take(ct, at, axis))


def test_patches_are_around_a_label_as_often_as_is_said(root: Path) -> None:
    size = (4, 4, 4)
    always = patients(root).patches(size, per_case=8, label="labels", value=2, probability=1.0)
    assert len(always) == 8 * CASES
    assert all((sample["labels"] == 2).any() for sample in map(always.__getitem__, range(len(always))))
    anywhere = patients(root).patches(size, per_case=40)
    samples = [anywhere[index] for index in range(len(anywhere))]
    assert all(sample["ct"].shape == size for sample in samples)
    assert len({sample["ct"].tobytes() for sample in samples}) > 0.9 * len(samples)
    # Both volumes are cut in the same place.
    ct, labels = arrays(0)
    for sample in samples[:10]:
        where = [
            at
            for at in np.ndindex(*(extent - 3 for extent in SHAPE))
            if np.array_equal(ct[tuple(slice(one, one + 4) for one in at)], sample["ct"])
        ]
        (at,) = where
        np.testing.assert_array_equal(sample["labels"], labels[tuple(slice(one, one + 4) for one in at)])


def epoch(dataset: Volumes, **options: object) -> list:
    """Batches of an epoch that begins with a seed."""
    torch.manual_seed(3)
    return list(DataLoader(dataset, batch_size=4, **options))


def test_samples_do_not_depend_on_who_makes_them(root: Path) -> None:
    dataset = patients(root).window("ct", 0, 100).patches((5, 6, 7), per_case=3, label="labels").random_flip()
    one = epoch(dataset, num_workers=1, shuffle=True)
    assert (one[0]["ct"].shape, one[0]["ct"].dtype) == ((4, 5, 6, 7), torch.float32)
    assert_same(epoch(dataset, num_workers=3, shuffle=True), one)
    assert_same(epoch(dataset, num_workers=2, shuffle=True, native="off"), one)
    context = multiprocessing.get_context("spawn")
    spawned = epoch(dataset, num_workers=2, shuffle=True, native="off", multiprocessing_context=context)
    assert_same(spawned, one)


def test_without_workers_and_under_torch(root: Path) -> None:
    dataset = patients(root).slices(1, 2)
    expected = list(torch.utils.data.DataLoader(dataset, batch_size=3))
    assert_same(list(DataLoader(dataset, batch_size=3)), expected)
    assert_same(list(DataLoader(dataset, batch_size=3, num_workers=2)), expected)
    assert_same(list(DataLoader(dataset, batch_size=3, num_workers=2, native="require")), expected)
    half = torch.utils.data.Subset(dataset, range(0, 10, 2))
    assert_same(list(DataLoader(half, num_workers=2)), list(torch.utils.data.DataLoader(half)))


def test_threads_make_batches_and_say_so(root: Path) -> None:
    loader = DataLoader(patients(root).slices(0, 4), batch_size=2, num_workers=2)
    next(iter(loader))
    assert "worker threads (volumes are read and changed without the GIL)" in loader.explain()


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{"num_workers": 1}, {"num_workers": 3}, {"num_workers": 2, "native": "off"}]
)
@pytest.mark.parametrize("kind", ["plain", "subset", "steps", "values"])
def test_what_no_step_changes_is_read_into_its_row(
    root: Path, tmp_path: Path, kind: str, options: dict, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, each = patients(root), 2
    if kind == "subset":
        dataset = torch.utils.data.Subset(torch.utils.data.Subset(dataset, [4, 3, 2, 1, 0]), [0, 2, 4])
    elif kind == "steps":
        # The window's volume is made, and comes first; the labels are as they were, and come last.
        dataset = dataset.window("ct", 0, 100).label("labels", 1, to="one").select("ct", "one", "labels")
        each = 1
    elif kind == "values":
        path = tmp_path / "scaled.nii.gz"
        image = nibabel.Nifti1Image(arrays(0)[0], np.eye(4))
        image.header.set_slope_inter(0.5, 3)
        nibabel.save(image, path)
        dataset, each = Volumes([{"values": path}] * CASES), 1
    expected = list(torch.utils.data.DataLoader(dataset, batch_size=batch))
    original, in_place = _engine.read_volume, multiprocessing.Value("i", 0)

    def counting(*arguments: object) -> object:
        volume = original(*arguments)
        with in_place.get_lock():
            in_place.value += isinstance(volume.bytes, _engine.Lent)
        return volume

    monkeypatch.setattr(_engine, "read_volume", counting)
    loader = DataLoader(dataset, batch_size=batch, **options)
    assert_same(list(loader), expected)
    before = in_place.value
    # By now it is known what samples look like.
    assert_same(list(loader), expected)
    assert in_place.value - before == each * len(dataset)


def test_what_does_not_fit_its_row_is_what_torch_makes_of_it(tmp_path: Path) -> None:
    def write(name: str, array: np.ndarray) -> dict[str, Path]:
        nrrd.write(str(tmp_path / name), array)
        return {"ct": tmp_path / name}

    first = [write(f"{number}.nrrd", np.full((4, 4, 4), number, np.int16)) for number in range(6)]
    for odd in (np.ones((4, 8, 2), np.int16), np.ones((4, 4, 4), np.uint16), np.ones((3, 4, 4), np.int16)):
        alone = Volumes([*first, write("odd.nrrd", odd)])
        loader, expected = DataLoader(alone, num_workers=2), list(torch.utils.data.DataLoader(alone))
        for _ in range(2):
            assert_same(list(loader), expected)
    mixed = Volumes([*first, write("odd.nrrd", np.ones((4, 8, 2), np.int16)), first[0]])
    for dataset in (mixed, torch.utils.data.Subset(mixed, [6, 7])):
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size") as error:
            list(DataLoader(dataset, batch_size=2, num_workers=2))
        said = str(error.value)
        assert "the shape of 'ct' is (2, 8, 4) in" in said
        assert "but (4, 4, 4) in" in said
        assert all(str(tmp_path / name) in said for name in ("odd.nrrd", "0.nrrd"))


def test_functions_of_the_users_may_keep_what_they_are_given(root: Path) -> None:
    kept: dict[int, np.ndarray] = {}

    def keep(volumes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        kept[id(volumes["ct"])] = volumes["ct"]
        return volumes

    loader = DataLoader(patients(root).map(keep), num_workers=2)
    for _ in range(3):
        list(loader)
    sums = {int(arrays(number)[0].sum(dtype=np.int64)) for number in range(CASES)}
    assert {int(array.sum(dtype=np.int64)) for array in kept.values()} == sums


@pytest.mark.parametrize("options", [{"num_workers": 3}, {"num_workers": 2, "native": "off"}])
def test_a_case_is_loaded_once_for_all_workers(
    root: Path, options: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = multiprocessing.Value("i", 0)
    original = cases.read

    def counting(*args: object, **kwargs: object) -> object:
        with loads.get_lock():
            loads.value += 1
        return original(*args, **kwargs)

    monkeypatch.setattr(cases, "read", counting)
    dataset = patients(root).slices((0, 1, 2), 4)
    for _ in range(2):
        list(DataLoader(dataset, batch_size=1, shuffle=True, **options))
    assert loads.value == 2 * CASES  # two files


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More cases than there will be room for."""
    root = tmp_path_factory.mktemp("many")
    for number in range(MANY):
        (root / f"{number:02}").mkdir()
        nrrd.write(str(root / f"{number:02}" / "ct.nrrd"), np.full((7, 7, 7), number, np.int16))
    return root


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("batch", [1, 2, 4, 8])
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_every_case_is_loaded_once_in_an_epoch_and_no_more_is_kept_than_may_be(
    many: Path, workers: int, batch: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = multiprocessing.Array("i", MANY)
    original = cases.read

    def counting(path: str, **kwargs: object) -> object:
        with loads.get_lock():
            loads[int(Path(path).parent.name)] += 1
        return original(path, **kwargs)

    monkeypatch.setattr(cases, "read", counting)
    # Otherwise there are no more threads than processors.
    monkeypatch.setattr(Machine, "processors", lambda _: 8.0)
    dataset = Volumes.folder(many, ct="ct.nrrd").slices((0, 1, 2), 5).cache(ROOM)
    order = GroupBatches(dataset.groups, batch, together=1)
    options = {"native": "off"} if kind == "processes" else {}
    loader = DataLoader(dataset, batch_sampler=order, num_workers=workers, **options)
    for epoch in (1, 2):
        seen = []
        for made in loader:
            assert dataset._cache.stats()["bytes"] <= ROOM
            seen += made["ct"].flatten(1)[:, 0].tolist()
        assert sorted(seen) == [case for case in range(MANY) for _ in range(15)]
        # What was kept from the epoch before need not be loaded, if its turn comes before it is dropped.
        assert max(loads) <= epoch
        assert epoch == 2 or list(loads) == [1] * MANY
    stats = dataset._cache.stats()
    assert (stats["private"], stats["too_large"]) == (0, 0)
    assert stats["entries"] < MANY / 2 + 2 < stats["evictions"]


def test_without_room_cases_are_loaded_again(root: Path) -> None:
    dataset = patients(root).slices((0, 1, 2), 4)
    assert_same(list(DataLoader(dataset.cache(4096), num_workers=2)), list(DataLoader(dataset)))


def test_functions_of_the_users(root: Path) -> None:
    dataset = patients(root).map(as_array)
    ct, labels = arrays(2)
    assert_same(dataset[2], {"sum": (ct + labels).astype(np.float32)})
    parts = patients(root).parts(3, part_of)
    assert_same(parts[7]["row"], arrays(2)[0][1])
    assert_same(list(DataLoader(parts, num_workers=2)), list(torch.utils.data.DataLoader(parts)))
    assert_same(pickle.loads(pickle.dumps(parts))[4], parts[4])


def test_steps_leave_the_old_one_as_it_was(root: Path) -> None:
    dataset = patients(root)
    kept = dataset.cache(1 << 20)
    kept[0]
    windowed = kept.window("ct", 0, 1)
    assert (kept[0]["ct"].dtype, windowed[0]["ct"].dtype) == (np.int16, np.float32)
    assert len(dataset) == len(kept) == CASES
    assert kept.slices(0, 2).groups == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_what_is_wrong_is_said(root: Path, tmp_path: Path) -> None:
    dataset = patients(root)
    with pytest.raises(ValueError, match=r"'\*' should be one file in .*case-0: ct.nrrd, labels-0"):
        Volumes.folder(root, ct="*")
    with pytest.raises(ValueError, match=r"'pet.nrrd' should be one file .*: there is none"):
        Volumes.folder(root, pet="pet.nrrd")
    with pytest.raises(FileNotFoundError, match="there are no folders"):
        Volumes.folder(tmp_path, ct="ct.nrrd")
    with pytest.raises(ValueError, match="say what the files are called"):
        Volumes.folder(root)
    with pytest.raises(ValueError, match="case 1 has ct, the first ct, pet"):
        Volumes([{"ct": "a", "pet": "b"}, {"ct": "c"}])
    with pytest.raises(ValueError, match="there is no volume 'pet'; there are ct, labels") as error:
        dataset.window("pet", 0, 1)[3]
    assert "in case 3, whose first file is" in error.value.__notes__[0]
    with pytest.raises(ValueError, match="cut into samples once"):
        dataset.slices(0, 1).patches((1, 1, 1))
    with pytest.raises(ValueError, match="what is random comes after"):
        dataset.random_flip()
    with pytest.raises(ValueError, match="at least 1"):
        dataset.patches((1, 1, 1), per_case=0)
    with pytest.raises(ValueError, match="there are the axes 0, 1 and 2"):
        dataset.slices(3, 1)
    with pytest.raises(ValueError, match="13 slices across axis 0, of which there are 12"):
        dataset.slices(0, 13)[0]
    grown = dataset.map(lambda volumes: {**volumes, "other": np.zeros((2, 2, 2))}).patches((1, 1, 1))
    with pytest.raises(ValueError, match="resample them"):
        grown[0]
    with pytest.raises(ValueError, match="patch"):
        dataset.patches((99, 1, 1))[0]


def test_a_file_that_is_missing_or_bad_is_named(root: Path, tmp_path: Path) -> None:
    good = root / "case-0" / "ct.nrrd"
    (tmp_path / "bad.nrrd").write_bytes(good.read_bytes()[:-50])
    for name, kind in (("bad.nrrd", ValueError), ("nowhere.nrrd", FileNotFoundError)):
        dataset = Volumes([{"ct": good}, {"ct": tmp_path / name}])
        with pytest.raises(kind, match=name):
            list(DataLoader(dataset, num_workers=2))
        loader = DataLoader(dataset, batch_size=2, num_workers=2, on_error="skip")
        assert [len(batch["ct"]) for batch in loader] == [1]
        assert name in loader.failures()[0]["error"]


def test_a_failure_is_tried_again_by_the_next(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, lock, failed = cases.read, threading.Lock(), []

    def failing(path: str, **kwargs: object) -> object:
        with lock:
            if not failed:
                failed.append(path)
                raise OSError("the disk is gone")
        return original(path, **kwargs)

    monkeypatch.setattr(cases, "read", failing)
    loader = DataLoader(patients(root).slices(0, 4), num_workers=2, on_error="skip")
    assert len(list(loader)) == 4 * CASES - 1


def test_groups_are_together() -> None:
    groups = [sample // 6 for sample in range(60)]
    made = GroupBatches(groups, 4, together=2, seed=1)
    first, second = list(made), list(made)
    for made_once in (first, second):
        assert sorted(sample for batch in made_once for sample in batch) == list(range(60))
    assert first != second
    assert list(GroupBatches(groups, 4, together=2, seed=1)) == first
    order = [groups[sample] for batch in first for sample in batch]
    for start in range(0, 60, 12):
        assert len(set(order[start : start + 12])) == 2
    assert order[:12] != sorted(order[:12])
    assert len(made) == 15
    assert [len(batch) for batch in GroupBatches(groups, 8, drop_last=True)] == [8] * 7
    with pytest.raises(ValueError, match="together is 0"):
        GroupBatches(groups, 4, together=0)


def test_groups_go_on_where_they_were_saved(root: Path) -> None:
    dataset = patients(root).slices(0, 6)

    def new() -> DataLoader:
        return DataLoader(dataset, batch_sampler=GroupBatches(dataset.groups, 4, together=2), num_workers=2)

    whole, loader = list(new()), new()
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    other = new()
    other.load_state_dict(loader.state_dict())
    assert_same(list(other), whole[3:])


def test_examples() -> None:
    for module in (cases, batches):
        assert doctest.testmod(module).failed == 0
    assert feedline.Volumes is Volumes
