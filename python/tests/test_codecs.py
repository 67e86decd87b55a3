"""Files of every format to pixels: as Pillow decodes them, to the bit; and those that cannot be decoded."""

import io
import random

import numpy as np
import pytest
import torch
from feedline import DataLoader, Files
from pictures import picture
from PIL import Image, ImageOps
from torchvision import datasets, transforms


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_jpeg_is_decoded_as_pillow_does(tmp_path, progressive, subsampling, mode):
    for width, height in [(1, 1), (7, 9), (16, 16), (17, 33), (100, 75), (251, 129)]:
        path = tmp_path / f"{width}x{height}.jpg"
        kind = {} if mode == "L" else {"subsampling": subsampling}
        picture(width, height, mode, width).save(path, quality=85, progressive=progressive, **kind)
        found, _ = Files([path]).resize((height, width)).channels_last()[0]
        assert np.array_equal(found, np.asarray(Image.open(path).convert("RGB"))), (width, height)


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_part_is_decoded_as_the_whole_would_be(tmp_path, subsampling, progressive):
    path = tmp_path / "image.jpg"
    restarts = {"restart_marker_rows": 2} if subsampling == 1 else {}
    picture(301, 217).save(path, subsampling=subsampling, progressive=progressive, **restarts)
    whole = np.asarray(Image.open(path).convert("RGB"))
    for size in [(1, 1), (8, 8), (50, 33), (100, 200), (217, 301), (216, 17)]:
        found, _ = Files([path]).center_crop(size).channels_last()[0]
        expected = np.asarray(transforms.CenterCrop(size)(Image.fromarray(whole)))
        assert np.array_equal(found, expected), size
    # From anywhere: every part of that size that there is must be one of the image.
    parts = np.lib.stride_tricks.sliding_window_view(whole, (23, 40, 3))[:, :, 0]
    random.seed(0)
    for _ in range(40):
        found, _ = Files([path]).random_crop((23, 40)).channels_last()[0]
        places = np.argwhere((parts[:, :, 0, 0] == found[0, 0]).all(-1))
        assert any(np.array_equal(parts[y, x], found) for y, x in places)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright_on_request(tmp_path, orientation):
    path = tmp_path / "image.jpg"
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture(50, 34).save(path, exif=exif)
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
        plain = image.convert("RGB")
    for files, expected in [(Files([path]).exif_transpose(), upright), (Files([path]), plain)]:
        found, _ = files.center_crop((20, 30)).channels_last()[0]
        assert np.array_equal(found, np.asarray(transforms.CenterCrop((20, 30))(expected)))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"])
def test_png_is_decoded_as_pillow_does(tmp_path, mode):
    path = tmp_path / "image.png"
    if mode == "I;16":
        values = np.random.default_rng(0).integers(0, 65536, (33, 21)).astype(np.uint16)
        values[:8] //= 256
        Image.fromarray(values).save(path)
    else:
        picture(21, 33, mode).save(path)
    found, _ = Files([path]).center_crop((33, 21)).channels_last()[0]
    assert np.array_equal(found, np.asarray(Image.open(path).convert("RGB")))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_deflate", "packbits"])
def test_tiff_is_decoded_as_pillow_does(tmp_path, mode, compression):
    path = tmp_path / "image.tif"
    picture(61, 43, mode).save(path, compression=compression)
    found, _ = Files([path]).center_crop((20, 30)).channels_last()[0]
    expected = transforms.CenterCrop((20, 30))(Image.open(path).convert("RGB"))
    assert np.array_equal(found, np.asarray(expected))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("kind", [{"quality": 80}, {"lossless": True}, {"quality": 20, "method": 6}], ids=str)
def test_webp_is_decoded_as_pillow_does(tmp_path, mode, kind):
    for width, height in [(1, 1), (17, 33), (251, 129)]:
        path = tmp_path / "image.webp"
        picture(width, height, mode, width).save(path, **kind)
        found, _ = Files([path]).center_crop((height, width)).channels_last()[0]
        assert np.array_equal(found, np.asarray(Image.open(path).convert("RGB"))), (width, height)


def test_rare_kinds_are_left_to_pillow_where_there_is_a_dataset_of_torchvision(tmp_path):
    (tmp_path / "one").mkdir()
    picture(50, 40, "CMYK").save(tmp_path / "one" / "inks.tif")
    frames = [picture(50, 40, seed=seed) for seed in range(3)]
    frames[0].save(tmp_path / "one" / "moving.webp", save_all=True, append_images=frames[1:])
    dataset = datasets.ImageFolder(
        tmp_path, transforms.Compose([transforms.CenterCrop(32), transforms.ToTensor()])
    )
    ((found, _),) = DataLoader(dataset, 2, native="require")
    assert torch.equal(found, torch.stack([dataset[0][0], dataset[1][0]]))
    for path, _ in dataset.samples:
        with pytest.raises(ValueError, match="is not read here"):
            Files([path]).center_crop(8)[0]


# Bad input


def saved(form: str, width: int = 60, height: int = 50) -> bytes:
    out = io.BytesIO()
    picture(width, height).save(out, form)
    return out.getvalue()


def jpeg(width: int = 60, height: int = 50) -> bytes:
    return saved("jpeg", width, height)


def bomb() -> bytes:
    """A JPEG that says it has 30,000 by 30,000 pixels."""
    data = bytearray(jpeg())
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = (30000).to_bytes(2, "big") * 2
    return bytes(data)


BAD = {
    "empty": (b"", "empty"),
    "truncated": (jpeg()[:-400], "truncated"),
    "truncated below": (jpeg(60, 500)[:-400], "truncated"),
    "HTML": (b"<html>not found</html>", "HTML"),
    "bomb": (bomb(), "30000 . 30000"),
    "header alone": (jpeg()[:30], "truncated"),
    "noise": (bytes(range(256)), "cannot be decoded"),
    "TIFF cut off": (saved("tiff")[:-400], "truncated"),
    "WebP cut off": (saved("webp")[:-40], "damaged"),
    "PNG cut off": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "truncated"),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named(tmp_path, name, workers):
    content, reason = BAD[name]
    (tmp_path / "good.jpg").write_bytes(jpeg())
    (tmp_path / "bad.jpg").write_bytes(content)
    images = Files([tmp_path / "good.jpg", tmp_path / "bad.jpg"]).center_crop(32)
    with pytest.raises(ValueError, match=f"bad.jpg.*{reason}"):
        list(DataLoader(images, batch_size=2, num_workers=workers))
    loader = DataLoader(images, batch_size=2, num_workers=workers, on_error="skip")
    assert [len(batch) for batch, _ in loader] == [1]
    assert "bad.jpg" in loader.failures()[0]["error"]


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "link.jpg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.jpg").mkdir()
    for name, kind in [
        ("missing.jpg", FileNotFoundError),
        ("link.jpg", FileNotFoundError),
        ("folder.jpg", OSError),
    ]:
        with pytest.raises(kind, match=name):
            Files([tmp_path / name]).center_crop(8)[0]
