"""Faces binned in parallel, as on a GPU: the same numbers as with one thread for each image."""

import numpy as np
import pytest

from ti_render.raster.binning import bin_faces
from ti_render.raster.tiles import Tiles
from ti_sim.base.runtime import require


def random_scene(images: int, vertices: int, faces: int, size: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Screen vertices, some of them behind the eye, and small and large faces between vertices that are near each other."""
    rng = np.random.default_rng(seed)
    screen = np.empty((images, vertices, 3), require().numpy_dtype)
    screen[..., :2] = np.cumsum(rng.normal(size=(images, vertices, 2)) * size, axis=1) % 3 - 1.5
    screen[..., 2] = rng.uniform(-0.3, 5.0, (images, vertices))
    corners = np.zeros((faces, 8), np.int32)
    first = rng.integers(0, vertices, faces)
    corners[:, :3] = (first[:, None] + rng.integers(0, 5, (faces, 3))) % vertices
    return screen, corners


def assert_same(screen: np.ndarray, corners: np.ndarray, **options: object) -> Tiles:
    """Both ways of binning give the same numbers; returns the tiles."""
    (expected, occupied), (tiles, number) = (bin_faces(screen, corners, parallel=way, **options) for way in (False, True))
    assert occupied == number == np.count_nonzero(tiles.slot >= 0)
    np.testing.assert_array_equal(tiles.start, expected.start)
    np.testing.assert_array_equal(tiles.slot, expected.slot)
    np.testing.assert_array_equal(tiles.entries[: tiles.start[-1]], expected.entries[: tiles.start[-1]])
    np.testing.assert_array_equal(tiles.slot[tiles.tile_of_slot[:number]], np.arange(number))
    return tiles


@pytest.mark.parametrize(
    ("images", "vertices", "faces", "size", "width", "height", "side"),
    [
        (4, 3, 1, 0.5, 32, 32, 4), (1, 200, 300, 0.05, 64, 48, 16), (7, 150, 211, 0.1, 33, 70, 4), (40, 20, 9, 0.3, 16, 16, 8),
        (2, 700, 1008, 0.01, 128, 128, 16), (100, 10, 2, 0.2, 4, 4, 4), (3, 200, 300, 0.1, 128, 128, 4),
    ],
)  # fmt: skip
def test_same_tiles(images: int, vertices: int, faces: int, size: float, width: int, height: int, side: int) -> None:
    # (Mesa's software driver ends loops of more than 65,536 rounds: images have fewer faces in tiles.)
    screen, corners = random_scene(images, vertices, faces, size, seed=faces)
    tiles = assert_same(screen, corners, width=width, height=height, side=side, sigma=1e-3)
    assert faces < 100 or tiles.start[-1] > faces // 9


def test_same_tiles_of_pixels_that_a_lens_moves() -> None:
    screen, corners = random_scene(3, 60, 80, 0.1, seed=5)
    y, x = np.mgrid[:20, :30].astype(screen.dtype)
    centres = np.stack([(x - 14.5) / 10, (y - 9.5) / 10], axis=-1)
    centres = np.ascontiguousarray(np.stack([centres * (1 + k * (centres**2).sum(-1, keepdims=True)) for k in (0.0, 0.1, -0.05)]))
    assert_same(screen, corners, width=30, height=20, side=4, sigma=1e-3, centres=centres)


@pytest.mark.parametrize("depth", [-1.0, 1.0], ids=["behind_the_eye", "at_one_depth"])
def test_same_tiles_of_faces(depth: float) -> None:
    screen, corners = random_scene(2, 50, 300, 0.02, seed=1)
    screen[..., 2] = depth
    tiles = assert_same(screen, corners, width=40, height=40, side=8, sigma=1e-4)
    assert (tiles.start[-1] == 0) == (depth < 0)


def test_tiles_without_faces() -> None:
    screen, corners = random_scene(2, 5, 0, 0.1, seed=2)
    assert_same(screen, corners, width=8, height=8, side=4, sigma=1e-4)
