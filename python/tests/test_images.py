"""Images without Python, beside Pillow and torchvision: the same, to the bit."""

import gc
import itertools
import pickle
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import feedline
import numpy as np
import pytest
import torch
from feedline import DataLoader, Files, ImageFolder
from pictures import picture
from PIL import Image
from torch.utils.data import ConcatDataset, Subset, random_split
from torchvision import datasets, transforms
from torchvision.transforms import InterpolationMode, v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Torch's own threads would not survive the forks of tests that come later."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def reference(path: Path, transform) -> torch.Tensor:
    with open(path, "rb") as file:
        return transform(Image.open(file).convert("RGB"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three classes of photographs of several sizes, kinds and formats."""
    root = tmp_path_factory.mktemp("images")
    sizes = [(500, 375), (333, 500), (97, 301), (640, 480), (41, 40), (256, 256), (300, 224)]
    kinds = itertools.cycle(
        [{"quality": 90}, {"subsampling": 0}, {"progressive": True}, {"subsampling": 1}, {}]
    )
    for number, (size, kind) in enumerate(zip(sizes * 3, kinds, strict=False)):
        path = root / f"class{number % 3}" / f"{number:02}.jpg"
        path.parent.mkdir(exist_ok=True)
        mode = "L" if number % 5 == 4 else "RGB"
        picture(*size, mode, number).save(path, **kind)
    picture(123, 77, "P").save(root / "class1" / "palette.png")
    picture(150, 90, "RGBA").save(root / "class2" / "alpha.png")
    picture(80, 64, "CMYK").save(root / "class0" / "inks.jpg")
    return root


# Transforms

SIZES = [(500, 375), (375, 500), (64, 64), (31, 200)]


@pytest.fixture(scope="module")
def lossless(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("lossless")
    paths = [root / f"{number}.png" for number in range(len(SIZES))]
    for number, (path, size) in enumerate(zip(paths, SIZES, strict=True)):
        picture(*size, seed=number).save(path)
    return paths


@pytest.mark.parametrize("filter", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("size", [(37, 41), (64, 64), (300, 20), (224, 224), (500, 700), (1, 1)])
@pytest.mark.parametrize("like", ["pillow", "torchvision"])
def test_resize_is_the_same_to_the_bit(lossless, filter, size, like):
    mode = InterpolationMode(filter)
    for path in lossless:
        found, _ = Files([path]).resize(size, filter, like=like)[0]
        image = Image.open(path).convert("RGB")
        if like == "pillow":
            expected = v2.functional.pil_to_tensor(v2.functional.resize(image, list(size), mode))
        else:
            expected = v2.functional.resize(v2.functional.to_image(image), list(size), mode, antialias=True)
        assert np.array_equal(found, expected.numpy()), path


DETERMINISTIC = {
    "inference": [
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ],
    "exact size": [transforms.Resize((64, 48)), transforms.ToTensor()],
    "bicubic, limited": [
        transforms.Resize(60, InterpolationMode.BICUBIC, max_size=80),
        transforms.CenterCrop((90, 50)),
        transforms.ToTensor(),
    ],
    "bytes": [transforms.CenterCrop(100), transforms.PILToTensor()],
    "gray": [
        transforms.CenterCrop(64),
        transforms.Grayscale(),
        transforms.ToTensor(),
        transforms.Normalize(0.5, 0.25),
    ],
    "gray in three": [transforms.Resize((32, 32)), transforms.Grayscale(3), transforms.PILToTensor()],
    "border": [
        transforms.Resize((40, 50)),
        transforms.Pad((1, 2, 3, 4), fill=(9, 8, 7)),
        transforms.ToTensor(),
    ],
    "flipped": [
        transforms.CenterCrop(50),
        transforms.RandomHorizontalFlip(1),
        transforms.RandomVerticalFlip(1.0),
        transforms.ToTensor(),
    ],
    "flipped before": [
        transforms.RandomHorizontalFlip(1),
        transforms.Resize((51, 33)),
        transforms.ToTensor(),
    ],
    "twice": [
        transforms.Resize(100),
        transforms.Resize((64, 64)),
        transforms.CenterCrop(32),
        transforms.ToTensor(),
    ],
    "converted": [
        transforms.Resize((30, 30)),
        transforms.PILToTensor(),
        transforms.ConvertImageDtype(torch.float32),
    ],
    "tensor": [v2.PILToTensor(), v2.Resize(70), v2.CenterCrop(64)],
    "v2": [
        v2.ToImage(),
        v2.Resize(256),
        v2.CenterCrop(224),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD),
    ],
    "v2 bicubic": [
        v2.ToImage(),
        v2.Resize((90, 70), InterpolationMode.BICUBIC),
        v2.ToDtype(torch.float32),
        v2.ToPureTensor(),
    ],
    "v2 of Pillow": [v2.Resize(40), v2.CenterCrop(40), v2.PILToTensor(), v2.ConvertImageDtype(torch.float32)],
    "v2 gray": [v2.ToImage(), v2.CenterCrop(40), v2.Grayscale(3), v2.ToDtype(torch.uint8)],
    "one jitter": [
        transforms.CenterCrop(64),
        transforms.ColorJitter(brightness=(1.3, 1.3)),
        transforms.ColorJitter(contrast=(0.6, 0.6)),
        transforms.ColorJitter(saturation=(1.7, 1.7)),
        transforms.ColorJitter(hue=(0.2, 0.2)),
        transforms.ColorJitter(hue=(-0.4, -0.4)),
        transforms.ToTensor(),
    ],
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_an_unchanged_torchvision_dataset_gives_the_same_without_python(folder, name, workers):
    dataset = datasets.ImageFolder(folder, transform=transforms.Compose(DETERMINISTIC[name]))
    expected = list(torch.utils.data.DataLoader(dataset, batch_size=5))
    loader = DataLoader(dataset, batch_size=5, num_workers=workers, native="require")
    found = list(loader)
    assert "without Python" in loader.explain()
    assert len(found) == len(expected)
    for (images, labels), (other_images, other_labels) in zip(found, expected, strict=True):
        assert type(images) is type(other_images)
        assert images.dtype == other_images.dtype
        assert torch.equal(images, other_images)
        assert torch.equal(labels, other_labels)


# Datasets


def lowered(dataset, **options) -> tuple[list, str]:
    loader = DataLoader(dataset, batch_size=4, num_workers=2, **options)
    return [(images.clone(), labels.clone()) for images, labels in loader], loader.explain()


def assert_same(found, expected) -> None:
    assert len(found) == len(expected)
    for (images, labels), (other_images, other_labels) in zip(found, expected, strict=True):
        assert torch.equal(images, other_images)
        assert torch.equal(labels, other_labels)


SMALL = transforms.Compose([transforms.Resize(40), transforms.CenterCrop(32), transforms.ToTensor()])


@pytest.mark.parametrize("kind", ["subset", "split", "concatenated", "targets", "nested", "folder"])
def test_datasets_made_of_datasets(folder, kind):
    whole = datasets.ImageFolder(folder, SMALL)
    dataset = {
        "subset": lambda: Subset(whole, [3, 1, 7, 7, -1]),
        "split": lambda: random_split(whole, [0.5, 0.5], torch.Generator().manual_seed(1))[1],
        "concatenated": lambda: ConcatDataset([whole, Subset(whole, range(3))]),
        "targets": lambda: datasets.ImageFolder(folder, SMALL, target_transform=lambda label: 10 + label),
        "nested": lambda: Subset(Subset(whole, range(2, 12)), [0, 9, 4]),
        "folder": lambda: datasets.DatasetFolder(
            str(folder), datasets.folder.default_loader, ("jpg",), SMALL
        ),
    }[kind]()
    found, said = lowered(dataset, native="require")
    assert "without Python" in said
    assert_same(found, list(torch.utils.data.DataLoader(dataset, batch_size=4)))


class Own:
    """A transform that nobody knows."""

    def __call__(self, image):
        return transforms.functional.to_tensor(image.resize((8, 8)))


class Overriding(datasets.ImageFolder):
    """A dataset with another opinion."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * 2, label


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda root: datasets.ImageFolder(root, Own()), "the transform Own is not known"),
        (
            lambda root: datasets.ImageFolder(root, transforms.Compose([SMALL, transforms.RandomErasing(0)])),
            "RandomErasing",
        ),
        (
            lambda root: datasets.ImageFolder(
                root, SMALL, loader=lambda path: Image.open(path).convert("RGB")
            ),
            "loader",
        ),
        (
            lambda root: datasets.ImageFolder(
                root, transforms.Compose([transforms.PILToTensor(), transforms.Resize((9, 9))])
            ),
            "as floats",
        ),
        (
            lambda root: datasets.ImageFolder(root, SMALL, target_transform=lambda label: f"class {label}"),
            "target_transform",
        ),
    ],
)
def test_what_is_not_known_is_left_to_python_and_said(folder, make, reason):
    dataset = make(folder)
    with pytest.raises(ValueError, match=reason):
        list(DataLoader(dataset, batch_size=4, num_workers=1, native="require"))
    loader = DataLoader(dataset, batch_size=4, num_workers=1)
    for found, expected in zip(loader, torch.utils.data.DataLoader(dataset, batch_size=4), strict=True):
        assert torch.equal(found[0], expected[0])
        assert list(found[1]) == list(expected[1])
    assert reason in loader.explain()


def test_a_subclass_with_another_opinion_is_left_to_python(folder):
    dataset = Overriding(folder, SMALL)
    found, said = lowered(dataset)
    assert "without Python" not in said
    assert_same(found, list(torch.utils.data.DataLoader(dataset, batch_size=4)))


@pytest.mark.parametrize(
    "options",
    [
        {"native": "off"},
        {"collate_fn": torch.utils.data.default_convert},
        {"rng": "torch"},
        {"dispatch": "batch"},
        {"worker_init_fn": print},
    ],
)
def test_other_ways_are_taken_where_they_are_asked_for(folder, options):
    loader = DataLoader(datasets.ImageFolder(folder, SMALL), batch_size=4, num_workers=1, **options)
    next(iter(loader))
    assert "without Python" not in loader.explain()


def test_a_transform_that_is_changed_between_epochs_is_noticed(folder):
    dataset = datasets.ImageFolder(folder, SMALL)
    loader = DataLoader(dataset, batch_size=4, num_workers=2)
    assert next(iter(loader))[0].shape[1:] == (3, 32, 32)
    dataset.transform = transforms.Compose([transforms.CenterCrop(20), transforms.ToTensor()])
    assert_same(list(loader), list(torch.utils.data.DataLoader(dataset, batch_size=4)))


# Randomness

AUGMENTED = transforms.Compose(
    [
        transforms.RandomResizedCrop(48),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
        transforms.RandomGrayscale(0.2),
        transforms.ToTensor(),
    ]
)


def test_augmentations_do_not_depend_on_the_workers(folder):
    dataset = datasets.ImageFolder(folder, AUGMENTED)

    def epochs(workers):
        loader = DataLoader(
            dataset,
            batch_size=4,
            shuffle=True,
            num_workers=workers,
            native="require",
            generator=torch.Generator().manual_seed(3),
        )
        return [[images.clone() for images, _ in loader] for _ in range(2)]

    one, two, four = epochs(1), epochs(2), epochs(4)
    for epoch in range(2):
        for a, b, c in zip(one[epoch], two[epoch], four[epoch], strict=True):
            assert torch.equal(a, b)
            assert torch.equal(a, c)
    assert not torch.equal(torch.cat(one[0]).sum(), torch.cat(one[1]).sum())


@pytest.mark.parametrize(
    "transform",
    [
        transforms.RandomResizedCrop(24, scale=(0.3, 0.9)),
        transforms.RandomCrop(24, padding=8, fill=255),
        transforms.RandomCrop(60, pad_if_needed=True),
        transforms.ColorJitter(brightness=0.5, contrast=0.5, saturation=0.5),
        transforms.RandomGrayscale(0.3),
    ],
    ids=lambda step: type(step).__name__,
)
def test_random_steps_have_the_same_distribution(tmp_path, transform):
    """Means and spreads of a thousand samples of one image agree within what chance allows."""
    (tmp_path / "one").mkdir()
    picture(40, 40).save(tmp_path / "one" / "image.png")
    dataset = datasets.ImageFolder(
        tmp_path, transforms.Compose([transform, transforms.Resize((24, 24)), transforms.ToTensor()])
    )
    many = Subset(dataset, [0] * 1000)
    torch.manual_seed(0)
    random.seed(0)
    expected = torch.cat([images for images, _ in torch.utils.data.DataLoader(many, batch_size=100)])
    found = torch.cat(
        [images for images, _ in DataLoader(many, batch_size=100, num_workers=2, native="require")]
    )
    scale = expected.std(0) / 1000**0.5 + 1e-3
    # Of 1,728 places, the worst of a thousand draws lies within five standard errors of both.
    assert ((found.mean(0) - expected.mean(0)).abs() / scale).max() < 7
    assert (found.std(0) / (expected.std(0) + 1e-3)).median() == pytest.approx(1, abs=0.1)


# The native datasets


def test_the_native_folder_is_torchvisions(folder):
    images = ImageFolder(folder).resize(256).center_crop(224).normalize(MEAN, STD)
    other = datasets.ImageFolder(folder, transforms.Compose(DETERMINISTIC["inference"]))
    assert images.classes == other.classes
    assert images.class_to_idx == other.class_to_idx
    assert list(zip(images.paths, images.targets, strict=True)) == other.samples
    assert len(images) == len(other)
    assert images.shape == (3, 224, 224)
    assert images.dtype == "float32"
    found, said = lowered(images)
    assert "without Python" in said
    assert_same(found, list(torch.utils.data.DataLoader(other, batch_size=4)))
    for index in (0, 5, -1):
        assert torch.equal(torch.from_numpy(images[index][0]), other[index][0])
        assert images[index][1] == other[index][1]


def test_native_images_under_torchs_own_loader(folder):
    images = ImageFolder(folder).resize((16, 16)).to_float()
    found = list(torch.utils.data.DataLoader(images, batch_size=4, num_workers=1))
    assert_same(found, lowered(images)[0])


def test_steps_leave_what_was_before_as_it_was(folder):
    base = ImageFolder(folder)
    small, large = base.resize((8, 8)), base.resize((9, 9)).to_float()
    assert small.shape == (3, 8, 8)
    assert large.shape == (3, 9, 9)
    assert small.dtype == "uint8"
    again = pickle.loads(pickle.dumps(large))
    assert np.array_equal(again[0][0], large[0][0])


def test_random_steps_of_a_single_image_follow_the_seed_of_the_program(folder):
    images = ImageFolder(folder).random_resized_crop(16)
    random.seed(1)
    one, two = images[0][0], images[0][0]
    random.seed(1)
    assert np.array_equal(images[0][0], one)
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda files: files.resize(256), "end with a crop, or resize"),
        (lambda files: files, "end with a crop, or resize"),
        (lambda files: files.resize((0, 5)), "from 1"),
        (lambda files: files.resize((20, 20)).random_crop(30), "does not fit"),
        (
            lambda files: files.center_crop(8).normalize([0.5] * 2, [0.5] * 2),
            "2 values were given for 3 channels",
        ),
        (lambda files: files.center_crop(8).normalize([0.5], [0.0]), "standard deviation is 0"),
        (lambda files: files.center_crop(8).grayscale().color_jitter(0.5), "before grayscale"),
        (lambda files: files.to_float().center_crop(8), "before to_float"),
        (lambda files: files.random_crop(8).cache(9), "put the cache before random steps"),
        (lambda files: files.resize(8).cache(9).center_crop(8), "before the cache"),
        (lambda files: files.resize((8, 8), "lanczos"), "there is no filter"),
        (lambda files: files.center_crop((1, 2, 3)), "height, width"),
        (lambda files: files.random_resized_crop(8, scale=(0.5, 0.1)), "scale and ratio"),
        (lambda files: files.random_horizontal_flip(1.5).center_crop(8), "between 0 and 1"),
    ],
)
def test_impossible_steps_are_refused_before_the_first_sample(make, reason):
    with pytest.raises(ValueError, match=reason):
        assert make(Files(["nowhere.jpg"])).shape


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_later_epochs_come_from_the_cache(folder, tmp_path, where, share):
    plain = ImageFolder(folder).resize((40, 40)).random_crop(32).random_horizontal_flip().to_float()
    room = int(share * len(plain) * 40 * 40 * 3)
    path = tmp_path / "kept" if where == "file" else None
    cached = ImageFolder(folder).resize((40, 40)).cache(room, path)
    cached = cached.random_crop(32).random_horizontal_flip().to_float()

    def epochs(images):
        generator = torch.Generator().manual_seed(1)
        loader = DataLoader(images, batch_size=4, num_workers=2, generator=generator)
        return [torch.cat([batch for batch, _ in loader]) for _ in range(3)]

    expected = epochs(plain)
    assert all(torch.equal(one, other) for one, other in zip(epochs(cached), expected, strict=True))
    assert not torch.equal(expected[0], expected[1])
    if where == "file":
        assert path.exists()
        del cached
        gc.collect()
        assert not path.exists()


def test_a_cache_saves_the_files(tmp_path):
    picture(60, 50).save(tmp_path / "a.jpg")
    images = Files([tmp_path / "a.jpg"]).center_crop(16).cache(1 << 20)
    first = images[0][0]
    (tmp_path / "a.jpg").unlink()
    assert np.array_equal(images[0][0], first)


# Bad input


def test_folders_without_classes_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="one for each class"):
        ImageFolder(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no image for empty"):
        ImageFolder(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ImageFolder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="1 labels for 2 files"):
        Files(["a", "b"], [1])


def test_a_lowered_dataset_has_the_datasets_own_errors_and_formats(tmp_path):
    (tmp_path / "one").mkdir()
    picture(50, 40).save(tmp_path / "one" / "a.bmp")
    picture(50, 40).save(tmp_path / "one" / "b.jpg")
    dataset = datasets.ImageFolder(tmp_path, SMALL)
    found, _ = lowered(dataset, native="require")
    assert_same(found, list(torch.utils.data.DataLoader(dataset, batch_size=4)))
    (tmp_path / "one" / "b.jpg").write_bytes(b"<html>")
    with pytest.raises(Exception, match="cannot identify image file") as ours:
        lowered(dataset, native="require")
    with pytest.raises(Exception, match="cannot identify image file") as theirs:
        list(torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=1))
    assert type(ours.value) is type(theirs.value)


# Beside the rest of the loader


def test_a_run_goes_on_where_it_was_saved(folder):
    dataset = datasets.ImageFolder(folder, AUGMENTED)

    def new():
        return DataLoader(
            dataset, batch_size=4, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(5)
        )

    whole = [images.clone() for images, _ in new()]
    loader = new()
    for number, _ in enumerate(loader):
        if number == 1:
            state = loader.state_dict()
            break
    other = new()
    other.load_state_dict(state)
    rest = [images.clone() for images, _ in other]
    assert len(rest) == len(whole) - 2
    assert all(torch.equal(a, b) for a, b in zip(rest, whole[2:], strict=True))


def test_batches_keep_their_memory_while_they_are_held(folder):
    dataset = datasets.ImageFolder(folder, SMALL)
    held = list(DataLoader(dataset, batch_size=2, num_workers=2))
    assert_same(held, list(torch.utils.data.DataLoader(dataset, batch_size=2)))


def test_threads_end_with_the_epoch(folder):
    # A loader of torch's that dies as garbage waits five seconds for its workers, in whatever thread finds it.
    gc.collect()
    loader = DataLoader(ImageFolder(folder).center_crop(16), batch_size=2, num_workers=4)
    for _ in loader:
        assert [thread for thread in threading.enumerate() if thread.name.startswith("feedline")]
        break
    list(loader)
    del loader
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("feedline")]


def test_without_torch_arrays_come_all_the_same(folder):
    import subprocess
    import sys

    code = f"""
import sys
sys.modules["torch"] = None
import feedline
image, label = feedline.ImageFolder({str(folder)!r}).resize((8, 8))[0]
print(image.shape, image.dtype, label)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "(3, 8, 8) uint8 0\n"
    assert feedline.ImageFolder is ImageFolder


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_are_cast_as_torch_casts_them(folder, dtype, workers):
    images = ImageFolder(folder).resize(64).center_crop(48).normalize(MEAN, STD)
    exact = next(iter(DataLoader(images, batch_size=8, native="require")))[0]
    name = str(dtype).removeprefix("torch.")
    for asked in (images.cast(name).channels_last(), images.channels_last().cast(str(dtype))):
        loader = DataLoader(asked, batch_size=8, num_workers=workers, native="require")
        found = next(iter(loader))[0]
        assert found.dtype is dtype
        assert torch.equal(found, exact.to(dtype).permute(0, 2, 3, 1))


def test_bytes_are_cast_as_they_are(folder):
    images = ImageFolder(folder).resize(64).center_crop(48)
    assert np.array_equal(images.cast("float16")[0][0], images[0][0].astype("float16"))
    with pytest.raises(ValueError, match="int8"):
        images.cast("int8").shape  # noqa: B018
    with pytest.raises(ValueError, match="belongs before cast"):
        images.cast("float16").normalize(MEAN, STD)


@pytest.mark.parametrize("workers", [0, 2])
def test_labels_become_rows(folder, workers):
    images = ImageFolder(folder).resize(32).center_crop(32)
    loader = DataLoader(images.one_hot(4), batch_size=5, num_workers=workers, native="require")
    found = torch.cat([labels for _, labels in loader])
    expected = torch.nn.functional.one_hot(torch.tensor(images.targets), 4).float()
    assert found.dtype is torch.float32
    assert torch.equal(found, expected)
    assert images.one_hot(3)[5][1].tolist() == expected[5, :3].tolist()
    assert images[5][1] == images.targets[5]
    with pytest.raises(ValueError, match="2 classes"):
        images.one_hot(2)


@pytest.mark.parametrize("workers", [0, 2])
def test_images_in_memory_are_as_good_as_files(folder, workers):
    files = ImageFolder(folder)
    memory = Files([Path(path).read_bytes() for path in files.paths], files.targets)
    loaders = [
        DataLoader(one.resize(40).center_crop(32), batch_size=5, num_workers=workers, native="require")
        for one in (files, memory)
    ]
    for (images, labels), (expected, classes) in zip(*loaders, strict=True):
        assert torch.equal(images, expected)
        assert torch.equal(labels, classes)
    with pytest.raises(ValueError, match=r"bytes of sample 1.*HTML"):
        Files([memory.paths[0], b"<html>"]).resize((8, 8))[1]


def test_fast_decoding_differs_by_as_little_as_is_said(tmp_path):
    from feedline.bench.data.images import photograph

    photographs = [photograph(number) for number in range(12)]
    paths = [tmp_path / f"{number}.jpg" for number in range(12)]
    for path, image in zip(paths, photographs, strict=True):
        image.resize((1200, 900), Image.Resampling.BICUBIC).save(path, quality=92)
    for side in (400, 200, 100):
        exact, fast = (Files(paths, decode=way).resize((side * 3 // 4, side)) for way in ("exact", "fast"))
        for number in range(len(paths)):
            difference = np.abs(exact[number][0].astype(int) - fast[number][0])
            assert 0 < difference.mean() < 3
    # What does not get much smaller is exact, and so are parts of which nothing is left out.
    small = [Files(paths, decode=way).resize((500, 640)) for way in ("exact", "fast")]
    assert np.array_equal(small[0][0][0], small[1][0][0])
    crops = [Files(paths, decode=way).center_crop(300) for way in ("exact", "fast")]
    assert np.array_equal(crops[0][3][0], crops[1][3][0])
    with pytest.raises(ValueError, match="'exact' and 'fast'"):
        Files(paths, decode="quick")
