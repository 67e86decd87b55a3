"""Operations on volumes beside scipy, numpy and torch."""

import doctest
import subprocess
import sys

import numpy as np
import pytest
import torch
from feedline import _engine, voxels
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import ndimage

BOX = np.ones((3, 3, 3))
FLOATS = [np.float32, np.float64]

extents = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 24))
seeds = st.integers(0, 2**32 - 1)
shares = st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0])


def noise(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def random_mask(shape: tuple[int, ...], share: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < share


def test_the_examples_in_the_documentation_are_true():
    found = doctest.testmod(voxels)
    assert found.attempted > 20
    assert found.failed == 0


def test_torch_is_not_needed():
    program = (
        "import sys; sys.modules['torch'] = None; import numpy; from feedline import voxels;"
        "print(voxels.distance(numpy.eye(4)[None]).max())"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1.0"


@settings(deadline=None, max_examples=100)
@given(extents, shares, st.integers(1, 4), st.booleans(), seeds)
def test_masks_shrink_and_grow_as_scipys(shape, share, times, border, seed):
    mask = random_mask(shape, share, seed)
    arguments = {"structure": BOX, "iterations": times}
    for ours, theirs in (voxels.erode, ndimage.binary_erosion), (voxels.dilate, ndimage.binary_dilation):
        assert np.array_equal(ours(mask, times, border), theirs(mask, border_value=border, **arguments))
    assert np.array_equal(voxels.opened(mask, times), ndimage.binary_opening(mask, **arguments))


@settings(deadline=None, max_examples=50)
@given(extents, shares, seeds)
def test_masks_shrink_and_grow_as_torchs_pools(shape, share, seed):
    def pool(volume):
        return torch.nn.functional.max_pool3d(volume, 3, 1, 1)

    mask = random_mask(shape, share, seed)
    volume = torch.from_numpy(mask.astype(np.float32))[None, None]
    eroded = -pool(-volume)
    assert np.array_equal(voxels.dilate(mask), pool(volume)[0, 0].numpy() > 0)
    assert np.array_equal(voxels.erode(mask, border_value=1), eroded[0, 0].numpy() > 0)
    assert np.array_equal(voxels.opened(mask, border_value=1), pool(eroded)[0, 0].numpy() > 0)


def test_a_mask_is_of_any_type_and_order():
    mask = random_mask((6, 7, 8), 0.7, 1)
    expected = voxels.erode(mask)
    for dtype in [np.uint8, np.int16, np.float32, np.dtype(">i4")]:
        assert np.array_equal(voxels.erode(mask.astype(dtype) * 5), expected)
    assert np.array_equal(voxels.erode(np.asfortranarray(mask)), expected)
    assert np.array_equal(voxels.erode(np.repeat(mask, 2, axis=2)[:, :, ::2]), expected)
    assert np.array_equal(voxels.erode(torch.from_numpy(mask)), expected)
    fixed = mask.copy()
    fixed.flags.writeable = False
    assert np.array_equal(voxels.erode(fixed), expected)


@settings(deadline=None, max_examples=150)
@given(extents, shares, st.tuples(*[st.sampled_from([1.0, 2.0, 3.0, 0.5, 0.25])] * 3), seeds)
@example((1, 1, 1), 0.0, (1.0, 1.0, 3.0), 0)
@example((9, 1, 17), 0.99, (3.0, 1.0, 0.5), 0)
def test_distances_are_scipys_to_the_bit(shape, share, spacing, seed):
    mask = random_mask(shape, share, seed)
    if mask.all():
        assert np.all(np.isinf(voxels.distance(mask, spacing)))
        return
    expected = ndimage.distance_transform_edt(mask, sampling=spacing)
    for threads in 1, 3:
        assert np.array_equal(voxels.distance(mask, spacing, threads=threads), expected)
    narrow = voxels.distance(mask, spacing, dtype=np.float32)
    assert narrow.dtype == np.float32
    assert np.array_equal(narrow, expected.astype(np.float32))


@settings(deadline=None, max_examples=150)
@given(extents, shares, st.tuples(*[st.floats(0.05, 20)] * 3), seeds)
@example((12, 12, 24), 0.99, (0.7, 0.7, 0.7), 0)
@example((12, 12, 24), 0.99, (0.1, 0.3, 0.1), 0)
def test_distances_of_any_spacing_are_scipys_but_for_the_last_bits(shape, share, spacing, seed):
    # Of voxels that are equally near, each may be taken; their distances are sums that were rounded otherwise.
    mask = random_mask(shape, share, seed)
    if not mask.all():
        expected = ndimage.distance_transform_edt(mask, sampling=spacing)
        np.testing.assert_array_max_ulp(voxels.distance(mask, spacing), expected, maxulp=4)


@pytest.mark.parametrize("spacing", [(1, 1, 3), (0.9765625, 0.9765625, 3.27), (0.7, 0.7, 0.7)])
@pytest.mark.parametrize("share", [0.5, 0.999, 0.99999])
def test_distances_of_whole_volumes(share, spacing):
    mask = random_mask((70, 61, 83), share, 3)
    expected = ndimage.distance_transform_edt(mask, sampling=spacing)
    found = voxels.distance(mask, spacing, threads=2)
    np.testing.assert_array_max_ulp(found, expected, maxulp=2 if spacing[0] == 0.7 else 1)


def test_the_map_of_the_volumes_study():
    from feedline.bench.studies.volumes import SIGMA, SPACING, distances

    lines = np.zeros((40, 50, 60), np.uint8)
    lines[20, 10:40, 30] = 1
    lines[20, 25, 5:55] = 1
    away = voxels.distance(lines == 0, SPACING, dtype=np.float32)
    near = voxels.falloff(away, max(1e-6, SIGMA * float(away.max()) * 20))
    assert near.dtype == np.float32
    assert np.abs(near - distances(lines)).max() < 1e-6


@settings(deadline=None, max_examples=50)
@given(extents, st.floats(1e-3, 1e3), seeds, st.sampled_from(FLOATS))
def test_falloff_is_the_exponential(shape, sigma, seed, dtype):
    away = (100 * np.abs(noise(shape, seed))).astype(dtype)
    expected = np.exp(-0.5 * (away.astype(np.float64) / sigma) ** 2)
    assert np.abs(voxels.falloff(away, sigma) - expected).max() < 1e-6


@settings(deadline=None, max_examples=150)
@given(
    extents,
    st.one_of(st.floats(0.1, 4), st.tuples(*[st.floats(0, 4)] * 3)),
    st.sampled_from(["reflect", "nearest", "constant"]),
    st.sampled_from(FLOATS),
    seeds,
)
@example((1, 1, 1), 4.0, "reflect", np.float32, 0)
@example((2, 1, 24), (4.0, 0.0, 1.0), "constant", np.float64, 0)
def test_a_blur_is_scipys(shape, sigma, mode, dtype, seed):
    volume = noise(shape, seed).astype(dtype)
    expected = ndimage.gaussian_filter(volume, sigma, mode=mode, cval=1.5, truncate=4.0)
    for threads in 1, 2:
        found = voxels.gaussian(volume, sigma, mode, cval=1.5, threads=threads)
        assert found.dtype == dtype
        assert np.abs(found - expected).max() <= 8 * np.finfo(dtype).eps * max(1.5, np.abs(volume).max())


def test_a_blur_is_cut_off_where_asked():
    volume = noise((9, 30, 40), 0)
    expected = ndimage.gaussian_filter(volume, 1.7, truncate=2.5)
    assert np.allclose(voxels.gaussian(volume, 1.7, truncate=2.5), expected, rtol=1e-13, atol=1e-14)
    whole = np.arange(60).reshape(3, 4, 5)
    assert voxels.gaussian(whole, 1.0).dtype == np.float32


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int16, np.uint8, np.uint16, np.int32, np.float16]
)
def test_a_window_is_numpys_clip(dtype):
    volume = np.abs(100 * noise((5, 6, 7), 0)).astype(dtype)
    low, high = np.float32(20), np.float32(90)
    expected = (np.clip(volume.astype(np.float32), low, high) - low) / (high - low)
    found = voxels.window(volume, 20, 90)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)
    cut = np.clip(volume.astype(np.float64), 20, 90)
    spread = voxels.window(volume, 20, 90, zscore=True)
    assert np.allclose(spread, (cut - cut.mean()) / cut.std(), atol=1e-6)
    assert np.all(voxels.window(volume, 1000, 2000, zscore=True) == 0)


@settings(deadline=None, max_examples=100)
@given(extents, extents, st.sampled_from(["bool", "u1", "i2", "f4", "f8", "f2"]), seeds)
def test_another_shape_keeps_the_middle(shape, wanted, dtype, seed):
    volume = (10 * noise(shape, seed)).astype(dtype)
    cut = tuple(
        slice(max(0, (old - new) // 2), max(0, (old - new) // 2) + new)
        for old, new in zip(shape, wanted, strict=True)
    )
    missing = [max(0, new - old) for old, new in zip(shape, wanted, strict=True)]
    expected = np.pad(volume[cut], [(gap // 2, gap - gap // 2) for gap in missing], constant_values=1)
    found = voxels.crop_or_pad(volume, wanted, fill=1)
    assert found.dtype == volume.dtype
    assert np.array_equal(found, expected)


@settings(deadline=None, max_examples=50)
@given(extents, st.sets(st.integers(0, 2)), st.sampled_from(["bool", "u1", "i2", "f4", "f8"]), seeds)
def test_mirror_images_and_slices_are_numpys(shape, axes, dtype, seed):
    volume = (10 * noise(shape, seed)).astype(dtype)
    assert np.array_equal(voxels.flip(volume, axes), np.flip(volume, tuple(axes)))
    for axis in range(3):
        assert np.array_equal(voxels.flip(volume, axis - 3), np.flip(volume, axis))
        for at in 0, shape[axis] // 2, -1:
            found = voxels.plane(volume, axis, at)
            assert np.array_equal(found, np.take(volume, at, axis=axis))


@settings(deadline=None, max_examples=150)
@given(extents, st.tuples(*[st.floats(0.3, 4)] * 3), st.tuples(*[st.floats(0.3, 4)] * 3), seeds)
@example((5, 6, 7), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), 0)
def test_other_spacings_are_scipys_zoom(shape, spacing, to, seed):
    zoom = [old / new for old, new in zip(spacing, to, strict=True)]
    if min(round(extent * factor) for extent, factor in zip(shape, zoom, strict=True)) < 1:
        assert min(voxels.resample(noise(shape, seed), spacing, to).shape) == 1
        return
    how = {"grid_mode": True, "mode": "nearest"}
    for dtype in FLOATS:
        volume = noise(shape, seed).astype(dtype)
        expected = ndimage.zoom(volume, zoom, order=1, **how)
        found = voxels.resample(volume, spacing, to)
        assert (found.shape, found.dtype) == (expected.shape, dtype)
        assert np.abs(found - expected).max() <= 4 * np.finfo(dtype).eps * np.abs(volume).max()
    labels = np.random.default_rng(seed).integers(0, 200, shape, dtype=np.uint8)
    assert np.array_equal(
        voxels.resample(labels, spacing, to, order=0), ndimage.zoom(labels, zoom, order=0, **how)
    )


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "i4", "i8", "bool"])
def test_the_mask_of_labels_is_numpys(dtype):
    labels = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 9, (7, 8, 90)).astype(dtype)
    for wanted in [[1], [0, 3, 8], [-1, 300, 2**40], []]:
        assert np.array_equal(voxels.label(labels, wanted), np.isin(labels.astype("i8"), wanted))
    assert np.array_equal(voxels.label(labels, 1), labels == 1)
    with pytest.raises(TypeError, match="whole numbers, not float32"):
        voxels.label(labels.astype("f4"), 1)


@settings(deadline=None, max_examples=100)
@given(extents, st.data(), shares, seeds)
def test_patches_lie_inside(shape, data, share, seed):
    size = tuple(data.draw(st.integers(1, extent)) for extent in shape)
    labels = random_mask(shape, share, seed).astype(np.uint8)
    for index in range(20):
        where = voxels.patch(labels, size, probability=1.0, seed=seed, index=index)
        assert labels[where].shape == size
        assert labels[where].any() == labels.any()


def test_patches_are_balanced_and_addressed_by_sample():
    labels = np.zeros((32, 32, 32), np.int16)
    labels[3, 5, 7] = 1000
    labels[20, 21, 22] = 1000
    known = {(1, 3, 5), (18, 19, 20)}

    def starts(probability, **address):
        found = [
            voxels.patch(labels, (4, 4, 4), 1000, probability, seed=1, index=index, **address)
            for index in range(1000)
        ]
        return [tuple(part.start for part in where) for where in found]

    around = [start in known for start in starts(0.3)]
    assert 220 < sum(around) < 380
    assert {start for start in starts(1.0)} == known
    assert starts(0.5) == starts(0.5)
    assert starts(0.5) != starts(0.5, epoch=1)
    anywhere = np.array(starts(0.0))
    assert anywhere.min(axis=0).tolist() == [0, 0, 0]
    assert anywhere.max(axis=0).tolist() == [28, 28, 28]
    assert voxels.patch(np.zeros((4, 4, 4), np.uint8), (4, 4, 4), 700, seed=0)[0] == slice(0, 4)


def test_what_is_wrong_is_refused_in_words():
    volume = np.zeros((3, 4, 5), np.float32)
    cases = [
        (ValueError, "three axes", lambda: voxels.erode(volume[0])),
        (ValueError, "no voxels", lambda: voxels.distance(volume[:0])),
        (ValueError, "at least 1", lambda: voxels.dilate(volume, 0)),
        (ValueError, "above 0", lambda: voxels.distance(volume, (1, 0, 1))),
        (ValueError, "above 0", lambda: voxels.distance(volume, (1, float("nan"), 1))),
        (ValueError, "three axes", lambda: voxels.distance(volume, (1, 1))),
        (TypeError, "float32 or float64, not int32", lambda: voxels.distance(volume, dtype=np.int32)),
        (ValueError, "threads", lambda: voxels.distance(volume, threads=0)),
        (ValueError, "above 0", lambda: voxels.falloff(volume, 0.0)),
        (ValueError, "below 0", lambda: voxels.gaussian(volume, -1.0)),
        (ValueError, 'no mode "wrap"', lambda: voxels.gaussian(volume, 1.0, "wrap")),
        (ValueError, "above the first", lambda: voxels.window(volume, 5, 5)),
        (ValueError, "at least 1", lambda: voxels.crop_or_pad(volume, (0, 1, 1))),
        (TypeError, "numbers of up to 8 bytes", lambda: voxels.flip(volume.astype("c16"), 0)),
        (ValueError, "no axis 3", lambda: voxels.flip(volume, 3)),
        (IndexError, "no slice 4 of 4", lambda: voxels.plane(volume, 1, 4)),
        (ValueError, "too many", lambda: voxels.resample(volume, (1, 1, 1), (1e-9, 1e-9, 1e-9))),
        (ValueError, "order 3", lambda: voxels.resample(volume, (1, 1, 1), (1, 1, 2), order=3)),
        (ValueError, "does not fit", lambda: voxels.patch(volume, (4, 4, 4), seed=0)),
        (ValueError, "probability", lambda: voxels.patch(volume, (1, 1, 1), probability=2.0, seed=0)),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()


def test_the_engine_checks_what_it_writes_to():
    mask = np.zeros((3, 4, 5), np.uint8)
    with pytest.raises(ValueError, match="lies where the array does"):
        _engine.voxels_morphology("erode", mask, 1, False, mask)
    fixed = np.zeros((3, 4, 5), np.uint8)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="cannot be written to"):
        _engine.voxels_morphology("erode", mask, 1, False, fixed)
    with pytest.raises(ValueError, match="is not one of 12"):
        _engine.voxels_morphology("erode", mask, 1, False, np.zeros((3, 4), np.uint8))
    with pytest.raises(ValueError, match="not contiguous"):
        _engine.voxels_morphology("erode", mask[:, :, ::2], 1, False, mask.copy())
    with pytest.raises(TypeError, match=r"f32 \| f64"):
        _engine.voxels_distance(mask, (1, 1, 1), 1, np.zeros((3, 4, 5), np.int32))
