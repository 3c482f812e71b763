"""A soft block between an arm with a ball and a mesh that hangs on the world: links and particles that touch."""

from risp_torch import Contact, Elastic, LinkFrame, Mesh, Revolute, Scene, Sphere, Start
from ti_sim.meshes import box_tets

DRY = {"dry_friction": 0.02, "dry_stiffness": 2.0, "dry_damping": 0.01}


def block_between_bodies(
    *, frame_dt: float = 0.01, frames: int = 2, substeps: int = 8, stiffness: float = 400.0, is_dry: bool = True
) -> Scene:
    """The scene; tests of the same ``is_dry`` run the same kernels.

    Args:
        frame_dt: s.
        frames: frame intervals.
        substeps: physics steps of a frame interval.
        stiffness: of all contacts [N/m].
        is_dry: whether the joint of the arm has dry friction.
    """
    scene = Scene(frame_dt=frame_dt, frames=frames, substeps=substeps)
    contact = Contact(stiffness=stiffness, damping=1.0, friction_stiffness=2.0, friction=0.3)
    scene.add_link(
        "arm", shape=Sphere(radius=0.06), joint=Revolute(axis=(0.0, 1.0, 0.0), angle=0.1, **(DRY if is_dry else {})), mass=0.4,
        frame=LinkFrame(length=0.2, position=(0.0, 0.0, 0.3)), contact=contact, collision=True,
    )  # fmt: skip
    pebble = Sphere(radius=0.1, subdivisions=1).surface()
    scene.add_rigid(
        "pebble", shape=Mesh(vertices=pebble.vertices, faces=pebble.faces, field_cells=16), density=500.0,
        start=Start(position=(0.0, 0.02, -0.12)), contact=contact, collision=True,
    )  # fmt: skip
    scene.add_solid(
        "block", mesh=box_tets((0.2, 0.2, 0.1), (2, 2, 1)), material=Elastic(E=2e3, nu=0.3, damping=3.0), density=300.0,
        start=Start(position=(0.03, 0.0, 0.0), rotation=(0.3, 0.5, 0.1), velocity=(0.1, 0.0, -0.2)), contact=contact,
    )  # fmt: skip
    return scene
