"""RISP's die on the ground: how stiff is the contact?

A die of 4 cm and 64 g falls tilted from 6 cm, touches down at about 0.1 s and turns. Dimensions, contact law and horizon follow
RISP (ICLR 2022), B.1.2, and the example of its simulator, in SI units: its lambda is log10(stiffness) + 3. With the
tilted start the loss has one minimum in the whole range; over longer films there are many.
"""

import math

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, Param, Scene, Start, Surface
from risp_torch.risp import Domains, RigidPoseHead, RispTask
from risp_torch.scene.rendering_parameters import RenderingParameters, default_psi

# +x, -x, +y, -y, +z, -z: six colours that also differ in grey values.
SIX_COLORS = [(0.85, 0.1, 0.1), (0.1, 0.55, 0.75), (0.95, 0.75, 0.1), (0.15, 0.6, 0.2), (0.9, 0.9, 0.85), (0.45, 0.15, 0.6)]

TILT = 0.3  # rad, about (1, 0.7, 0.2)


def make_scene(stiffness: float = 1e3, size: int = 128) -> Scene:
    """The die.

    Args:
        stiffness: contact stiffness ke of the ground [N/m].
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=5e-3, frames=40, substeps=25, gamma=2e-3, name="cube")
    scene.add_ground(
        contact=Contact(
            stiffness=Param(stiffness, low=10**2.5, high=10**3.5, scale="log10"),
            damping=0.03,
            friction_stiffness=1.0,
            friction=0.2,
        ),
        color=(0.35, 0.33, 0.3),
    )
    axis = [1.0, 0.7, 0.2]
    norm = math.sqrt(sum(a * a for a in axis))
    tilt = [math.sin(TILT / 2) * a / norm for a in axis] + [math.cos(TILT / 2)]
    scene.add_rigid(
        "die",
        shape=Box(0.04, 0.04, 0.04),
        density=1000.0,
        start=Start(position=(0.0, 0.0, 0.06), orientation=tilt, velocity=(0.3, 0.0, 0.1), angular_velocity=(5.0, 0.0, 0.0)),
        surface=Surface(face_colors=SIX_COLORS),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.22, -0.26, 0.16), target=(0.022, 0.004, 0.038), vertical_fov=19.0, width=size, height=size, near=0.1, far=1.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


def make_task(scene: Scene) -> RispTask:
    """RISP reads the die's pose, in the range of all its motions, for all lights, tints and grounds."""
    head = RigidPoseHead(
        "die", low=(-0.02, -0.03, 0.015), high=(0.065, 0.03, 0.07), yaw=(-0.6, 0.6), pitch=(-0.6, 0.9), roll=(-0.5, 1.1)
    )
    default_distributions = default_psi(scene).distributions
    # The ground fills the picture: the background is not visible.
    distributions = {name: distribution for name, distribution in default_distributions.items() if name != "background.color"}
    psi = RenderingParameters(scene, distributions)
    return RispTask(head, Domains.default(scene, psi), gamma=20.0)
