"""A small scene for solved looks: a coloured box that flies and turns through 12 pixels' pictures, before a gradient."""

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, Scene, Start, Surface


def flying_box(*, ground=None, **options):
    """The scene, with other options of ``Scene`` where given, and over a ground at a height [m] that the box does not touch."""
    scene = Scene(**({"frame_dt": 0.02, "frames": 5, "substeps": 4, "sigma": 2e-3, "gamma": 2e-3, "name": "spin"} | options))
    if ground is not None:
        scene.add_ground(height=ground, contact=Contact(stiffness=100.0, damping=0.1, friction_stiffness=1.0, friction=0.2))
    scene.add_rigid(
        "box", shape=Box(0.1, 0.08, 0.06), density=500.0,
        start=Start(position=(-0.03, 0.0, 0.02), velocity=(0.6, 0.1, 0.7), angular_velocity=(3.0, -5.0, 8.0)),
        surface=Surface(color=(0.8, 0.3, 0.2)),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(eye=(0.1, -0.5, 0.2), target=(0.0, 0.0, 0.03), vertical_fov=34.0, width=14, height=12, near=0.1, far=1.5)
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background(top=(0.2, 0.3, 0.6), bottom=(0.7, 0.6, 0.4))
    return scene
