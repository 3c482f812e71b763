"""A body of unknown shape in flight: its scene, and its film as a torch function of vertices and mass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from risp_torch import AmbientLight, Camera, DirectionalLight, Mesh, Param, Scene, Start, Surface
from risp_torch.scene.bridge import bridge_dtype, render
from studies.gradsim.shape.solids import solid_of, sphere

FRAMES = 30
CAMERAS = ("front", "left", "right", "above", "behind")  # the last two are never used by a fit
UNSEEN = ("above", "behind")
RADIUS = 1.0  # m, of the template
BALL = 4 / 3 * np.pi * RADIUS**3  # m3, its volume
DENSITY = (2.0, 12.0)  # kg/m3, between which bodies are drawn
MASSES = np.geomspace(DENSITY[0] * BALL / 10, DENSITY[1] * BALL * 4, 40)  # kg, that a search tries first
_EYES = {
    "front": (0.0, -10.0, 1.5), "left": (-9.0, -5.0, 2.0), "right": (9.0, -5.0, 0.5), "above": (1.0, -4.0, 9.0),
    "behind": (2.0, 10.0, -1.0),
}  # fmt: skip


def flight_scene(vertices: np.ndarray, faces: np.ndarray, *, mass: float, size: int, frames: int = FRAMES) -> Scene:
    """A body that is thrown up, spins, and is pushed by a known impulse; nothing touches it.

    Args:
        vertices: [V, 3] m, with the centre of mass anywhere: the scene moves it to the body's origin.
        faces: [F, 3].
        mass: kg.
        size: side of the pictures [pixels].
        frames: frame intervals of 1/30 s.
    """
    scene = Scene(frame_dt=1 / 30, frames=frames, substeps=8, sigma=1e-4 * (128 / size) ** 2, gamma=2e-3, name="flight")
    shape = Mesh(vertices=vertices, faces=faces)
    solid = shape.solid()
    scene.add_rigid(
        "body", shape=shape, mass=Param(mass, low=MASSES[0] / 10, high=10 * MASSES[-1], scale="log10"),
        inertia_per_mass=solid.inertia_per_density / solid.volume,
        start=Start(position=(-0.5, 0.0, -0.4), velocity=(0.0, 0.0, 4.9), angular_velocity=(2.0, 3.0, 3.0)),
        surface=Surface(color=(0.75, 0.45, 0.3), smooth=True),
    )  # fmt: skip
    impulse = np.array([1.2, 0.3, 0.4]) * np.mean(DENSITY) * BALL
    scene.add_force("push", body="body", impulse=tuple(impulse.tolist()), point=(0.1, -0.2, 0.25), start=0.1, duration=0.1)
    for name in CAMERAS:
        scene.add_camera(
            Camera.look_at(
                eye=_EYES[name], target=(0.0, 0.0, 0.5), vertical_fov=27.0, width=size, height=size, near=4.0, far=20.0, name=name
            )
        )
    scene.add_light(DirectionalLight(direction=(-0.5, 0.7, -0.8), intensity=0.7))
    scene.add_light(DirectionalLight(direction=(0.8, -0.5, 0.4), intensity=0.3, name="fill"))
    scene.add_light(AmbientLight(intensity=0.15))
    scene.set_background((0.05, 0.08, 0.12))
    return scene


class Flight:
    """The film of a flight as a function of vertices and mass.

    Mass is a number of its own (the density is not known), inertia follows from mass and vertices, and the centre of mass of the
    vertices is where the motion's is. Start and push are known.
    """

    def __init__(self, *, divisions: int, size: int, frames: int = FRAMES) -> None:
        """Make the template.

        Args:
            divisions: of the template's icosahedron (``sphere``).
            size: side of the pictures [pixels].
            frames: frame intervals.
        """
        points, faces = sphere(divisions)
        self.template = torch.as_tensor(RADIUS * points, dtype=bridge_dtype())
        self.faces = torch.as_tensor(faces)
        self.scene = flight_scene(RADIUS * points, faces, mass=float(np.sqrt(MASSES[0] * MASSES[-1])), size=size, frames=frames)

    def poses(self, vertices: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
        """[1, frames + 1, 1, 7] m, poses of the centre of mass; differentiable.

        Args:
            vertices: [V, 3] m.
            mass: [] kg.
        """
        inertia = solid_of(vertices, self.faces).inertia
        return self.scene.rollout({"body.mass": mass[None], "body.inertia_per_mass": inertia[None]}, worlds=1).body_q

    def film(
        self, vertices: torch.Tensor, poses: torch.Tensor, *, frames: Sequence[int], cameras: Sequence[str]
    ) -> torch.Tensor:
        """[C, n, H, W, 3] linear pictures; differentiable in vertices and poses.

        Args:
            vertices: [V, 3] m.
            poses: from ``poses``.
            frames: n frame numbers.
            cameras: C names.
        """
        rest = vertices - solid_of(vertices, self.faces).centre
        view, values = self.scene.view, self.scene.table.values(None, worlds=1)
        chosen = poses[:, list(frames)]
        films = []
        for camera in cameras:
            inputs = replace(view.render_inputs(values, chosen, camera=camera), vertices_rest=rest)
            films.append(render(inputs, view.raster_settings(camera=camera))[..., :3])
        return torch.stack(films)
