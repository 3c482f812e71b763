"""The motion of a scene: its states and placement at the frames."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from risp_torch.scene.state import State
from ti_sim.base.errors import UserError


@dataclass(frozen=True)
class ExposureMotion:
    """Motion during the exposures of a film: a line of a picture is a weighted mean of the pictures at S moments.

    Attributes:
        placement: [B, T, S, rows, columns] placement of all bodies (``joined_placement``).
        weights: [B, L, S] of the moments in each line of a picture, not negative, with sums of one.
        sideways: whether the lines are columns of the picture, not rows.
    """

    placement: torch.Tensor
    weights: torch.Tensor
    sideways: bool


@dataclass(frozen=True)
class States:
    """Motion of a batch of worlds at the frames; with a clock (``Scene.set_film``) at the time stamps of the film.

    Attributes:
        body_q: [B, T, N, 7] positions of the centres of mass [m] and quaternions (x, y, z, w); frame 0 is the start.
        body_qd: [B, T, N, 6] velocities [m/s] and angular velocities [rad/s], world frame.
        diverged_step: [B, N] int32, first physics step with a number that is not finite or a centre of mass beyond the scene's
            max_distance, -1 if there is none. Deformable bodies have one additional column.
        joint_q: [B, T, Q] coordinates of all joints [m, rad, quaternions] in a scene with links (``ArticulatedModel``); None in
            others, and with a clock.
        joint_qd: [B, T, D] velocities of all joints [m/s, rad/s]; None in scenes without links.
        particle_q: [B, T, P, 3] positions of the particles of all deformable bodies [m]; None in scenes without any.
        particle_qd: [B, T, P, 3] their velocities [m/s]; None in scenes without any.
        moment: [B, T] scene times of the frames with a clock [s], in double precision; None without one.
        exposed: motion during the exposures of a film that has any; None without.
        last: state at the last frame, from which ``Scene.step`` and ``Scene.rollout`` continue; None with a clock.
    """

    body_q: torch.Tensor
    body_qd: torch.Tensor
    diverged_step: torch.Tensor
    joint_q: torch.Tensor | None = None
    joint_qd: torch.Tensor | None = None
    particle_q: torch.Tensor | None = None
    particle_qd: torch.Tensor | None = None
    moment: torch.Tensor | None = None
    exposed: ExposureMotion | None = None
    last: State | None = None

    @property
    def finite(self) -> torch.Tensor:
        """[B] bool: worlds in which no body diverged."""
        return (self.diverged_step < 0).all(dim=1)

    @property
    def placement(self) -> torch.Tensor:
        """[B, T, rows, columns] placement of all bodies (``joined_placement``); pictures, losses and networks read it."""
        return joined_placement(self.body_q, self.particle_q)

    def arrays(self) -> dict[str, torch.Tensor]:
        """The arrays [B, T, ...] of the motion by name."""
        names = ("body_q", "body_qd", "joint_q", "joint_qd", "particle_q", "particle_qd")
        return {name: array for name in names if (array := getattr(self, name)) is not None}


def instant_placement(states: States | torch.Tensor, purpose: str) -> torch.Tensor:
    """Placement of a motion, or the placement itself, for pictures of single moments.

    Args:
        states: from ``Scene.rollout``, or the placement.
        purpose: the pictures, for the message.

    Raises:
        UserError: the film has an exposure or a line time.
    """
    if isinstance(states, torch.Tensor):
        return states
    if states.exposed is not None:
        raise UserError(f"{purpose} have no motion blur and no rolling shutter: set film.exposure and film.line_time to 0")
    return states.placement


def joined_placement(body_q: torch.Tensor, particle_q: torch.Tensor | None) -> torch.Tensor:
    """Placement of all bodies in one tensor, the input of state heads, losses and renderers.

    Args:
        body_q: [..., N, 7] poses.
        particle_q: [..., P, 3] positions of particles, or None.

    Returns:
        The poses for rigid bodies and links alone, the positions [..., P, 3] for deformable bodies alone; for both [..., N + P,
        7], the poses followed by the positions, each padded with four zeros.
    """
    if particle_q is None:
        return body_q
    if body_q.shape[-2] == 0:
        return particle_q
    return torch.cat([body_q, torch.nn.functional.pad(particle_q, (0, 4))], dim=-2)


def split_placement(placement: torch.Tensor, *, bodies: int, particles: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Poses [..., N, 7] and positions of particles [..., P, 3], None without particles, of ``joined_placement``."""
    if not particles:
        return placement, None
    if not bodies:
        return placement.new_zeros(*placement.shape[:-2], 0, 7), placement
    return placement[..., :bodies, :], placement[..., bodies:, :3]


def placement_shape(*, bodies: int, particles: int) -> tuple[int, int]:
    """Rows and columns of ``joined_placement`` for these numbers of bodies and particles."""
    return (particles, 3) if particles and not bodies else (bodies + particles, 7)


def check_placement(placement: torch.Tensor, *, bodies: int, particles: int) -> torch.Tensor:
    """Check the placement [B, T, rows, columns] of a motion against the numbers of bodies and particles, and return it.

    Raises:
        UserError: it has another shape.
    """
    shape = placement_shape(bodies=bodies, particles=particles)
    if placement.ndim != 4 or tuple(placement.shape[2:]) != shape:
        subject = "poses have" if not particles else "positions have" if not bodies else "poses and positions have"
        raise UserError(
            f"the {subject} shape {tuple(placement.shape)}, and this scene needs [worlds, frames, {shape[0]}, {shape[1]}]"
        )
    return placement
