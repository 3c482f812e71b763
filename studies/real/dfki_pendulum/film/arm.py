"""The arm in its solved look: the plate behind it, and the greys of its materials."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from risp_torch import Scene
from scenes.real import double_pendulum as pendulum

LOOK_SCALE = 0.06  # residual (linear light) from which on a pixel counts less


@dataclass(frozen=True, eq=False)
class Arm:
    """Coverage of the arm's materials in pictures, by the scene's own renderer.

    Attributes:
        scene: the pendulum in the light of ``make_scene``, in which a surface has its own colour.
        numbers: values of the scene's numbers in place of its own (lengths, camera).
    """

    scene: Scene
    numbers: dict[str, np.ndarray] = field(default_factory=dict)

    def coverage(self, angles: np.ndarray) -> np.ndarray:
        """[n, 4, H, W]: what share of a pixel is metal, black, the weight's ring, and anything of the arm, at angles [n, 2].

        Materials have the colours red, green and blue, so that one picture holds all three.
        """
        values = {name: torch.as_tensor(np.asarray(value), dtype=torch.float32) for name, value in self.numbers.items()}
        angles = torch.as_tensor(np.asarray(angles), dtype=torch.float32)
        joints = {"upper.angle": angles[:, 0], "lower.angle": angles[:, 1]}
        with torch.no_grad():
            poses = self.scene.start_poses(self.scene.table.values({**values, **joints}))
            of_world = {name: value[None] for name, value in values.items()}
            pictures = self.scene.render(poses[None], of_world | self._materials, alpha=True)[0]
        return pictures.permute(0, 3, 1, 2).cpu().numpy()

    @property
    def _materials(self) -> dict[str, torch.Tensor]:
        """One-hot colours in place of those of the scene."""
        names = {tuple(color): k for k, color in enumerate((pendulum.METAL, pendulum.BLACK, pendulum.WEIGHT))}
        materials = {"background.color": torch.zeros(1, 3)}
        for name, param in self.scene.parameters.items():
            if name.endswith(("face_colors", ".color")) and name != "background.color":
                rows = np.atleast_2d(param.value)
                hot = np.eye(3)[[names[tuple(row)] for row in rows]]
                materials[name] = torch.as_tensor(hot if np.ndim(param.value) == 2 else hot[0], dtype=torch.float32)[None]
        return materials


@dataclass(frozen=True, eq=False)
class Look:
    """Appearance of the film: grey [3] of the materials, and the background plate [H, W] (linear light)."""

    grey: np.ndarray
    plate: np.ndarray

    def pictures(self, coverage: np.ndarray) -> np.ndarray:
        """[n, H, W] of coverages [n, 4, H, W]."""
        return np.einsum("k,nkhw->nhw", self.grey, coverage[:, :3]) + (1 - coverage[:, 3]) * self.plate


def first_plate(pictures: np.ndarray) -> np.ndarray:
    """The median [H, W] of pictures [n, H, W] in which the arm is elsewhere most of the time."""
    plate = np.nanmedian(pictures, axis=0)
    return np.where(np.isfinite(plate), plate, np.nanmean(plate))


def solved_look(pictures: np.ndarray, coverage: np.ndarray, plate: np.ndarray, *, rounds: int = 4) -> Look:
    """Greys of the materials by weighted linear least squares, and the plate behind, in turn.

    Args:
        pictures: [n, H, W], NaN where nothing is known.
        coverage: [n, 4, H, W] (``Arm.coverage``).
        plate: [H, W] to begin with; it stays where the arm never leaves.
        rounds: of both.
    """
    is_visible, behind = np.isfinite(pictures), 1 - coverage[:, 3]
    filled = np.where(is_visible, pictures, 0.0)
    grey = np.full(3, 0.2)
    is_near_arm = is_visible & (coverage[:, 3] > 0.02)
    columns = np.stack([coverage[:, k][is_near_arm] for k in range(3)], axis=1)
    for done in range(rounds):
        rest = (filled - behind * plate)[is_near_arm]
        weight = geman(rest - columns @ grey) if done else np.ones(len(rest))
        normal = columns.T @ (weight[:, None] * columns)
        grey = np.linalg.solve(normal + 1e-6 * np.trace(normal) * np.eye(3), columns.T @ (weight * rest))
        arm = np.einsum("k,nkhw->nhw", grey, coverage[:, :3])
        weight = is_visible * geman(filled - arm - behind * plate)
        pull = 0.3  # pictures: below that much evidence the plate stays
        plate = ((weight * behind * (filled - arm)).sum(0) + pull * plate) / ((weight * behind**2).sum(0) + pull)
    return Look(grey, plate)


def geman(residual: np.ndarray, scale: float = LOOK_SCALE) -> np.ndarray:
    """Weights of residuals (Geman and McClure 1987)."""
    return (1 + (residual / scale) ** 2) ** -2.0


def misfit(residual: np.ndarray, scale: float = LOOK_SCALE) -> np.ndarray:
    """[n] robust sums of residuals [n, H, W], of which ``geman`` has the weights."""
    squares = residual**2
    return (squares / (1 + squares / scale**2)).sum(axis=(1, 2))
