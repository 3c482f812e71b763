"""A soft walker that walks to the position in a picture.

A flat body of 104 triangles with two legs stands on the ground. A network controls it: four sine waves, a linear layer and
tanh determine for every frame the area change of each triangle, at most a fifth (after gradSim, ICLR 2021, section
4.2 and appendix E). The goal is a picture of the walker half its length farther.
"""

import numpy as np

from risp_torch import Actuation, AmbientLight, Camera, Contact, DirectionalLight, Elastic, PictureStyle, Scene, Start, Surface
from risp_torch.control import ControlTask, Goal, SinePolicy, control_times
from ti_sim.meshes import SheetMesh, sheet_grid

SIZE = (2.0, 1.8)  # m, length and height
CELLS = (8, 9)
LEG_CELLS = 5  # cells of a leg, from the ground up
UPRIGHT = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # the mesh's y axis points up
CORAL, CREAM, NAVY = (0.8, 0.22, 0.14), (0.95, 0.75, 0.5), (0.12, 0.16, 0.3)


def make_scene(frames: int = 300, controls: int = 1, size: int = 128) -> Scene:
    """The walker.

    Args:
        frames: frame intervals of 1/60 s.
        controls: rows of actuation in a frame, a divisor of 32.
        size: of the square picture [pixels].
    """
    scene = Scene(
        frame_dt=1 / 60, frames=frames, substeps=32, controls=controls, gamma=1e-2, style=PictureStyle(two_sided=True),
        name="walker",
    )  # fmt: skip
    scene.add_ground(
        contact=Contact(stiffness=1e4, damping=1e3, friction_stiffness=1e3, friction=0.5),
        color=(0.42, 0.46, 0.38), pattern="checker", second_color=(0.34, 0.38, 0.31), cell=0.5,
    )  # fmt: skip
    mesh = walker_mesh()
    scene.add_flat_body(
        "walker",
        mesh=mesh,
        material=Elastic(mu=1e4, lam=1e4, convention="energy", damping=100.0),
        mass=1.0,
        start=Start(position=(0.0, 0.0, SIZE[1] / 2), orientation=UPRIGHT),
        actuation=Actuation(values=np.zeros((frames * controls, len(mesh.triangles)))),
        surface=Surface(face_colors=_colors(mesh)),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.5, -6.0, 3.2), target=(0.5, 0.0, 0.8), vertical_fov=40.0, width=size, height=size, near=2.0, far=30.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.3, 1.0, -0.6), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.65, 0.74, 0.8))
    return scene


def make_control(scene: Scene) -> ControlTask:
    """Four sine waves drive the triangles; the goal is the same walker half its length farther along x."""
    triangles = len(scene.deformables[0].elements.indices)
    return ControlTask(
        controlled_parameter="walker.actuation",
        policy=lambda scene, seed: SinePolicy(
            triangles, signals=4, frequency=20.0, limit=0.2, times=control_times(scene), seed=seed
        ),
        goal=lambda scene, number: Goal(
            (scene.start_poses(scene.table.values()).cpu().numpy() + np.array((SIZE[0] / 2, 0.0, 0.0))),
            "half a length farther",
        ),
        size=SIZE[0],
        measure="along",
        direction=(1.0, 0.0, 0.0),
        blur=(4.0, 16.0),
        penalty=0.1,
        learning_rate={"image": 0.03, "state": 0.03},
        iterations=20,
        checkpoint=1,
    )


def walker_mesh() -> SheetMesh:
    """A body of 8 x 4 cells on two legs of 2 x 5, two triangles a cell, in the plane z = 0, y upwards."""
    grid = sheet_grid(SIZE, CELLS)
    column, row = _cells(grid)
    body_triangles = grid.triangles[(row >= LEG_CELLS) | np.isin(column, (0, 1, 6, 7))]
    used, triangles = np.unique(body_triangles, return_inverse=True)
    return SheetMesh(grid.vertices[used], triangles.reshape(-1, 3), name="walker")


def _cells(mesh: SheetMesh) -> np.ndarray:
    """Columns and rows [2, T] of the cells in which the triangles lie."""
    centres = mesh.vertices[mesh.triangles].mean(axis=1)[:, :2]
    return np.floor((centres / SIZE + 0.5) * CELLS).astype(int).T


def _colors(mesh: SheetMesh) -> np.ndarray:
    """Linear rgb [T, 3]: a checked body, dark feet."""
    column, row = _cells(mesh)
    body = np.where(((row + column) % 2)[:, None] > 0, CORAL, CREAM)
    return np.where((row == 0)[:, None], NAVY, body)
