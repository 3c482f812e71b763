"""RISP's quadrotor in free flight: how heavy is it?

Three kilograms between four rotors at the ends of two crossed arms (X layout, 0.25 m long). Its nose points along +x of the
body and its rotors along +z; the box below them is placed so that the centre of mass is at the origin. The actions are known:
thrusts for a smooth manoeuvre of three kilograms, which pitches and rolls the quadrotor back and forth while it yaws. Another
mass from [2.8, 3.2) kg, the range of RISP (ICLR 2022), B.1.1, rises or sinks by up to 0.35 m within the second of the film, in
view and within the ranges that the state head reads.
"""

import math

import numpy as np

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    Cone,
    Cylinder,
    DirectionalLight,
    Mesh,
    Param,
    Scene,
    SolverOptions,
    Start,
    Surface,
)
from risp_torch.risp import Domains, RigidPoseHead, RispTask
from risp_torch.scene.rendering_parameters import default_psi
from ti_sim import mass_properties

FRAMES, FRAME_DT = 40, 0.025  # one second
ARM = 0.25 / math.sqrt(2.0)  # m along x and y
# front left, rear left, rear right, front right
ROTORS = np.array([(ARM, ARM, 0.03), (-ARM, ARM, 0.03), (-ARM, -ARM, 0.03), (ARM, -ARM, 0.03)])
YAW_SIGNS = np.array([1.0, -1.0, 1.0, -1.0])  # sign of the reaction torque on the body
NOMINAL_MASS = 3.0  # kg, mass for which the known actions are computed
GRAVITY = 9.81  # m/s2
HOVER_THRUST, THRUST_MARGIN = (
    NOMINAL_MASS * GRAVITY / len(ROTORS),
    15.0,
)  # N of each rotor: hover thrust of the nominal mass, and half range of actions
INERTIA_PER_MASS = np.diag([0.010, 0.010, 0.018])  # m2

WHITE, BLACK, RED, BLUE, ORANGE = (0.8, 0.8, 0.78), (0.12, 0.12, 0.13), (0.85, 0.12, 0.08), (0.12, 0.3, 0.75), (0.9, 0.55, 0.1)


def make_scene(mass: float = 3.0, size: int = 128, frames: int = FRAMES) -> Scene:
    """The quadrotor.

    Args:
        mass: of the quadrotor [kg], from 2.6 to 3.4: a margin around [2.8, 3.2), the range of starts.
        size: of the square picture [pixels].
        frames: frame intervals of 0.025 s, over which the manoeuvre continues.
    """
    scene = Scene(frame_dt=FRAME_DT, frames=frames, substeps=5, solver=SolverOptions(max_distance=1000.0), name="quadrotor")
    shape, colors = airframe()
    scene.add_rigid(
        "quadrotor",
        shape=shape,
        mass=Param(mass, low=2.6, high=3.4),
        inertia_per_mass=INERTIA_PER_MASS,
        start=Start(position=(-0.1, 0.15, 0.0)),
        linear_drag=0.1,
        angular_drag=0.01,
        surface=Surface(face_colors=colors),
    )
    scene.add_rotors(
        "rotors",
        body="quadrotor",
        positions=ROTORS,
        yaw_reaction=0.02 * YAW_SIGNS,
        limit=500.0,
        actions=Param(
            manoeuvre(NOMINAL_MASS, frames), low=HOVER_THRUST - THRUST_MARGIN, high=HOVER_THRUST + THRUST_MARGIN, frozen=True
        ),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.0, -3.2, 1.16), target=(0.0, 0.0, 0.0), vertical_fov=26.0, width=size, height=size, near=1.0, far=7.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.5, 0.5, 0.5))
    return scene


def make_task(scene: Scene) -> RispTask:
    """RISP reads the quadrotor's pose, in the range of its flights, for all lights, tints and backgrounds."""
    head = RigidPoseHead(
        "quadrotor", low=(-0.3, -0.3, -0.42), high=(0.3, 0.3, 0.42), yaw=(-math.pi / 2, math.pi / 2), pitch=(-0.5, 0.5),
        roll=(-0.5, 0.5),
    )  # fmt: skip
    return RispTask(head, Domains.default(scene, default_psi(scene)), gamma=1.0)


def manoeuvre(mass: float, frames: int = FRAMES) -> np.ndarray:
    """Thrusts [frames, rotors] in N of the open-loop manoeuvre of ``mass`` [kg].

    Roll, pitch and yaw accelerate as cosines and sines of one, two and one turns in the second: the quadrotor tilts by about
    ``2 acceleration / (2 pi turns)^2`` and returns, and keeps the rotation about z.
    """
    time = FRAME_DT * (np.arange(frames) + 0.5)  # s, the middle of each frame interval
    phase = 2.0 * math.pi * time / (FRAMES * FRAME_DT)
    # rad/s2 about x, y and z
    acceleration = np.stack([3.0 * np.cos(phase), 8.0 * np.cos(2.0 * phase), 6.0 * np.sin(phase)], axis=1)
    torque = mass * acceleration @ INERTIA_PER_MASS
    # Each rotor's torque per newton about x, y and z; the three are perpendicular.
    torque_per_newton = np.stack([ROTORS[:, 1], -ROTORS[:, 0], 0.02 * YAW_SIGNS])
    return mass * GRAVITY / len(ROTORS) + torque @ (torque_per_newton / (torque_per_newton**2).sum(axis=1, keepdims=True))


def airframe() -> tuple[Mesh, np.ndarray]:
    """The quadrotor's mesh, with the centre of mass at the origin, and one colour for each face [F, 3]."""
    arm, rotor = Box(0.5, 0.035, 0.025).surface(), Cylinder(radius=0.12, height=0.012, sections=10).surface()
    parts = [(rotate_about_z(arm.vertices, angle), arm.faces, BLACK) for angle in (math.pi / 4, -math.pi / 4)]
    parts += [
        (rotor.vertices + rotor_position, rotor.faces, ORANGE if rotor_position[0] > 0 else BLUE) for rotor_position in ROTORS
    ]
    nose = Cone(radius=0.08, height=0.26, sections=8).surface()
    x_from_z = np.array([(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0)])  # maps z to x
    parts.append((nose.vertices @ x_from_z.T + (0.1, 0.0, 0.0), nose.faces, RED))
    box, other_parts = Box(0.2, 0.2, 0.08), mass_properties(merge_meshes(parts))
    box_offset = -other_parts.volume / mass_properties(box).volume * other_parts.centre_of_mass
    parts.append((box.surface().vertices + box_offset, box.surface().faces, WHITE))
    return merge_meshes(parts), np.concatenate([np.tile(color, (len(faces), 1)) for _, faces, color in parts])


def merge_meshes(parts: list[tuple[np.ndarray, np.ndarray, tuple[float, float, float]]]) -> Mesh:
    """Closed parts (vertices [V, 3] in m, faces [F, 3], colour) as one mesh."""
    first_vertices = np.cumsum([0, *(len(vertices) for vertices, _, _ in parts)])
    faces = [faces + first_vertex for (_, faces, _), first_vertex in zip(parts, first_vertices, strict=False)]
    return Mesh(vertices=np.concatenate([vertices for vertices, _, _ in parts]), faces=np.concatenate(faces))


def rotate_about_z(vertices: np.ndarray, angle: float) -> np.ndarray:
    """Vertices [V, 3] turned about z by an angle [rad]."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return vertices @ np.array([(cosine, sine, 0.0), (-sine, cosine, 0.0), (0.0, 0.0, 1.0)])
