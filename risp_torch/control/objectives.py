"""Objectives of control: difference from the goal's picture, or from its state."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch.nn import functional

from risp_torch.control.rollouts import ControlledRollout
from risp_torch.control.task import ControlTask, Goal, Objective
from risp_torch.scene.numbers import constant
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import joined_placement, split_placement
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

_CUTOFF = 3.0  # of a Gaussian, in standard deviations


class GoalLoss:
    """Loss and error of a motion relative to a goal.

    Attributes:
        frames: indices of the compared frames, ascending.
        target_positions: [1, P, 3] or [frames, P, 3] target positions of the particles [m]; None if only pictures are known.
        pictures: [1, H, W, 3] or [frames, H, W, 3] target pictures (linear rgb); None if pictures are not compared.
    """

    @checked
    def __init__(
        self,
        scene: Scene,
        task: ControlTask,
        goal: Goal | None,
        *,
        pictures: torch.Tensor | None = None,
        render_goal: bool = True,
    ) -> None:
        """Prepare the targets of a goal.

        Args:
            scene: the scene.
            task: control task of the scene.
            goal: target positions of the particles; None if only pictures are known.
            pictures: of the target, [1, H, W, 3] or [frames + 1, H, W, 3]; rendered from the goal by default.
            render_goal: whether to render the goal's pictures if none are given; pictures are otherwise not compared.

        Raises:
            UserError: there is neither goal nor picture, or the shape of one does not fit.
        """
        if goal is None and pictures is None:
            raise UserError("there is neither a goal nor its picture: give one of the two")
        self.scene, self.task = scene, task
        self.frames = task.compared_frames(scene.frames)
        self.target_positions = None if goal is None else self._rows_at_compared_frames(check_goal(scene, goal), "the goal")
        self.pictures = None
        if pictures is not None:
            self.pictures = self._rows_at_compared_frames(check_pictures(scene, pictures), "the target")
        elif render_goal:
            with torch.no_grad():
                self.pictures = scene.render(goal_placement(scene, self.target_positions)[None])[0]
        mass = torch.cat([deformable.mass(scene.table.values()) for deformable in scene.deformables], dim=1)[0].detach()
        self._mass_fraction = mass / mass.sum()

    def remaining(self, frame: int) -> GoalLoss:
        """The goal loss of the motion after a frame; frame indices are relative to this frame."""
        remaining_loss = copy.copy(self)
        later_rows = [k for k, frame_index in enumerate(self.frames) if frame_index > frame]
        remaining_loss.frames = tuple(self.frames[k] - frame for k in later_rows)
        remaining_loss.target_positions, remaining_loss.pictures = (
            rows if rows is None or len(rows) == 1 else rows[later_rows] for rows in (self.target_positions, self.pictures)
        )
        return remaining_loss

    def loss(self, rollout: ControlledRollout, objective: Objective) -> torch.Tensor:
        """The minimised loss.

        Args:
            rollout: a motion of one world.
            objective: "image" for pictures; "state" and "random" for the task's error measure.
        """
        goal_loss = (
            self.image_loss(rollout) if objective == "image" or self.target_positions is None else self.state_loss(rollout)
        )
        return goal_loss + self.task.penalty * rollout.outputs.square().mean() if self.task.penalty else goal_loss

    def image_loss(self, rollout: ControlledRollout) -> torch.Tensor:
        """Mean squared differences of blurred pictures, summed over the standard deviations of the blur."""
        pictures = self.scene.render(rollout.states, {}, frames=list(self.frames))[0]
        difference = pictures - self.pictures
        return sum(blurred(difference, width).square().mean() for width in self.task.blur)

    def state_loss(self, rollout: ControlledRollout) -> torch.Tensor:
        """Mean squared error measure over the compared frames, relative to the task's size."""
        offset = self._offset(rollout.states.particle_q[0, list(self.frames)], self.target_positions)
        return offset.square().sum(dim=-1).mean() / self.task.size**2

    def error(self, rollout: ControlledRollout) -> float:
        """The error measure at the last frame, relative to the task's size; NaN if the goal's state is unknown."""
        if self.target_positions is None:
            return math.nan
        offset = self._offset(rollout.states.particle_q[0, -1:].detach(), self.target_positions[-1:])
        return float(offset.norm(dim=-1).mean()) / self.task.size

    def displacement(self, rollout: ControlledRollout) -> list[float]:
        """[3] displacement of the centre of mass from the first frame to the last [m]."""
        first, last = rollout.states.particle_q[0, [0, -1]].detach()
        return (self._mass_fraction @ (last - first)).tolist()

    def _offset(self, positions: torch.Tensor, target_positions: torch.Tensor) -> torch.Tensor:
        """Difference of motion and goal [m]: [T, P, 3] of particles, [T, 3] of the centre of mass, or [T, 1] along an axis."""
        offset = positions - target_positions
        if self.task.measure == "vertices":
            return offset
        center_offset = torch.einsum("p,tpk->tk", self._mass_fraction, offset)
        if self.task.measure == "center":
            return center_offset
        direction = constant(self.task.direction)
        return (center_offset @ (direction / direction.norm()))[:, None]

    def _rows_at_compared_frames(self, rows: torch.Tensor, quantity: str) -> torch.Tensor:
        """One row for all frames, or the rows of the compared frames."""
        if len(rows) not in (1, self.scene.frames + 1):
            raise UserError(f"{quantity} has {len(rows)} rows: give 1, or one for each of the {self.scene.frames + 1} frames")
        return rows if len(rows) == 1 else rows[list(self.frames)]


def check_goal(scene: Scene, goal: Goal) -> torch.Tensor:
    """The goal's positions [rows, P, 3] in the runtime's precision (UserError: another shape, or not finite)."""
    positions = constant(goal.placement)
    if positions.ndim != 3 or tuple(positions.shape[1:]) != (scene.particle_count, 3) or not torch.isfinite(positions).all():
        raise UserError(
            f"the goal's positions have shape {tuple(positions.shape)}: give finite (1 or frames + 1, {scene.particle_count}, 3)"
        )
    return positions


def check_pictures(scene: Scene, pictures: torch.Tensor) -> torch.Tensor:
    """The target's pictures (UserError: of another size than the scene's)."""
    camera = scene.camera
    if camera is None:
        raise UserError("the scene has no camera, and the target is a picture: add one with add_camera")
    shape = (camera.height, camera.width, 3)
    if pictures.ndim != 4 or tuple(pictures.shape[1:]) != shape:
        raise UserError(
            f"the target has pictures of shape {tuple(pictures.shape[1:])}, and those of the scene have {shape}: scale them, or "
            "change the camera's size"
        )
    return constant(pictures)


def goal_placement(scene: Scene, positions: torch.Tensor) -> torch.Tensor:
    """[rows, ...] placement (``Scene.poses``), other bodies at their initial poses, for positions [rows, P, 3]."""
    with torch.no_grad():
        initial_placement = scene.start_poses(scene.table.values())
        body_q, _ = split_placement(initial_placement, bodies=len(scene.bodies), particles=scene.particle_count)
    return joined_placement(body_q.expand(len(positions), *body_q.shape[1:]), positions)


def blurred(pictures: torch.Tensor, width: float) -> torch.Tensor:
    """Pictures [n, H, W, C], blurred by a Gaussian with a standard deviation [pixels]; zero beyond their edges."""
    if width == 0:
        return pictures
    half_width = math.ceil(_CUTOFF * width)
    pixel_offsets = np.arange(-half_width, half_width + 1)
    weights = np.exp(-0.5 * (pixel_offsets / width) ** 2)
    kernel = constant(weights / weights.sum())
    channels = pictures.permute(0, 3, 1, 2).flatten(0, 1)[:, None]
    channels = functional.conv2d(channels, kernel[None, None, :, None], padding=(half_width, 0))
    channels = functional.conv2d(channels, kernel[None, None, None, :], padding=(0, half_width))
    return channels[:, 0].unflatten(0, (len(pictures), pictures.shape[3])).permute(0, 2, 3, 1)
