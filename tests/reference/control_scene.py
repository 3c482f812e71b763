"""A sheet that a policy swells and shrinks on the ground, with a push over time: the smallest scene to control.

The file is a scene file too: the command line is tested with a copy of it.
"""

import numpy as np

from risp_torch import (
    Actuation,
    AmbientLight,
    Camera,
    Contact,
    DirectionalLight,
    Elastic,
    PictureStyle,
    Scene,
    SolverOptions,
    Start,
    Surface,
)
from risp_torch.control import ControlTask, Feedback, Goal, SinePolicy, control_times
from ti_sim.meshes import sheet_grid

SIZE = (0.2, 0.1)  # m
UPRIGHT = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))


def make_scene(frames: int = 4, substeps: int = 8, controls: int = 2, size: int = 16) -> Scene:
    """The sheet, upright on the ground."""
    scene = Scene(
        frame_dt=0.02, frames=frames, substeps=substeps, controls=controls, solver=SolverOptions(plan="world"), sigma=2e-3,
        gamma=1e-2, style=PictureStyle(two_sided=True), name="small_control",
    )  # fmt: skip
    scene.add_ground(contact=Contact(stiffness=20.0, damping=0.1, friction_stiffness=0.5, friction=0.5))
    mesh = sheet_grid(SIZE, (2, 1))
    scene.add_flat_body(
        "sheet",
        mesh=mesh,
        material=Elastic(mu=200.0, lam=200.0, convention="energy", damping=0.5),
        mass=0.05,
        start=Start(position=(0.0, 0.0, 0.07), orientation=UPRIGHT),
        actuation=Actuation(values=np.zeros((frames * controls, len(mesh.triangles)))),
        surface=Surface(face_colors=[(0.8, 0.2, 0.1), (0.2, 0.3, 0.8), (0.2, 0.3, 0.8), (0.8, 0.2, 0.1)]),
    )
    scene.add_load(
        "push", body="sheet", where=lambda x: x[:, 0] < 0, force=0.5 * np.cos(np.arange(frames)), direction=(1.0, 0.0, 0.0)
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.0, -0.6, 0.1), target=(0.0, 0.0, 0.06), vertical_fov=30.0, width=size, height=size, near=0.1, far=3.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.3, 1.0, -0.6), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.6, 0.7, 0.8))
    return scene


def make_control(scene: Scene) -> ControlTask:
    """Goal ``number`` is the sheet at rest, 1 cm farther for each."""
    triangles = len(scene.deformables[0].elements.indices)
    return ControlTask(
        controlled_parameter="sheet.actuation",
        policy=lambda scene, seed: SinePolicy(
            triangles, signals=3, frequency=30.0, limit=0.3, times=control_times(scene), seed=seed
        ),
        goal=lambda scene, number: Goal(
            scene.deformables[0].rest[None] + (0.01 * (number + 1), 0.0, 0.06), f"{number + 1} cm farther"
        ),
        size=SIZE[0],
        measure="vertices",
        objectives=("image", "state", "random"),
        blur=(0.0, 2.0),
        penalty=1e-4,
        learning_rate={"image": 0.1, "state": 0.1},
        iterations=3,
        checkpoint=5,
        feedback=Feedback(limit=0.3, hidden=(4,), particles=(0, 3)),
    )
