"""Velocities of deformable bodies at the start: uniform, turning, affine, of each particle."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from risp_torch import Box, Elastic, Param, Scene, Shell, Springs, Start, UserError, load_scene
from ti_sim.meshes import box_hexes, sheet_grid

G = np.array([[0.3, -1.0, 0.4], [0.8, 0.1, 0.0], [-0.5, 0.6, 0.2]])
VELOCITY, TURNING, POSITION = (0.5, -0.2, 0.1), (0.2, 0.4, -0.3), (0.3, 0.1, 0.5)
QUARTER = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))  # about z
MOTION = Start(
    position=POSITION, orientation=QUARTER, velocity=VELOCITY, angular_velocity=TURNING, velocity_gradient=G
)


def scene_with(kind: str, **changes: object) -> Scene:
    scene = Scene(frame_dt=0.01, frames=1, substeps=4)
    options = {"start": replace(MOTION, **changes), "fixed": [0]}
    sheet, block, stuff = sheet_grid((0.2, 0.1), (2, 1)), box_hexes((0.2, 0.1, 0.1), (2, 1, 1)), Elastic(E=1e4, nu=0.3)
    if kind == "solid":
        scene.add_solid("body", mesh=block, material=stuff, density=1.0, **options)
    elif kind == "cloth":
        scene.add_cloth("body", mesh=sheet, material=Shell(mu=1.0, lam=1.0), density=1.0, **options)
    elif kind == "flat body":
        scene.add_flat_body("body", mesh=sheet, material=stuff, density=1.0, **options)
    else:
        scene.add_springs(
            "body", points=sheet.vertices, springs=Springs(indices=[(0, 1), (1, 2)], stiffness=1.0), mass=1.0, **options,
        )  # fmt: skip
    return scene


@pytest.mark.parametrize("kind", ["solid", "cloth", "flat body", "springs"])
def test_every_particle_has_the_velocity_of_the_field(kind: str) -> None:
    scene = scene_with(kind)
    (part,) = scene.deformables
    values = scene.table.values(worlds=2)
    places = part.start(values)[0].cpu().numpy() - POSITION
    np.testing.assert_allclose(places, part.vertices @ np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]]).T, atol=1e-12)
    expected = np.array(VELOCITY) + np.cross(TURNING, places) + places @ G.T
    expected[0] = 0.0  # held
    np.testing.assert_allclose(part.start_velocity(values).cpu().numpy(), np.stack([expected] * 2), rtol=1e-12, atol=1e-14)


def test_a_rotation_turns_further_what_has_an_orientation() -> None:
    """Both about the world's axes, the orientation first: of rigid and of deformable bodies."""
    given, vector, place = Rotation.from_rotvec((0.9, -0.4, 0.3)), (0.2, 0.7, -1.1), np.array([0.1, 0.2, 0.3])
    options = {"density": 1.0, "start": Start(orientation=given.as_quat(), rotation=vector, position=place)}
    scene, mesh = Scene(frame_dt=0.01, frames=1, substeps=4), box_hexes((0.2, 0.1, 0.1), (2, 1, 1))
    scene.add_rigid("box", shape=Box(0.2, 0.1, 0.1), **options)
    scene.add_solid("solid", mesh=mesh, material=Elastic(E=1e4, nu=0.3), **options)
    whole, values = Rotation.from_rotvec(vector) * given, scene.table.values(worlds=1)
    pose = scene.bodies[0].pose(values)[0].cpu().numpy()
    np.testing.assert_allclose(pose[:3], place)
    np.testing.assert_allclose(Rotation.from_quat(pose[3:]).as_matrix(), whole.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(scene.deformables[0].start(values)[0], place + whole.apply(mesh.vertices), atol=1e-12)


def test_the_field_is_differentiable_and_may_differ_between_worlds() -> None:
    scene = scene_with("cloth", velocity_gradient=Param(G, low=-2.0, high=2.0))
    (part,) = scene.deformables
    assert scene.unknowns == ["body.velocity_gradient"] and scene.parameters["body.velocity_gradient"].unit == "1/s"

    def field(velocity: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        return part.start_velocity(scene.table.values({"body.velocity": velocity, "body.velocity_gradient": gradient}))

    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, *shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in ((3,), (3, 3))]
    assert torch.autograd.gradcheck(field, inputs)


def test_a_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(UserError, match=r"Start: velocity_gradient has shape \(2, 3\), and \(3, 3\) is needed"):
        scene_with("solid", velocity_gradient=np.zeros((2, 3)))


def test_fields_of_the_cloth() -> None:
    fields = {}
    for kind in ("uniform", "affine", "particles"):
        scene = load_scene("cloth", field=kind)
        (part,) = scene.deformables
        fields[kind] = part.start_velocity(scene.table.values())[0].cpu().numpy()
        assert scene.unknowns == ["cloth.velocity", "cloth.velocity_gradient"][: 2 if kind == "affine" else 1]
        assert not fields[kind][part.fixed].any()
    np.testing.assert_allclose(fields["affine"], fields["particles"], atol=1e-12)
    assert np.abs(fields["affine"] - fields["uniform"]).max() > 1.0
    with pytest.raises(UserError, match="choose uniform, affine or particles"):
        load_scene("cloth", field="linear")
