"""Masks and weights of whole pictures are cut and averaged as the film that was cut from these."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from risp_torch.files.film.cut import Cut
from risp_torch.files.film.cut_to_film import cut_to_film
from risp_torch.files.film.film import film_facts, open_film, read_film
from risp_torch.files.film.picture_folder import DESCRIPTION, LINEAR
from risp_torch.files.film.write import write_folder, write_part
from risp_torch.inversion.losses.masks import MaskLoss
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from tests.reference import film_files as made
from tests.reference.film_files import BT709, LIMITED, SRGB
from ti_sim.base.errors import UserError

FRAMES, HEIGHT, WIDTH = 7, 20, 30
CUT = Cut(first=1, every=2, crop=(4, 2, 24, 16), size=(10, 6))


@pytest.fixture
def masks() -> np.ndarray:
    """[T, H, W] of 0 and 1."""
    masks = np.zeros((FRAMES, HEIGHT, WIDTH), dtype=np.float32)
    for k in range(FRAMES):
        masks[k, 5 + k : 12 + k, 6 + 2 * k : 15 + 2 * k] = 1.0
    return masks


@pytest.fixture
def part(tmp_path: Path, masks: np.ndarray) -> Path:
    """A part of the film that shows the masks themselves, as linear numbers."""
    write_folder(tmp_path / "whole", np.repeat(masks[..., None], 3, axis=-1), {"fps": 30.0, "curve": LINEAR}, bits=16)
    write_part(tmp_path / "part", open_film(tmp_path / "whole"), CUT, bits=16)
    return tmp_path / "part"


def test_masks_are_cut_and_averaged_as_the_film(part: Path, masks: np.ndarray) -> None:
    right = read_film(part).pictures[..., 0]
    assert right.shape == (3, 6, 10) and ((right > 0.01) & (right < 0.99)).any()
    np.testing.assert_allclose(cut_to_film(masks, film_facts(part), "the masks"), right, atol=2e-5)
    loss = MaskLoss(masks, film=part)
    np.testing.assert_allclose(loss.masks[..., 0].cpu().numpy(), right, atol=2e-5)
    np.save(part.parent / "weights.npy", masks[:1])
    weights = PixelWeights.read(part.parent / "weights.npy", film=part)
    np.testing.assert_allclose(weights.values[0].cpu().numpy(), cut_to_film(masks[:1], film_facts(part), "")[0], atol=1e-6)


def test_what_has_the_size_or_the_frames_of_the_film_is_not_cut_again(part: Path, masks: np.ndarray) -> None:
    facts = film_facts(part)
    right = cut_to_film(masks, facts, "the masks")
    np.testing.assert_array_equal(cut_to_film(right, facts, "the masks"), right)
    np.testing.assert_allclose(cut_to_film(masks[1::2], facts, "the masks"), right, atol=1e-6)


def test_parts_of_parts_keep_the_frames_of_the_whole_film(part: Path, masks: np.ndarray) -> None:
    write_part(part.parent / "again", open_film(part), Cut(first=1, crop=(2, 1, 6, 4)), bits=16)
    facts = film_facts(part.parent / "again")
    assert (facts.source_frames, facts.num_source_frames) == ((3, 5), FRAMES)
    np.testing.assert_allclose(cut_to_film(masks, facts, "the masks"), read_film(facts.path).pictures[..., 0], atol=2e-5)


def test_masks_are_turned_as_the_film(tmp_path: Path) -> None:
    """Of 48x32 stored pixels, 2:3 and turned clockwise, masks may be those as stored, turned, or as shown."""
    tags = (BT709, BT709, SRGB, LIMITED)
    video = made.write_film_file(tmp_path / "v.mp4", [made.pattern()] * 3, tags=tags, pixel_aspect=Fraction(2, 3), degrees=-90)
    write_part(tmp_path / "part", open_film(video), Cut(crop=(3, 5, 20, 16), size=(10, 8)), bits=16)
    facts, stored = film_facts(tmp_path / "part"), np.random.default_rng(0).random((3, 32, 48)).astype(np.float32)
    turned = np.rot90(stored, k=-1, axes=(1, 2))
    cut = cut_to_film(stored, facts, "the masks")
    np.testing.assert_allclose(cut, cut_to_film(turned, facts, "the masks"), atol=1e-6)
    averaged = np.repeat(turned, 2, axis=1).reshape(3, 32, 3, 32).mean(axis=2)  # three stored pixels are two as shown
    np.testing.assert_allclose(cut, cut_to_film(averaged, facts, "the masks"), atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((FRAMES, 21, WIDTH), "the masks are 30 x 21 pixels, and .*part has or was cut from 10x6 or 30x20: give"),
        ((5, HEIGHT, WIDTH), "the masks have 5 pictures, and .*part has 3 of the 7 frames of the film that it was cut from"),
    ],
    ids=["size", "frames"],
)
def test_masks_of_another_film_are_an_error(part: Path, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        cut_to_film(np.zeros(shape, dtype=np.float32), film_facts(part), "the masks")


@pytest.mark.parametrize("wrong", [{"numbers": [0, 1], "of": 7}, {"numbers": [0, 1, 9], "of": 7}, {"of": 7}, [1], "x"], ids=str)
def test_wrong_frames_in_a_description_are_an_error(part: Path, wrong: object) -> None:
    said = json.loads((part / DESCRIPTION).read_text())
    (part / DESCRIPTION).write_text(json.dumps(said | {"source_frames": wrong}))
    with pytest.raises(UserError, match="video.json is not a description of a video"):
        film_facts(part)
