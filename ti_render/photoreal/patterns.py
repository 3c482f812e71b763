"""Procedural textures of the ground; all are periodic."""

from __future__ import annotations

import numpy as np

from ti_render.photoreal.appearance import Appearance, generator_for, tint

PATTERN_TEXELS = 512
PATTERN_CELLS = 8  # cells of the pattern along one side of the texture


def ground_texels(appearance: Appearance) -> np.ndarray:
    """One period of the ground's pattern [h, w, 3], linear rgb, ``PATTERN_CELLS`` cells wide.

    Args:
        appearance: with the pattern, its grey, warmth and contrast.
    """
    pattern_function = {"checker": _checker, "tiles": _tiles, "planks": _planks, "concrete": _concrete}[
        appearance.choices["ground.pattern"]
    ]
    shade = pattern_function(generator_for(appearance.seed, "ground.texture"))  # about -1 to 1
    grey = appearance.numbers["ground.grey"] * (1 + appearance.numbers["ground.contrast"] * shade)
    return np.clip(grey[..., None] * tint(appearance.numbers["ground.warmth"]), 0.02, 0.9)


def value_noise(rng: np.random.Generator, cells: tuple[int, int], texels_per_side: int = PATTERN_TEXELS) -> np.ndarray:
    """Periodic smooth noise [S, S] in [-1, 1], S = ``texels_per_side``: random values on a grid, interpolated by smoothstep.

    Args:
        rng: source of the values.
        cells: of the grid along rows and columns.
        texels_per_side: S.
    """
    grid = rng.uniform(-1, 1, cells)
    index, weight = zip(*(_smoothstep_weights(count, texels_per_side) for count in cells), strict=True)
    (top, left), (row_weight, column_weight) = index, weight
    bottom, right = (top + 1) % cells[0], (left + 1) % cells[1]
    upper = grid[top][:, left] * (1 - column_weight) + grid[top][:, right] * column_weight
    lower = grid[bottom][:, left] * (1 - column_weight) + grid[bottom][:, right] * column_weight
    return upper * (1 - row_weight[:, None]) + lower * row_weight[:, None]


def _smoothstep_weights(count: int, texels_per_side: int) -> tuple[np.ndarray, np.ndarray]:
    position = (np.arange(texels_per_side) + 0.5) * count / texels_per_side
    index = np.floor(position).astype(int)
    fraction = position - index
    return index % count, fraction * fraction * (3 - 2 * fraction)


def _octave_noise(rng: np.random.Generator, coarsest_cells: tuple[int, int], octaves: int) -> np.ndarray:
    """Noise of several octaves, each half as strong as the previous one."""
    return sum(value_noise(rng, (coarsest_cells[0] << k, coarsest_cells[1] << k)) * 0.5**k for k in range(octaves)) / 2


def _cells() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cell of every texel along one axis [S], and its position in the cell along rows and columns, 0 to 1."""
    position = (np.arange(PATTERN_TEXELS) + 0.5) * PATTERN_CELLS / PATTERN_TEXELS
    index = np.floor(position).astype(int)
    return index, (position - index)[:, None], (position - index)[None, :]


def _checker(rng: np.random.Generator) -> np.ndarray:
    index, _, _ = _cells()
    return np.where((index[:, None] + index[None, :]) % 2 == 0, 0.8, -0.8) + 0.2 * _octave_noise(rng, (16, 16), 3)


def _tiles(rng: np.random.Generator) -> np.ndarray:
    index, row_fraction, column_fraction = _cells()
    shade = rng.uniform(-0.4, 0.6, (PATTERN_CELLS, PATTERN_CELLS))[index][:, index]
    at_row_joint, at_column_joint = (np.minimum(x, 1 - x) < 0.03 for x in (row_fraction, column_fraction))
    return np.where(at_row_joint | at_column_joint, -0.95, shade + 0.25 * _octave_noise(rng, (16, 16), 4))


def _planks(rng: np.random.Generator) -> np.ndarray:
    index, row_fraction, _ = _cells()
    shade = rng.uniform(-0.5, 0.5, PATTERN_CELLS)[index][:, None]
    grain = _octave_noise(rng, (64, 4), 3)
    is_joint = np.minimum(row_fraction, 1 - row_fraction) < 0.025  # a gap between two planks
    return np.where(is_joint, -0.9, shade + 0.7 * grain)


def _concrete(rng: np.random.Generator) -> np.ndarray:
    return 1.3 * _octave_noise(rng, (6, 6), 6)
