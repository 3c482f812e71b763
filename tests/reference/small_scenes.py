"""A film of a block that drops onto the ground: the smallest scene that shows everything.

The camera is low, so that block, ground and background are all in the picture; the block touches the ground within the first
frames, slides and turns. The file is a scene file too: the command line is tested with a copy of it.
"""

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, Mesh, Param, Scene, Start, Surface

COLORS = [(0.85, 0.1, 0.1), (0.1, 0.55, 0.75), (0.95, 0.75, 0.1), (0.15, 0.6, 0.2), (0.9, 0.9, 0.85), (0.45, 0.15, 0.6)]


def make_scene(
    stiffness: float = 400.0,
    density: float = 800.0,
    friction: float = 0.3,
    height: float = 0.025,
    size: int = 16,
    frames: int = 4,
    mesh: str | None = None,
    scale: float = 1.0,
) -> Scene:
    """A block above the ground.

    Args:
        stiffness: ke of the ground [N/m].
        density: kg/m3.
        friction: mu of the ground.
        height: of the block's centre at the start [m]; above 0.1 it does not come down within the default film.
        size: of the square picture [pixels].
        frames: frame intervals of 5 ms.
        mesh: path of a mesh file in place of the block.
        scale: metres per unit of that file.
    """
    scene = Scene(frame_dt=5e-3, frames=frames, substeps=10, sigma=1e-3, gamma=2e-3, name="small")
    scene.add_ground(
        contact=Contact(
            stiffness=Param(stiffness, low=40.0, high=4000.0, scale="log10"),
            damping=0.1,
            friction_stiffness=0.5,
            friction=Param(friction, low=0.03, high=3.0, scale="log10"),
        ),
        color=(0.35, 0.33, 0.3),
    )
    scene.add_rigid(
        "block",
        shape=Box(0.05, 0.04, 0.03) if mesh is None else Mesh(mesh, scale=scale),
        density=Param(density, low=80.0, high=8000.0, scale="log10"),
        start=Start(
            position=(0.0, 0.0, height),
            orientation=(0.1, 0.15, 0.05, 1.0),
            velocity=Param((0.5, 0.1, -0.8), low=-2.0, high=2.0),
            angular_velocity=(3.0, -2.0, 1.0),
        ),
        surface=Surface(face_colors=COLORS) if mesh is None else Surface(color=COLORS[0]),
    )
    scene.add_force("push", body="block", impulse=(0.003, 0.004, 0.002), point=(0.01, -0.008, 0.012), start=0.0, duration=0.005)
    scene.add_camera(
        Camera.look_at(
            eye=(0.08, -0.25, 0.07), target=(0.0, 0.0, 0.03), vertical_fov=30.0, width=size, height=size, near=0.05, far=1.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene
