"""Masks in the forms that segmenters write are 1 within the body and 0 outside, or one sentence says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from risp_torch.files.levels import read_shares
from risp_torch.files.mask_pictures import covered_rim, mask_of, read_masks
from ti_sim.base.errors import UserError

FRAMES, HEIGHT, WIDTH = 4, 20, 30


def bodies(rows: slice = slice(6, 14), step: int = 4, first: int = 3) -> np.ndarray:
    """uint8 [T, H, W], 1 within a rectangle that moves to the right."""
    masks = np.zeros((FRAMES, HEIGHT, WIDTH), dtype=np.uint8)
    for k in range(FRAMES):
        masks[k, rows, first + step * k : first + step * k + 9] = 1
    return masks


BODY = bodies()
AT_RIM = bodies(rows=slice(0, 9))  # touches the upper side
CLOSE = bodies(rows=slice(0, 20), first=0)  # from the upper side to the lower one


def palette(mask: np.ndarray, colours: list[int]) -> Image.Image:
    image = Image.frombytes("P", mask.shape[::-1], np.ascontiguousarray(mask).tobytes())
    image.putpalette(colours + [0] * (768 - len(colours)))
    return image


def grey(mask: np.ndarray, inside: int, outside: int = 0, kind: type = np.uint8) -> Image.Image:
    return Image.fromarray(np.where(mask, inside, outside).astype(kind))


def colour(mask: np.ndarray, inside: tuple[int, ...], outside: tuple[int, ...]) -> Image.Image:
    return Image.fromarray(np.where(mask[..., None] > 0, inside, outside).astype(np.uint8))


def softened(mask: np.ndarray) -> np.ndarray:
    """Shares with a step of a half on the edges."""
    padded = np.pad(mask.astype(float), 1, mode="edge")
    return 0.25 * (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:])


RIGHT: dict[str, Callable[[np.ndarray], Image.Image]] = {
    **{f"grey {n}": (lambda m, n=n: grey(m, n)) for n in (1, 2, 3, 38, 100, 127, 128, 200, 254, 255)},
    **{f"grey of 16 bits {n}": (lambda m, n=n: grey(m, n, kind=np.uint16)) for n in (1, 5, 255, 256, 1000, 32768, 65535)},
    "one bit": lambda m: Image.fromarray(m * 255).convert("1"),
    "grey and opaque": lambda m: colour(m, (255, 255), (0, 255)),
    "cut-out of grey": lambda m: colour(m, (90, 255), (0, 0)),
    "cut-out of colours": lambda m: colour(m, (120, 90, 40, 255), (120, 90, 40, 0)),
    "cut-out of black": lambda m: colour(m, (0, 0, 0, 255), (0, 0, 0, 0)),
    "cut-out before white": lambda m: colour(m, (30, 20, 10, 255), (255, 255, 255, 0)),
    "white, opaque": lambda m: colour(m, (255, 255, 255, 255), (0, 0, 0, 255)),
    "white": lambda m: colour(m, (255, 255, 255), (0, 0, 0)),
    "green": lambda m: colour(m, (0, 255, 0), (0, 0, 0)),
    "red of DAVIS": lambda m: colour(m, (128, 0, 0), (0, 0, 0)),
    "blue of 1": lambda m: colour(m, (0, 0, 1), (0, 0, 0)),
    "numbers in three channels": lambda m: colour(m, (3, 3, 3), (0, 0, 0)),
    "palette of DAVIS": lambda m: palette(m, [0, 0, 0, 128, 0, 0]),
    "palette with a white background": lambda m: palette(m, [255, 255, 255, 0, 0, 0]),
    "palette of greys": lambda m: palette(m, [0, 0, 0, 1, 1, 1]),
    "palette of black alone": lambda m: palette(m, [0] * 6),
    "palette, number 7": lambda m: palette(7 * m, [0, 0, 0]),
}
BY_RIM: dict[str, Callable[[np.ndarray], Image.Image]] = {
    "numbers 1 and 2": lambda m: grey(m, 2, 1),
    "numbers 2 and 1": lambda m: grey(m, 1, 2),
    "grey on darker grey": lambda m: grey(m, 200, 40),
    "red on blue": lambda m: colour(m, (255, 0, 0), (0, 0, 255)),
    "blue on red": lambda m: colour(m, (0, 0, 255), (255, 0, 0)),
    "palette whose first colour is white": lambda m: palette(1 - m, [255, 255, 255, 0, 0, 0]),
    "palette with numbers 4 and 9": lambda m: palette(np.where(m, 4, 9).astype(np.uint8), [0] * 6),
}


def write(folder: Path, make: Callable[[np.ndarray], Image.Image], masks: np.ndarray, ending: str = "png", **options) -> Path:
    folder.mkdir(exist_ok=True)
    for k, mask in enumerate(masks):
        make(mask).save(folder / f"{k}.{ending}", **options)
    return folder


@pytest.mark.parametrize("masks", [BODY, AT_RIM, CLOSE], ids=["within", "at the rim", "across"])
@pytest.mark.parametrize("form", RIGHT)
def test_forms_that_have_a_background_of_zero(tmp_path: Path, form: str, masks: np.ndarray) -> None:
    np.testing.assert_array_equal(read_masks(write(tmp_path / "m", RIGHT[form], masks), "the masks"), masks)


@pytest.mark.parametrize("form", BY_RIM)
def test_forms_whose_background_lies_on_the_rim(tmp_path: Path, form: str) -> None:
    np.testing.assert_array_equal(read_masks(write(tmp_path / "m", BY_RIM[form], BODY), "the masks"), BODY)
    np.testing.assert_array_equal(read_masks(write(tmp_path / "n", BY_RIM[form], AT_RIM), "the masks"), AT_RIM)


@pytest.mark.parametrize("number", [1, 128, 255])
def test_inverted_masks_are_refused_and_can_be_named(tmp_path: Path, number: int) -> None:
    folder = write(tmp_path / "m", lambda m: grey(m, 0, number), BODY)
    with pytest.raises(UserError, match="white on 100 % of the picture's rim and black within.*--masks PATH:N.*such as 0"):
        read_masks(folder, "the masks")
    np.testing.assert_array_equal(read_masks(folder, "the masks", number=0), BODY)
    soft = write(tmp_path / "s", lambda m: Image.fromarray(np.uint8(255 * (1 - softened(m)))), BODY)
    with pytest.raises(UserError, match="as inverted masks are"):
        read_masks(soft, "the masks")


@pytest.mark.parametrize("kind", ["palette", "grey", "sixteen bits", "three channels", "array"])
def test_objects_are_chosen_by_their_numbers(tmp_path: Path, kind: str) -> None:
    labels = 3 * BODY + 38 * np.roll(BODY, 9, axis=1) * (BODY == 0)
    make = {
        "palette": lambda m: palette(m, [0, 0, 0, 128, 0, 0]), "grey": Image.fromarray,
        "sixteen bits": lambda m: Image.fromarray(m.astype(np.uint16)),
        "three channels": lambda m: Image.fromarray(m).convert("RGB"),
    }  # fmt: skip
    path = tmp_path / "m.npy"
    if kind == "array":
        np.save(path, labels)
    else:
        path = write(tmp_path / "m", make[kind], labels)
    with pytest.raises(UserError, match="hold the numbers 0, 3, 38, as of several objects: .*--masks PATH:N"):
        read_masks(path, "the masks")
    for number in (3, 38):
        np.testing.assert_array_equal(read_masks(path, "the masks", number=number), labels == number)
    with pytest.raises(UserError, match="hold no object 4: they have 0, 3, 38"):
        read_masks(path, "the masks", number=4)


@pytest.mark.parametrize("levels", [(85, 170, 255), (100, 255), (60, 120, 180)])
def test_objects_with_bright_numbers_are_no_shares(tmp_path: Path, levels: tuple[int, ...]) -> None:
    labels = sum(np.uint8(level) * np.roll(BODY, 10 * k, axis=2) for k, level in enumerate(levels))
    with pytest.raises(UserError, match="as of several objects"):
        read_masks(write(tmp_path / "m", Image.fromarray, labels), "the masks")


@pytest.mark.parametrize(("scale", "kind"), [(255, np.uint8), (65535, np.uint16), (255, np.uint16)])
def test_shares_stay_shares(tmp_path: Path, scale: int, kind: type) -> None:
    wanted = np.stack([softened(mask) for mask in BODY])
    folder = write(tmp_path / "m", lambda m: Image.fromarray(np.round(scale * softened(m)).astype(kind)), BODY)
    read = read_masks(folder, "the masks")
    np.testing.assert_allclose(read, wanted, atol=0.51 / scale)
    np.testing.assert_allclose(mask_of(wanted, "the masks"), wanted)
    np.testing.assert_allclose(mask_of(0.3 * wanted, "the masks"), 0.3 * wanted, rtol=1e-6)  # of a body that moves fast


@pytest.mark.parametrize("quality", [50, 75, 95])
def test_jpeg_masks(tmp_path: Path, quality: int) -> None:
    large = np.ones((8, 8), np.uint8)
    folder = write(tmp_path / "m", lambda m: Image.fromarray(np.kron(m * np.uint8(255), large)), BODY, "jpg", quality=quality)
    wanted = np.kron(BODY, np.ones((8, 8)))
    assert np.abs(read_masks(folder, "the masks") - wanted).mean() < 0.01


@pytest.mark.parametrize(
    "array",
    [
        BODY, BODY.astype(bool), 255 * BODY, BODY.astype(np.int64), 7 * BODY.astype(np.uint16), BODY.astype(np.float32),
        BODY[:, None], BODY[..., None], BODY.astype(np.float64) / 255, 65535 * BODY.astype(np.uint16),
        1000 * BODY.astype(np.int32), BODY.astype(np.float16), (1 + BODY) / 255, (2 - BODY) / 255,
    ],
)  # fmt: skip
def test_arrays(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "m.npy", array)
    np.testing.assert_array_equal(read_masks(tmp_path / "m.npy", "the masks"), BODY)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (20.0 * BODY - 10, "are no numbers from 0 to 1: give shares of pixels .the logistic function of logits."),
        (-1 * BODY.astype(int), "hold negative numbers"),
        (np.where(BODY, np.nan, 0.0), "are no numbers from 0 to 1"),
        (BODY.astype(complex), "are complex128 of shape"),
        (np.zeros((2, 3, 20, 30)), r"are float64 of shape \(2, 3, 20, 30\): give numbers \[frames, height, width\]"),
        (np.zeros(5), "are float64 of shape"),
    ],
)
def test_arrays_that_are_no_masks(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "m.npy", array)
    with pytest.raises(UserError, match=message):
        read_masks(tmp_path / "m.npy", "the masks")


def test_folders_that_mix_kinds_or_hold_archives(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", lambda m: grey(m, 255), BODY)
    palette(BODY[0], [0, 0, 0, 128, 0, 0]).save(folder / "1.png")
    with pytest.raises(UserError, match="are pictures of different kinds: save them all in one way"):
        read_masks(folder, "the masks")
    np.savez(tmp_path / "m.npz", BODY)
    with pytest.raises(UserError, match="are several arrays: give numbers"):
        read_masks(tmp_path / "m.npz", "the masks")


def test_palettes_of_single_frames_are_read_by_their_colours(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", lambda m: palette(m, [0, 0, 0, 255, 255, 255]), BODY)
    palette(1 - BODY[2], [255, 255, 255, 0, 0, 0]).save(folder / "2.png")
    np.testing.assert_array_equal(read_masks(folder, "the masks"), BODY)


def test_frames_without_a_body(tmp_path: Path) -> None:
    """They stay empty, in every form."""
    masks = BODY.copy()
    masks[1] = 0
    for form, make in RIGHT.items():
        np.testing.assert_array_equal(read_masks(write(tmp_path / form, make, masks), "the masks"), masks, err_msg=form)


def test_the_rim_that_masks_cover() -> None:
    assert covered_rim(BODY) == 0 and covered_rim(1 - BODY) == 1 and covered_rim(np.zeros((2, 4, 4))) == 0
    assert covered_rim(np.ones((1, 4, 4))) == 1 and covered_rim(AT_RIM) == pytest.approx((9 * 4) / (4 * 96), rel=0.2)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_weights_of_the_numbers_0_and_1(tmp_path: Path, kind: type) -> None:
    """Weights have no background: white counts, wherever it lies."""
    write(tmp_path / "w", lambda m: grey(m, 1, 0, kind), 1 - BODY)
    np.testing.assert_array_equal(read_shares(tmp_path / "w", "the weights"), 1 - BODY)
    np.save(tmp_path / "w.npy", (255 * (1 - BODY)).astype(np.uint8))
    np.testing.assert_array_equal(read_shares(tmp_path / "w.npy", "the weights"), 1 - BODY)
