"""Contact numbers per area: the same numbers on a finer mesh are the same motion."""


import numpy as np
import pytest
import torch

from risp_torch import Contact, Elastic, Scene, Springs, Start, UserError
from tests.reference.contact_cases import as_mesh
from tests.reference.folders import ROBOTS
from tests.reference.rigid_cases import GRAVITY, turned
from ti_sim import Box, Mesh, Shape, Sphere, contact_points
from ti_sim.meshes.generators import box_hexes

SIDES = (0.06, 0.05, 0.04)
STIFFNESS = 1e6  # N/m3


def fine_box(cells: int) -> Mesh:
    """A box whose sides are cut into squares."""
    return as_mesh(box_hexes(SIDES, (cells,) * 3))


def contact(per: str = "area") -> Contact:
    # Per point, numbers that suit the eight corners of a plain box.
    scale = 1.0 if per == "area" else 0.25 * SIDES[0] * SIDES[1]
    return Contact(
        stiffness=STIFFNESS * scale, damping=3e3 * scale, friction_stiffness=8e3 * scale, friction=0.4, per=per
    )  # fmt: skip


def scene_of(shape: Shape, *, per: str = "area", collision: bool = False, **start) -> Scene:
    scene = Scene(frame_dt=0.01, frames=20, substeps=20)
    scene.add_ground(contact=contact(per))
    scene.add_rigid("body", shape=shape, density=800.0, start=Start(**start), collision=collision)
    return scene


def thrown(shape: Shape, per: str, position: tuple[float, float, float]) -> np.ndarray:
    """Poses [21, 7] of a body that is thrown on the ground with a little tilt, bounces and slides."""
    scene = scene_of(shape, per=per, orientation=turned((1.0, 0.6, 0.0), 0.05), velocity=(0.4, 0.1, -0.1), position=position)
    with torch.no_grad():
        return scene.rollout().body_q[0, :, 0].cpu().numpy()


def test_a_finer_mesh_moves_alike() -> None:
    """And the more so the finer it is, with the square of its edges; per point it is another motion."""
    apart = {}
    for per in ("area", "point"):
        boxes = [thrown(fine_box(cells), per, (0.0, 0.0, 0.0225)) for cells in (4, 8, 16)]
        balls = [thrown(as_mesh(Sphere(0.03, n)), per, (0.0, 0.0, 0.031)) for n in (2, 3, 4)]
        apart[per] = np.array([[np.abs(b - a).max() for a, b in zip(p[:-1], p[1:], strict=True)] for p in (boxes, balls)])
    assert (apart["area"][:, 1] < 0.4 * apart["area"][:, 0]).all() and (apart["area"][:, 1] < 2e-3).all()
    assert (apart["point"][:, 1] > 5 * apart["area"][:, 1]).all()


def test_the_force_on_a_ball_is_that_of_the_volume_under_the_plane() -> None:
    radius, depth = 0.05, 0.004
    wanted = np.pi * depth**2 * (radius - depth / 3)
    errors = []
    for subdivisions in (3, 4, 5):
        rows = contact_points(Sphere(radius, subdivisions), per_area=True)
        under = np.maximum(0.0, depth - radius - rows[:, 2])
        errors.append(abs((under * np.maximum(0.0, -rows[:, 7])).sum() / wanted - 1))
    assert errors[0] < 0.01 and errors[2] < 0.002 and errors[2] < errors[1] < errors[0]


def test_a_box_rests_on_its_area() -> None:
    for shape in (Box(*SIDES), fine_box(3)):
        scene = scene_of(shape, position=(0.0, 0.0, 0.5 * SIDES[2]))
        with torch.no_grad():
            depth = 0.5 * SIDES[2] - scene.rollout(frames=60).body_q[0, -1, 0, 2].item()
        assert depth == pytest.approx(800.0 * SIDES[2] * GRAVITY / STIFFNESS, rel=1e-6)
        assert scene.parameters["ground.contact.stiffness"].unit == "N/m3"


def test_particles_share_the_surface() -> None:
    for cells in (2, 4):
        scene = Scene(frame_dt=0.01, frames=1, substeps=1)
        scene.add_ground(contact=contact())
        scene.add_solid("block", mesh=box_hexes(SIDES, (cells,) * 3), material=Elastic(E=1e4, nu=0.3), density=800.0)
        rows = scene.deformables[0].contact(scene.table.values())[0]
        x, y, z = SIDES
        assert rows[:, 0].sum().item() == pytest.approx(2 * (x * y + y * z + z * x) * STIFFNESS, rel=1e-12)
        assert (rows[:, 3] == 0.4).all() and ((rows[:, 0] > 0) == (rows[:, 2] > 0)).all()
        assert "contact_per_area" in scene.description()


def test_robots_touch_with_their_primitives_or_share_their_surfaces() -> None:
    robot = ROBOTS / "arm.urdf"
    for per in ("point", "area"):
        scene = Scene(frame_dt=0.01, frames=1, substeps=1)
        scene.add_ground(contact=contact(per))
        with pytest.warns(UserWarning, match="not imported completely"):
            scene.add_robot(robot, free_mimic=True)
        base = scene.bodies[0].points  # a cylinder
        if per == "point":
            assert base[:, 4].tolist() == [1, 2, 3, 4, 1, 2, 3, 4] and (base[:, 3] == 0.1).all()
        else:
            assert (base[:, 4] == 5).all() and base[:, 7].clip(max=0).sum() == pytest.approx(-np.pi * 0.1**2, rel=0.03)


def test_what_cannot_be_per_area_says_so() -> None:
    with pytest.raises(UserError, match="per 'body' is unknown: choose 'point' or 'area'"):
        Contact(stiffness=1.0, damping=1.0, friction_stiffness=1.0, friction=1.0, per="body")
    with pytest.raises(UserError, match="body collides with other bodies, at points, and its contact parameters are per area"):
        scene_of(Box(*SIDES), collision=True)
    scene = Scene(frame_dt=0.01, frames=1, substeps=1)
    scene.add_ground(contact=contact())
    with pytest.raises(UserError, match="net has no surface, and its contact parameters are per area"):
        scene.add_springs("net", points=np.eye(3), springs=Springs(indices=[(0, 1)], stiffness=1.0), mass=1.0)
    scene.add_solid("block", mesh=box_hexes(SIDES, (2, 2, 2)), material=Elastic(E=1e4, nu=0.3), density=800.0)
    with pytest.raises(UserError, match="self-contact is between vertices and triangles: give its contact parameters per point"):
        scene.add_self_contact(contact=contact(), thickness=1e-3)
