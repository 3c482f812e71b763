"""The hand moves a free cube: how heavy is the cube, how stiff is the finger that pushes it?

The thumb swings towards the fingers and pushes a cube that lies on the ground before it; the other fingers move freely.
The boxes of links and cube are in compliant contact, as with the ground.
"""

from risp_torch import Box, Contact, Param, Scene, Start, Surface

from .hand import add_camera_and_lights, add_hand

SIDE = 0.04  # m, of the cube
COLORS = [(0.9, 0.9, 0.85), (0.85, 0.3, 0.2), (0.2, 0.5, 0.8), (0.9, 0.7, 0.1), (0.3, 0.7, 0.3), (0.5, 0.3, 0.7)]
FRAMES, FRAME_DT = 40, 0.02


def make_scene(mass: float = 0.1, stiffness: float = 1.0, size: int = 128) -> Scene:
    """The hand and the cube.

    Args:
        mass: of the cube [kg].
        stiffness: of the joints of every finger [N m/rad], from 0 to 1.5.
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=FRAME_DT, frames=FRAMES, substeps=40, gamma=2e-3, name="hand_cube")
    scene.add_ground(
        contact=Contact(stiffness=400.0, damping=0.3, friction_stiffness=2.0, friction=0.4), height=-0.5 * SIDE - 0.001
    )
    add_hand(scene, stiffness, gain=0.5, collision=("thumb2",))
    scene.add_rigid(
        "cube",
        shape=Box(SIDE, SIDE, SIDE),
        mass=Param(mass, low=0.03, high=0.3, scale="log10"),
        start=Start(position=(0.006, -0.115, 0.0)),
        collision=True,
        surface=Surface(face_colors=COLORS),
    )
    add_camera_and_lights(scene, size)
    return scene
