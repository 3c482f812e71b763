"""Neighbouring elements, and the penalty on their differences in the search and in Gauss-Newton steps."""

from itertools import combinations

import numpy as np
import pytest
import torch

from risp_torch import Elastic, Param, Scene, SmoothnessPrior, Springs, UserError
from risp_torch.inversion import Unknowns
from ti_sim.meshes import SheetMesh, box_hexes, box_tet10s, box_tets, sheet_grid
from ti_sim.meshes.neighbours import element_neighbours

CELLS = (3, 2, 1)
COUNT = 6
PRIORS = {"body.mu": SmoothnessPrior(0.3), "body.damping": SmoothnessPrior(2.0)}


def shared(indices: np.ndarray, corners: int, nodes: int) -> list[list[int]]:
    """Pairs of elements whose first ``corners`` nodes have ``nodes`` in common."""
    sets = [set(element[:corners].tolist()) for element in indices]
    return [[a, b] for a, b in combinations(range(len(sets)), 2) if len(sets[a] & sets[b]) == nodes]


def test_elements_that_share_a_face_are_neighbours() -> None:
    size = (0.3, 0.2, 0.1)
    assert element_neighbours(box_hexes(size, CELLS).indices).tolist() == shared(box_hexes(size, CELLS).indices, 8, 4)
    for mesh in (box_tets(size, (2, 1, 1)), box_tet10s(size, (2, 1, 1))):
        assert element_neighbours(mesh.indices).tolist() == shared(mesh.indices, 4, 3)
    sheet = sheet_grid((0.2, 0.1), (3, 2))
    assert element_neighbours(sheet.triangles).tolist() == shared(sheet.triangles, 3, 2)
    places = [(0.0, 0, 0), (0, 0, 1), (1, 0, 0), (-1, 1, 0), (-1, -1, 0)]
    fan = SheetMesh(np.array(places), np.array([(0, 1, i) for i in (2, 3, 4)]))
    assert element_neighbours(fan.triangles).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert element_neighbours(box_hexes(size, (1, 1, 1)).indices).shape == (0, 2)


def scene_of_elements(**options: object) -> Scene:
    scene = Scene(frame_dt=0.01, frames=1, substeps=4)
    each = np.linspace(1.0, 2.0, COUNT)
    scene.add_solid(
        "body", mesh=box_hexes((0.3, 0.2, 0.1), CELLS), density=Param(900.0, low=100.0, high=2000.0),
        material=Elastic(
            mu=Param(1e4 * each, low=1e3, high=1e5, scale="log10"), lam=2e4,
            damping=Param(each, low=0.5, high=4.5),
        ), **options,
    )  # fmt: skip
    return scene


def test_the_penalty_is_the_weighted_mean_square_of_differences() -> None:
    names = ["body.density", "body.mu", "body.damping"]
    unknowns = Unknowns.of(scene_of_elements(), names, priors=PRIORS)
    physical = np.random.default_rng(1).uniform(1.0, 4.0, (2, 1 + 2 * COUNT)) * np.r_[200.0, np.full(COUNT, 1e4), np.ones(COUNT)]
    near = element_neighbours(box_hexes((0.3, 0.2, 0.1), CELLS).indices)
    expected = np.zeros(2)
    for weight, rows in ((0.3, np.log10(physical[:, 1 : 1 + COUNT])), (2.0, physical[:, 1 + COUNT :])):
        expected += weight * np.mean((rows[:, near[:, 0]] - rows[:, near[:, 1]]) ** 2, axis=1)
    z = unknowns.unbounded(physical).requires_grad_()
    np.testing.assert_allclose(unknowns.penalised(torch.zeros(2), z, 1).detach().cpu().numpy(), expected, rtol=1e-9)
    assert torch.autograd.gradcheck(lambda z: unknowns.penalised(torch.zeros(2), z, 1), z)
    parts = unknowns.scaled(physical) / unknowns.scaled_range()
    matrix = unknowns.smoothness.matrix(unknowns.scaled_range())
    np.testing.assert_allclose(np.einsum("sk,kl,sl->s", parts, matrix, parts), expected, rtol=1e-9)


def test_a_normal_prior_besides_smoothness() -> None:
    """Both of one unknown are those of each alone."""
    scene, name = scene_of_elements(), "body.mu"
    both = Unknowns.of(scene, [name], priors={name: SmoothnessPrior(0.3, normal=(1.2e4, "10%"))})
    smooth = Unknowns.of(scene, [name], priors={name: SmoothnessPrior(0.3)})
    normal = Unknowns.of(scene, [name], priors={name: (1.2e4, "10%")})
    assert both.smoothness.specification == smooth.smoothness.specification == {name: 0.3}
    assert both.priors.specification == normal.priors.specification and not smooth.priors
    np.testing.assert_array_equal(both.priors.sd, normal.priors.sd)


def test_without_weights_there_is_no_penalty() -> None:
    unknowns = Unknowns.of(scene_of_elements(), ["body.mu"])
    assert float(unknowns.penalised(torch.zeros(1), torch.zeros(1, COUNT, dtype=torch.float64), 1)) == 0.0
    assert not unknowns.smoothness.matrix(unknowns.scaled_range()).any()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("body.mue", "unknown to smooth 'body.mue': did you mean 'body.mu'"),
        ("body.lam", "unknown to smooth 'body.lam'"),
        ("body.density", "body.density has no number for each element of a solid, cloth or flat body"),
    ],
)  # fmt: skip
def test_what_cannot_be_smoothed_is_named(name: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        Unknowns.of(scene_of_elements(), ["body.mu", "body.density"], priors={name: SmoothnessPrior(1.0)})
    assert sentence in str(caught.value)


def test_numbers_of_particles_springs_and_lone_elements_are_not_smoothed() -> None:
    scene = Scene(frame_dt=0.01, frames=1, substeps=4)
    scene.add_springs(
        "net", points=np.eye(3),
        springs=Springs(indices=[(0, 1), (1, 2), (0, 2)], stiffness=Param([1.0, 2.0, 3.0], low=0.1, high=9.0)),
        mass=Param([1.0, 2.0, 3.0], low=0.1, high=9.0),
    )  # fmt: skip
    scene.add_solid(
        "brick", mesh=box_hexes((0.1, 0.1, 0.1), (1, 1, 1)), density=Param([900.0], low=1.0, high=2e3),
        material=Elastic(E=1e4, nu=0.3),
    )  # fmt: skip
    for name in ("net.stiffness", "net.mass"):
        with pytest.raises(UserError, match="has no number for each element"):
            Unknowns.of(scene, [name], priors={name: SmoothnessPrior(1.0)})
    with pytest.raises(UserError, match="no elements of brick.density are neighbours"):
        Unknowns.of(scene, ["brick.density"], priors={"brick.density": SmoothnessPrior(1.0)})
