"""RISP's hand: how stiff are the joints of its five fingers?

A palm that is fixed in the world, and thirteen revolute joints: two of the thumb, three of each of three fingers, two of the
little finger (dimensions of the hand in RISP's simulator, without its abduction joints). All joints of a finger share
one stiffness and one command, a sine pulse with one amplitude and delay per finger; no other forces act on the hand (RISP,
ICLR 2022, B.1.3). The drives' inertia outweighs that of the fingers, and the springs of the limits keep every joint within an
eighth of a turn.
"""

import math
from collections.abc import Collection

from risp_torch import AmbientLight, Box, Camera, DirectionalLight, Fixed, LinkFrame, Param, Revolute, Scene, SinePulse, Surface
from risp_torch.risp import Domains, JointAngleHead, PhotorealDomain, RispTask
from risp_torch.scene.rendering_parameters import Factor, RenderingParameters, default_psi

FRAMES, FRAME_DT = 80, 0.02
LIMIT_ONSET = math.pi / 4 - 0.04  # rad, angle at which the limit springs engage, which keep a joint within pi / 4
# m: y of the first joint of a finger, and the lengths of its phalanges along x
FINGERS = {
    "index": (-0.04425, (0.044, 0.044, 0.0534)), "middle": (-0.01475, (0.044, 0.044, 0.0534)),
    "ring": (0.01475, (0.044, 0.044, 0.0534)), "little": (0.04425, (0.044, 0.0534)),
}  # fmt: skip
KNUCKLE = 0.0668  # m, x of the first joints
FINGER_NAMES = ("thumb", *FINGERS)
PULSES = {"thumb": (0.8, 6.0), "index": (0.85, 0.0), "middle": (0.9, 10.0), "ring": (0.7, 20.0), "little": (0.85, 30.0)}
COLORS = {
    "thumb": (0.85, 0.2, 0.15), "index": (0.95, 0.65, 0.1), "middle": (0.2, 0.6, 0.25), "ring": (0.15, 0.4, 0.85),
    "little": (0.55, 0.2, 0.65),
}  # fmt: skip


def make_scene(stiffness: float = 1.0, size: int = 128, frames: int = FRAMES) -> Scene:
    """The hand.

    Args:
        stiffness: of the joints of every finger [N m/rad], from 0 to 1.5.
        size: of the square picture [pixels].
        frames: frame intervals of 0.02 s.
    """
    scene = Scene(frame_dt=FRAME_DT, frames=frames, substeps=20, gravity=(0.0, 0.0, 0.0), gamma=2e-3, name="hand")
    add_hand(scene, stiffness)
    add_camera_and_lights(scene, size)
    return scene


def add_hand(scene: Scene, stiffness: float, *, gain: float = 0.35, collision: Collection[str] = ()) -> None:
    """The links and motors of the hand.

    Args:
        scene: to which they are added.
        stiffness: of the joints of every finger [N m/rad].
        gain: torque of a command of 1 [N m]. With the default no joint reaches its limits, whatever its stiffness, which
            is not identifiable at a limit.
        collision: names of the links that collide with other bodies.
    """
    for finger in FINGER_NAMES:
        scene.add_number(f"{finger}.stiffness", Param(stiffness, low=0.0, high=1.5), unit="N m/rad")
    palm_surface = Surface(color=(0.75, 0.72, 0.68))
    scene.add_link("palm", joint=Fixed(), shape=Box(0.106, 0.126, 0.026), density=1000.0, surface=palm_surface)
    for finger, (knuckle_y, lengths) in FINGERS.items():
        parent, joint_position = "palm", (KNUCKLE, knuckle_y, 0.0)
        for k, length in enumerate(lengths, 1):
            shape = Box(length - 0.002, 0.024, 0.02)
            _add_phalanx(scene, finger, k, parent, (0.0, 1.0, 0.0), joint_position, shape, (0.5 * length, 0.0, 0.0), collision)
            parent, joint_position = f"{finger}{k}", (length, 0.0, 0.0)
    lower_thumb, upper_thumb = Box(0.024, 0.018, 0.02), Box(0.024, 0.0514, 0.02)
    _add_phalanx(scene, "thumb", 1, "palm", (0.0, 0.0, 1.0), (-0.033, -0.0569, 0.0), lower_thumb, (0.0, -0.01, 0.0), collision)
    _add_phalanx(scene, "thumb", 2, "thumb1", (1.0, 0.0, 0.0), (0.0, -0.02, 0.0), upper_thumb, (0.0, -0.0267, 0.0), collision)
    for finger in FINGER_NAMES:
        amplitude, delay = PULSES[finger]
        scene.add_motors(
            f"{finger}.motor",
            joints=[body.name for body in scene.bodies if body.name.rstrip("123") == finger],
            actions=SinePulse(
                amplitude=Param(amplitude, low=0.0, high=1.0, frozen=True), delay=Param(delay, low=0.0, high=40.0, frozen=True)
            ),
            gain=gain,
            limit=gain,
            shared=True,
        )


def add_camera_and_lights(scene: Scene, size: int) -> None:
    """Camera, lights and background, with square pictures of ``size`` pixels."""
    # Seen from beyond the fingertips no finger occludes another, and every joint is observable (the error bars are a third of
    # those of a camera beside the hand).
    scene.add_camera(
        Camera.look_at(
            eye=(0.55, -0.12, 0.18), target=(0.09, -0.034, -0.008), vertical_fov=28.0, width=size, height=size, near=0.1, far=1.2
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.5, 0.3, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.6, 0.62, 0.65))


def make_task(scene: Scene) -> RispTask:
    """RISP reads the thirteen angles, for all lights, backgrounds and brightnesses of the links; hues distinguish the fingers."""
    joints = tuple(body.name for body in scene.bodies if body.name != "palm")
    head = JointAngleHead(joints, low=-math.pi / 6, high=math.pi / 6)
    distributions = {
        name: Factor(0.35, 1.05, tied=True) if name.endswith(".color") and name != "background.color" else distribution
        for name, distribution in default_psi(scene).distributions.items()
    }
    psi = RenderingParameters(scene, distributions)
    return RispTask(head, Domains.default(scene, psi, target=PhotorealDomain()), gamma=100.0)


def _add_phalanx(
    scene: Scene, finger: str, number: int, parent: str, axis: tuple[float, float, float],
    joint_position: tuple[float, float, float], shape: Box, center: tuple[float, float, float], collision: Collection[str],
) -> None:  # fmt: skip
    joint = Revolute(
        axis=axis, stiffness=f"{finger}.stiffness", damping=0.1, armature=0.01, limit_low=-LIMIT_ONSET, limit_high=LIMIT_ONSET,
        limit_stiffness=500.0,
    )  # fmt: skip
    scene.add_link(
        f"{finger}{number}", frame=LinkFrame(parent=parent, position=joint_position, center=center), joint=joint, shape=shape,
        density=1000.0, collision=f"{finger}{number}" in collision, surface=Surface(color=COLORS[finger]),
    )  # fmt: skip
