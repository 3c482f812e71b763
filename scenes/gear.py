"""A soft gear that rolls to the position in a picture.

A gear wheel of 1,120 tetrahedra rolls onto the ground at 2 m/s. A network controls it: eight sine waves, a linear layer and
tanh determine for every frame the volume change of each tetrahedron, which shifts the wheel's centre of mass and pushes it off
the ground (after gradSim, ICLR 2021, section 4.2 and appendix E). The actuation is symmetric, so that the wheel rolls straight:
a drift towards the camera is hardly observable in a picture. The goal is a picture of the gear at rest somewhere ahead.
"""

import numpy as np

from risp_torch import Actuation, AmbientLight, Camera, Contact, DirectionalLight, Elastic, Scene, Start, Surface
from risp_torch.control import ControlTask, Goal, SinePolicy, control_times
from ti_sim.meshes import SolidMesh, gear_tets

RADII = (0.7, 1.5, 1.84)  # m, of the hole, of the roots and of the tips of the teeth
WIDTH = 1.3  # m
TEETH = 16
CELLS = (2, 3, 1, 2)  # circumferential per tooth, radial in the rim, radial in the teeth, axial
START_POSITION = (-4.0, 0.0, 2.0)  # m
SPEED = 2.0  # m/s, rolling
AXIS_HEIGHT = 1.72  # m, of the axis when the gear stands on the ground
BLUR = (4.0, 16.0)  # pixels: the first is insensitive to the angle of the spokes, the second has a gradient for disjoint gears
UPRIGHT = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # the wheel's axis is along y
STEEL, BRASS, DARK_STEEL = (0.1, 0.22, 0.42), (0.85, 0.5, 0.08), (0.02, 0.05, 0.12)


def make_scene(density: float = 3.0, frames: int = 180, controls: int = 1, size: int = 128) -> Scene:
    """The gear.

    Args:
        density: kg/m3.
        frames: frame intervals of 1/60 s.
        controls: rows of actuation in a frame, a divisor of 32.
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=1 / 60, frames=frames, substeps=32, controls=controls, gamma=1e-2, name="gear")
    scene.add_ground(
        contact=Contact(stiffness=1e4, damping=10.0, friction_stiffness=12.0, friction=0.5),
        color=(0.42, 0.44, 0.4), pattern="checker", second_color=(0.34, 0.36, 0.33), cell=1.0,
    )  # fmt: skip
    mesh = gear_tets(RADII, WIDTH, teeth=TEETH, cells=CELLS)
    pairs = mirror_pairs(mesh)
    scene.add_solid(
        "gear",
        mesh=mesh,
        material=Elastic(mu=2.5e3, lam=2.5e3, convention="energy", damping=4.0),
        density=density,
        start=Start(
            position=START_POSITION,
            orientation=UPRIGHT,
            velocity=(SPEED, 0.0, 0.0),
            angular_velocity=(0.0, SPEED / RADII[2], 0.0),
        ),
        actuation=Actuation(values=np.zeros((frames * controls, pairs.max() + 1)), groups=pairs),
        surface=Surface(face_colors=_colors(mesh)),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.3, -11.3, 7.2), target=(0.3, 0.0, 0.7), vertical_fov=58.0, width=size, height=size, near=3.0, far=40.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.8, -0.8), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.62, 0.7, 0.8))
    return scene


def make_control(scene: Scene) -> ControlTask:
    """Eight sine waves drive the pairs of tetrahedra; the goals are positions where a coasting wheel does not stop."""
    outputs = np.shape(scene.table["gear.actuation"].value)[1]
    return ControlTask(
        controlled_parameter="gear.actuation",
        policy=lambda scene, seed: SinePolicy(
            outputs, signals=8, frequency=2.5, limit=0.3, times=control_times(scene), seed=seed
        ),
        goal=goal,
        size=2 * RADII[2],
        measure="center",
        blur=BLUR,
        learning_rate={"image": 0.06, "state": 0.1},
        iterations=25,
        checkpoint=1,
    )


def goal(scene: Scene, number: int) -> Goal:
    """The gear standing upright between 0 and 5 m."""
    x = float(np.random.default_rng(number).uniform(0.0, 5.0))
    placement = scene.deformables[0].rest + (x, 0.0, AXIS_HEIGHT)
    return Goal(placement[None], f"the gear at rest at x = {x:.2f} m")


def mirror_pairs(mesh: SolidMesh) -> np.ndarray:
    """[E] index of the pair of each tetrahedron and its mirror image on the wheel's other side."""
    centres = mesh.vertices[mesh.indices].mean(axis=1)
    centres[:, 2] = np.abs(centres[:, 2])
    return np.unique(np.round(centres, 6), axis=0, return_inverse=True)[1].reshape(-1)


def _colors(mesh: SolidMesh) -> np.ndarray:
    """Linear rgb [F, 3]: teeth of brass, and a rim with dark spokes, which make its rotation visible."""
    x, y, _ = np.moveaxis(mesh.vertices[mesh.faces].mean(axis=1), -1, 0)
    is_spoke = np.floor((np.arctan2(y, x) / (2 * np.pi) + 0.25 / TEETH) * TEETH).astype(int) % 2 == 0
    rim = np.where(is_spoke[:, None], STEEL, DARK_STEEL)
    return np.where((np.hypot(x, y) > 0.99 * RADII[1])[:, None], BRASS, rim)
