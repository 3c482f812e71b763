"""The deformable solver against closed forms, linear finite elements and conservation laws."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse.linalg as linear
from scipy.linalg import eigh, expm
from scipy.optimize import brentq

from tests.reference.deformable import linear_stiffness
from tests.reference.deformable_cases import GRAVITY, everything, inputs_for, sheet_body, solid_body
from ti_sim.deformable.bending import rest_angles
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import ENERGIES, DeformableModel, DeformableSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.single_state import energy, forces
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.deformable.triangles import membrane_constants
from ti_sim.meshes import SheetMesh, box_hexes, box_tet10s, box_tets, sheet_grid

YOUNG, DENSITY = 1e5, 1000.0
LENGTH, SIDE = 1.0, 0.1  # of the cantilevers, m
BOXES = {"tet": box_tets, "hex": box_hexes, "tet10": box_tet10s}


def simulate(
    model: DeformableModel, inputs: DeformableInputs, *, dt: float, substeps: int, frames: int = 1, plan: str = "auto"
) -> DeformableRollout:
    """Run without gradient, under the loads and actuations of the only frame interval that there are any for."""
    over_time = ("solid_actuation", "tri_actuation", "edge_actuation", "load", "prescribed_qd")
    inputs = replace(inputs, **{name: np.repeat(getattr(inputs, name), frames, axis=1) for name in over_time})
    return DeformableSolver(model, DeformableSettings(dt=dt, substeps=substeps, plan=plan)).rollout(inputs, frames)


def turn(axis: tuple[float, float, float], angle: float) -> np.ndarray:
    """Matrix of a rotation by ``angle`` [rad] about ``axis``."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    return expm(angle * np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]))


def worlds_at(model: DeformableModel, inputs: DeformableInputs, count: int) -> DeformableInputs:
    """The one world of ``inputs``, ``count`` times."""
    return DeformableInputs(*(np.repeat(array, count, axis=0) for array in inputs.arrays()))


def stiffness_of(model: DeformableModel, inputs: DeformableInputs, freedoms: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Minus the derivative of the forces at rest with respect to some coordinates of all particles, by central differences.

    Args:
        model: elements.
        inputs: one world.
        freedoms: [N] coordinates, 3 p + k.
        step: of the differences, m.

    Returns:
        [3 P, N] N/m.
    """
    count = len(freedoms)
    moved = np.repeat(inputs.particle_q0.reshape(1, -1), 2 * count, axis=0)
    moved[np.arange(count), freedoms] += step
    moved[count + np.arange(count), freedoms] -= step
    moved = moved.reshape(2 * count, -1, 3)
    at = forces(model, worlds_at(model, inputs, 2 * count), moved, 0 * moved).reshape(2 * count, -1)
    return (at[count:] - at[:count]).T / (2 * step)


def frequency_of(samples: np.ndarray, interval: float, dt: float) -> float:
    """Angular frequency [rad/s] of the undamped oscillator whose semi-implicit Euler steps went through ``samples``.

    Args:
        samples: positions at equal intervals, about their mean.
        interval: s.
        dt: step: sin(w_numerical dt / 2) = w dt / 2 [s].
    """
    middle = samples[1:-1]
    cosine = np.sum((samples[2:] + samples[:-2]) * middle) / (2 * np.sum(middle * middle))
    return 2 / dt * np.sin(np.arccos(cosine) / interval * dt / 2)


# --- rigid motion -----------------------------------------------------------------------------------------------------------


def test_rigid_motion_gives_no_force_and_no_energy() -> None:
    model, inputs = everything(worlds=1)
    corner = model.particle_rest[model.spring_indices]
    inputs.spring_material[..., 2] = np.linalg.norm(corner[:, 1] - corner[:, 0], axis=1)
    inputs.edge_material[..., 2] = rest_angles(model.particle_rest, model.edge_indices)
    inputs = replace(
        inputs, **{name: 0 * getattr(inputs, name) for name in ("solid_actuation", "tri_actuation", "edge_actuation")}
    )
    inputs.tri_material[:, :3, 3:] = 0  # no air
    inputs.tri_material[:, 3, :3] = 0  # nor the flat body, which does not leave its plane
    spin = np.array([2.0, -1.0, 3.0])
    q = model.particle_rest[None] @ turn((1, 2, -1), 2.0).T + (0.3, -1.0, 5.0)
    stretched = 1.1 * model.particle_rest[None]
    scale = np.abs(forces(model, inputs, stretched, 0 * q)).max()
    assert np.abs(forces(model, inputs, q, np.cross(spin, q))).max() < 1e-9 * scale
    assert abs(energy(model, inputs, q)[0]) < 1e-9 * energy(model, inputs, stretched)[0]


@pytest.mark.parametrize("kind", [*BOXES, "sheet"])
def test_damping_does_not_brake_a_spinning_body(kind: str) -> None:
    if kind == "sheet":
        membrane = (*membrane_constants(1e5, 0.3, 1e-2), 2.0, 0.0, 0.0)
        model, inputs = sheet_body(sheet_grid((0.4, 0.2), (4, 2)), density=1.0, membrane=membrane, rigidity=0.5)
        inputs.edge_material[..., 1] = 1e-3
    else:
        model, inputs = solid_body(BOXES[kind]((0.4, 0.2, 0.1), (2, 1, 1)), damping=50.0)
    mass, spin = inputs.particle_mass[0, :, None], np.array([1.0, -2.0, 6.0])
    inputs = replace(inputs, particle_qd0=np.cross(spin, inputs.particle_q0) + (0.5, 0.0, -0.2))
    rollout = simulate(model, inputs, dt=2e-4, substeps=500, frames=10)
    q, qd = rollout.particle_q[0], rollout.particle_qd[0]
    momentum = np.sum(mass * np.cross(q, qd), axis=1)
    np.testing.assert_allclose(momentum, momentum[:1].repeat(11, 0), rtol=0, atol=1e-9 * np.abs(momentum).max())
    linear_momentum = np.sum(mass * qd, axis=1)
    np.testing.assert_allclose(linear_momentum, linear_momentum[:1].repeat(11, 0), rtol=0, atol=1e-10)
    # What was not rigid motion at the start is damped; the spin itself goes on.
    kinetic = 0.5 * np.sum(mass * qd**2, axis=(1, 2))
    assert kinetic[-1] > 0.95 * kinetic[0]
    assert abs(kinetic[-1] / kinetic[-2] - 1) < 1e-2


# --- small strains: linear finite elements and beams --------------------------------------------------------------------------


def beam(
    kind: str, cells: tuple[int, int, int], *, poisson: float = 0.3, **options: object
) -> tuple[DeformableModel, DeformableInputs]:
    """A cantilever along x, clamped at its lower end, of unit cells along its side."""
    mesh = BOXES[kind]((LENGTH, SIDE, SIDE), cells)
    held = np.flatnonzero(mesh.vertices[:, 0] < -LENGTH / 2 + 1e-9)
    return solid_body(mesh, young=YOUNG, poisson=poisson, density=DENSITY, elements={"fixed": held}, **options)


def indices_of(model: DeformableModel, kind: str) -> np.ndarray:
    """Elements of one kind."""
    return getattr(model, f"{kind}_indices")


def free_freedoms(model: DeformableModel) -> np.ndarray:
    """Coordinates 3 p + k of all particles that move."""
    return np.flatnonzero(np.repeat(~np.isin(np.arange(model.particle_count), model.fixed), 3))


def linear_sag(
    kind: str, model: DeformableModel, inputs: DeformableInputs, poisson: float, g: float, free: np.ndarray | None = None
) -> np.ndarray:
    """Displacements [P, 3] of linear elasticity under gravity g along -z, ``free`` the coordinates that move."""
    k = linear_stiffness(kind, model.particle_rest, indices_of(model, kind), young=YOUNG, poisson=poisson)
    free = free_freedoms(model) if free is None else free
    load = np.zeros((model.particle_count, 3))
    load[:, 2] = -g * inputs.particle_mass[0]
    moved = np.zeros(load.size)
    moved[free] = linear.spsolve(k[free][:, free], load.ravel()[free])
    return moved.reshape(-1, 3)


def tip_sag(model: DeformableModel, moved: np.ndarray) -> float:
    """Mean sag [m] of the free end's face."""
    return -float(moved[model.particle_rest[:, 0] > LENGTH / 2 - 1e-9, 2].mean())


def first_frequency(kind: str, model: DeformableModel, inputs: DeformableInputs, poisson: float) -> tuple[float, np.ndarray]:
    """Lowest angular frequency [rad/s] by linear elasticity and lumped masses, and its shape [P, 3]."""
    k = linear_stiffness(kind, model.particle_rest, indices_of(model, kind), young=YOUNG, poisson=poisson)
    free = free_freedoms(model)
    root = np.sqrt(np.repeat(inputs.particle_mass[0], 3)[free])
    scaled = k[free][:, free].multiply(1 / root[:, None]).multiply(1 / root[None]).tocsc()
    squares, shapes = linear.eigsh(scaled, k=1, sigma=0.0, v0=np.ones(len(free)))
    shape = np.zeros(3 * model.particle_count)
    shape[free] = shapes[:, 0] / root
    return float(np.sqrt(squares[0])), shape.reshape(-1, 3)


def shear_modulus(poisson: float) -> tuple[float, float]:
    """Shear modulus [Pa] and Cowper's shear coefficient of a rectangular section [1]."""
    return YOUNG / (2 * (1 + poisson)), 10 * (1 + poisson) / (12 + 11 * poisson)


def timoshenko_sag(poisson: float, g: float) -> float:
    """Sag [m] of the cantilever's end under its weight."""
    shear, coefficient = shear_modulus(poisson)
    return DENSITY * g * (LENGTH**4 * 12 / (8 * YOUNG * SIDE**2) + LENGTH**2 / (2 * coefficient * shear))


def timoshenko_frequency(poisson: float) -> float:
    """First angular frequency of the cantilever [rad/s]."""
    shear, coefficient = shear_modulus(poisson)
    area, inertia = SIDE**2, SIDE**4 / 12

    def residual(w: float) -> float:
        # State along the beam: deflection, turn of the section, moment, shear force.
        slope = np.zeros((4, 4))
        slope[0, 1], slope[0, 3] = 1, 1 / (coefficient * shear * area)
        slope[1, 2] = 1 / (YOUNG * inertia)
        slope[2, 1], slope[2, 3] = -DENSITY * inertia * w**2, -1
        slope[3, 0] = -DENSITY * area * w**2
        return np.linalg.det(expm(slope * LENGTH)[2:, 2:])

    slender = 1.8751**2 * np.sqrt(YOUNG * inertia / (DENSITY * area)) / LENGTH**2
    return brentq(residual, 0.5 * slender, 1.1 * slender, xtol=1e-9)


@pytest.mark.parametrize("energy_name", ENERGIES)
@pytest.mark.parametrize("kind", BOXES)
def test_stiffness_at_rest_is_that_of_linear_finite_elements(kind: str, energy_name: str) -> None:
    mesh = BOXES[kind]((0.3, 0.1, 0.1), (2, 1, 1))
    model, inputs = solid_body(mesh, young=YOUNG, energy=energy_name)
    wanted = linear_stiffness(kind, mesh.vertices, mesh.indices, young=YOUNG, poisson=0.3).toarray()
    freedoms = np.arange(0, len(wanted), 1 if kind != "tet10" else 4)
    got = stiffness_of(model, inputs, freedoms)
    np.testing.assert_allclose(got, wanted[:, freedoms], rtol=0, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize(("kind", "cells"), [("tet", (6, 2, 2)), ("hex", (6, 2, 2)), ("tet10", (4, 1, 1))])
def test_sag_is_that_of_linear_finite_elements(kind: str, cells: tuple[int, int, int]) -> None:
    g = 2e-7  # sags by a few parts in ten million of the length
    model, inputs = beam(kind, cells, gravity=(0, 0, -g))
    wanted = linear_sag(kind, model, inputs, 0.3, g)
    free = free_freedoms(model)
    k = linear_stiffness(kind, model.particle_rest, indices_of(model, kind), young=YOUNG, poisson=0.3)
    inverse = linear.splu(k[free][:, free])
    weight = inputs.particle_mass[0, :, None] * (0, 0, -g)
    moved = np.zeros(3 * model.particle_count)
    for _ in range(4):  # Newton's method with the stiffness at rest
        q = model.particle_rest + moved.reshape(-1, 3)
        unbalanced = forces(model, inputs, q[None], 0 * q[None])[0] + weight
        moved[free] += inverse.solve(unbalanced.ravel()[free])
    sag = tip_sag(model, wanted)
    assert abs(tip_sag(model, moved.reshape(-1, 3)) / sag - 1) < 1e-6
    # There the solver leaves it, for a tenth of the first period and longer.
    resting = replace(inputs, particle_q0=(model.particle_rest + moved.reshape(-1, 3))[None])
    after = simulate(model, resting, dt=1e-4, substeps=5000).particle_q[0, -1] - model.particle_rest
    np.testing.assert_allclose(after, wanted, rtol=0, atol=1e-6 * sag)


def freely_clamped(model: DeformableModel) -> np.ndarray:
    """Coordinates that move in a clamp that lets the section contract: it holds the face along x, and its middle lines."""
    away = np.abs(model.particle_rest) > 1e-9
    away[:, 0] = False
    away[model.particle_rest[:, 0] > -LENGTH / 2 + 1e-9] = True
    return np.flatnonzero(away.ravel())


def test_sag_converges_to_beam_theory() -> None:
    theory = timoshenko_sag(0.0, 1.0)
    # Without Poisson's ratio nothing varies across the beam: one cell of any width will do.
    sags = []
    for n in (2, 4, 8):
        model, inputs = beam("hex", (10 * n, 1, n), poisson=0.0)
        sags.append(tip_sag(model, linear_sag("hex", model, inputs, 0.0, 1.0)) / theory)
    errors = 1 - np.array(sags)
    assert np.all(errors[:-1] > 3 * errors[1:]), errors
    assert abs(sags[-1] + (sags[-1] - sags[-2]) / 3 - 1) < 0.005
    theory = timoshenko_sag(0.3, 1.0)
    for kind, coarse in (("hex", 2), ("tet10", 1)):
        clamped, contracting = [], []
        for n in (coarse, 2 * coarse):
            model, inputs = beam(kind, (10 * n, n, n))
            clamped.append(tip_sag(model, linear_sag(kind, model, inputs, 0.3, 1.0)) / theory)
            if kind == "hex":
                moved = linear_sag(kind, model, inputs, 0.3, 1.0, freely_clamped(model))
                contracting.append(tip_sag(model, moved) / theory)
        # A clamp that hinders the section's contraction adds a stiffness of which beam theory knows nothing.
        assert abs(clamped[-1] + (clamped[-1] - clamped[-2]) / 3 - 1) < 0.03, (kind, clamped)
        if kind == "hex":
            assert 1 - contracting[0] > 3 * (1 - contracting[1]) > 0, contracting
            assert abs(contracting[1] + (contracting[1] - contracting[0]) / 3 - 1) < 0.005


def test_first_frequency_converges_to_beam_theory() -> None:
    theory = timoshenko_frequency(0.0)
    frequencies = []
    for n in (2, 4, 8):
        model, inputs = beam("hex", (10 * n, 1, n), poisson=0.0)
        frequencies.append(first_frequency("hex", model, inputs, 0.0)[0] / theory)
    errors = np.array(frequencies) - 1
    assert np.all(errors[:-1] > 3 * errors[1:]), errors
    assert abs(frequencies[-1] + (frequencies[-1] - frequencies[-2]) / 3 - 1) < 0.005
    model, inputs = beam("tet10", (10, 1, 1))
    assert abs(first_frequency("tet10", model, inputs, 0.3)[0] / timoshenko_frequency(0.3) - 1) < 0.03


@pytest.mark.parametrize(("kind", "cells"), [("tet", (6, 2, 2)), ("hex", (6, 2, 2)), ("tet10", (4, 1, 1))])
def test_first_frequency_in_time_is_that_of_linear_finite_elements(kind: str, cells: tuple[int, int, int]) -> None:
    model, inputs = beam(kind, cells)
    wanted, shape = first_frequency(kind, model, inputs, 0.3)
    shape /= np.abs(shape).max()
    inputs = replace(inputs, particle_q0=inputs.particle_q0 + 1e-6 * shape)
    dt, substeps = 2e-4, 500
    rollout = simulate(model, inputs, dt=dt, substeps=substeps, frames=int(2 * np.pi / wanted / (dt * substeps)) + 1)
    weighted = inputs.particle_mass[0, :, None] * shape
    samples = np.einsum("tpk,pk->t", rollout.particle_q[0] - model.particle_rest, weighted)
    assert abs(frequency_of(samples, dt * substeps, dt) / wanted - 1) < 1e-6


def test_energy_of_an_undamped_body_is_kept_to_first_order() -> None:
    mesh = box_tets((0.2, 0.2, 0.2), (2, 2, 2))
    model, inputs = solid_body(mesh)
    inputs = replace(inputs, particle_q0=inputs.particle_q0 * (1.2, 0.9, 0.95))
    start, drifts = energy(model, inputs, inputs.particle_q0)[0], []
    for dt in (4e-4, 2e-4, 1e-4):
        rollout = simulate(model, inputs, dt=dt, substeps=round(0.004 / dt), frames=100)
        kinetic = 0.5 * np.sum(inputs.particle_mass[0, :, None] * rollout.particle_qd[0] ** 2, axis=(1, 2))
        total = kinetic + energy(model, worlds_at(model, inputs, 101), rollout.particle_q[0])
        drifts.append(np.abs(total / start - 1).max())
    assert drifts[0] < 0.1
    np.testing.assert_allclose(np.log2(np.divide(drifts[:-1], drifts[1:])), 1, atol=0.15)


# --- cloth ------------------------------------------------------------------------------------------------------------------


def test_area_strain_of_cloth_costs_what_plane_stress_says() -> None:
    thickness, poisson, strain = 1e-3, 0.3, 1e-4
    membrane = (*membrane_constants(YOUNG, poisson, thickness), 0.0, 0.0, 0.0)
    model, inputs = sheet_body(sheet_grid((1.0, 0.5), (4, 2)), membrane=membrane)
    wanted = YOUNG * thickness / (1 - poisson) * strain**2 * 0.5
    # Stretched and compressed, so that the next order of the strain cancels.
    both = np.stack([(1 + strain) * model.particle_rest, (1 - strain) * model.particle_rest])
    assert abs(energy(model, worlds_at(model, inputs, 2), both).mean() / wanted - 1) < 1e-6


def test_stretched_cloth_sounds_as_a_drum() -> None:
    side, stretch, n = 1.0, 1.2, 8
    mu, lam = membrane_constants(YOUNG, 0.3, 1e-3)
    mesh = sheet_grid((side, side), (n, n))
    rim = np.flatnonzero(np.abs(mesh.vertices[:, :2]).max(1) > side / 2 - 1e-9)
    # Equal masses, as in the classical lattice of the drum; its triangles give the vertices 4/3 and 2/3 of them in turns.
    density = 0.1
    model, inputs = sheet_body(
        mesh, membrane=(mu, lam, 0.0, 0.0, 0.0), elements={"fixed": rim}, particle_mass=density * (side / n) ** 2
    )
    x, y = mesh.vertices[:, 0], mesh.vertices[:, 1]
    shape = np.cos(np.pi * x / side) * np.cos(np.pi * y / side)
    q = stretch * mesh.vertices[None] + 1e-5 * shape[:, None] * (0, 0, 1)
    # Nominal tension over stretch, from the energy's derivative along a stretch of both sides.
    square = 2 * stretch**2
    tension = mu * (1 - 1 / (square + 1)) + lam * (stretch**2 - 1) - 2 * mu / 3
    tension = tension if tension > 0 else np.nan
    inside = np.setdiff1d(np.arange(model.particle_count), rim)
    pull = forces(model, inputs, q, 0 * q)[0, inside, 2] / (1e-5 * shape[inside])
    lattice = 8 * (n / side) ** 2 * np.sin(np.pi / (2 * n)) ** 2  # of -d2/dx2 - d2/dy2
    np.testing.assert_allclose(pull, -tension * lattice * (side / n) ** 2, rtol=1e-6)
    # In time, and against the continuous drum up to the lattice's coarseness.
    wanted = np.sqrt(2 * tension / density) * np.pi / side
    inputs = replace(inputs, particle_q0=q)
    dt = 0.02 / wanted
    rollout = simulate(model, inputs, dt=dt, substeps=20, frames=20)
    frequency = frequency_of(rollout.particle_q[0, :, :, 2] @ shape, 20 * dt, dt)
    assert abs(frequency / np.sqrt(tension * lattice / density) - 1) < 1e-6
    assert abs(frequency / wanted - 1) < 0.01


def test_bar_of_cloth_sounds_as_an_elastic_bar() -> None:
    n, density, thickness = 20, 0.1, 1e-3
    membrane = (*membrane_constants(YOUNG, 0.0, thickness), 0.0, 0.0, 0.0)
    mesh = sheet_grid((1.0, 0.1), (n, 2))
    held = np.flatnonzero(mesh.vertices[:, 0] < -0.5 + 1e-9)
    model, inputs = sheet_body(mesh, density=density, membrane=membrane, elements={"fixed": held})
    along = free_freedoms(model)[::3]
    k = stiffness_of(model, inputs, along)[along]
    squares = eigh(k, np.diag(inputs.particle_mass[0, along // 3]), subset_by_index=[0, 0], eigvals_only=True)
    wanted = np.pi / 2 * np.sqrt(YOUNG * thickness / density)
    assert abs(np.sqrt(squares[0]) / wanted - 1) < 1e-3


def test_hinge_of_two_triangles_swings() -> None:
    vertices = np.array([(0.0, -0.5, 0), (0, 0.5, 0), (-0.4, 0, 0), (0.3, 0, 0)])
    mesh = SheetMesh(vertices, np.array([(0, 1, 2), (1, 0, 3)]))
    model, inputs = sheet_body(mesh, elements={"fixed": np.array([0, 1, 2])}, particle_mass=0.02)
    stiffness, height = 0.5, 0.3
    inputs.edge_material[..., 0] = stiffness
    inputs.particle_q0[0, 3, 2] = 1e-4
    wanted = np.sqrt(stiffness / (2 * 0.02)) / height  # a moment of k sin(angle / 2)
    dt = 0.01 / wanted
    rollout = simulate(model, inputs, dt=dt, substeps=25, frames=40)
    assert abs(frequency_of(rollout.particle_q[0, :, 3, 2], 25 * dt, dt) / wanted - 1) < 1e-5
    np.testing.assert_allclose(energy(model, inputs, inputs.particle_q0), stiffness / 4 * (1e-4 / height) ** 2, rtol=1e-6)


def test_bending_energy_of_a_cylinder() -> None:
    rigidity, radius = 0.3, 0.5
    errors = []
    for n in (8, 16, 32):
        mesh = sheet_grid((1.0, 1.0), (n, n))
        model, inputs = sheet_body(mesh, rigidity=rigidity)
        x, y, _ = mesh.vertices.T
        rolled = np.stack([radius * np.sin(x / radius), y, radius * (1 - np.cos(x / radius))], -1)
        errors.append(1 - energy(model, inputs, rolled[None])[0] / (rigidity / (2 * radius**2)))
    # No hinges at the rim: the energy of half a row of cells on either side is missing, so that the error falls with n.
    assert np.all(np.abs(errors[:-1]) > 1.8 * np.abs(errors[1:])), errors
    assert abs(2 * errors[-1] - errors[-2]) < 2e-3


def test_standing_wave_of_cloth_has_the_frequency_of_a_plate() -> None:
    rigidity, density, errors = 0.01, 0.1, []
    for n in (8, 16):
        mesh = sheet_grid((1.0, 0.25), (n, n // 4))
        model, inputs = sheet_body(mesh, density=density, rigidity=rigidity)
        shape = np.cos(np.pi * mesh.vertices[:, 0])
        q = model.particle_rest[None] + 1e-6 * shape[:, None] * (0, 0, 1)
        work = -forces(model, inputs, q, 0 * q)[0, :, 2] @ shape / 1e-6
        square = work / (inputs.particle_mass[0] @ shape**2)  # Rayleigh's quotient
        errors.append(np.sqrt(square) / (np.pi**2 * np.sqrt(rigidity / density)) - 1)
    assert abs(errors[0]) > 3 * abs(errors[1]), errors
    assert abs(errors[1]) < 0.01, errors


# --- springs and air --------------------------------------------------------------------------------------------------------


def test_period_of_a_spring() -> None:
    stiffness, masses = 30.0, np.array([0.2, 0.5])
    model = DeformableModel(particle_rest=np.array([(0.0, 0, 0), (0.6, 0.8, 0)]), spring_indices=np.array([(0, 1)]))
    inputs = inputs_for(model, particle_mass=masses, spring_material=(stiffness, 0.0, 0.9))
    period = 2 * np.pi * np.sqrt(masses.prod() / masses.sum() / stiffness)
    dt, substeps = period / 4000, 100
    rollout = simulate(model, inputs, dt=dt, substeps=substeps, frames=200)
    length = np.linalg.norm(rollout.particle_q[0, :, 1] - rollout.particle_q[0, :, 0], axis=1)
    cosine = np.mean((length[2:] + length[:-2] - 1.8)[:10] / (2 * (length[1:-1] - 0.9))[:10])
    assert abs(2 * np.pi / (np.arccos(cosine) / (substeps * dt)) / period - 1) < 1e-5
    # Five periods later it is back where it began.
    np.testing.assert_allclose(length[200], length[0], rtol=0, atol=1e-5)


def test_damped_spring_decays() -> None:
    stiffness, damping, mass = 30.0, 0.4, 0.2
    model = DeformableModel(
        particle_rest=np.array([(0.0, 0, 0), (0, 0, 1)]), spring_indices=np.array([(0, 1)]), fixed=np.array([0])
    )
    inputs = inputs_for(model, particle_mass=mass, spring_material=(stiffness, damping, 0.9))
    rate = damping / (2 * mass)
    period = 2 * np.pi / np.sqrt(stiffness / mass - rate**2)
    rollout = simulate(model, inputs, dt=period / 4000, substeps=4000, frames=3)
    decay = np.log((rollout.particle_q[0, :-1, 1, 2] - 0.9) / (rollout.particle_q[0, 1:, 1, 2] - 0.9))
    np.testing.assert_allclose(decay, rate * period, rtol=2e-3)


def test_terminal_velocity_under_drag() -> None:
    drag, density = 1.5, 0.3
    model, inputs = sheet_body(
        sheet_grid((1.0, 0.5), (2, 1)), density=density, membrane=(100.0, 100.0, 0, drag, 0), gravity=(0, 0, -GRAVITY)
    )
    terminal = np.sqrt(density * GRAVITY / drag)
    rollout = simulate(model, inputs, dt=1e-4, substeps=1000, frames=40)
    velocity = rollout.particle_qd[0, :, :, 2]
    wanted = -terminal * np.tanh(GRAVITY * 0.1 * np.arange(41) / terminal)
    np.testing.assert_allclose(velocity, wanted[:, None].repeat(velocity.shape[1], 1), rtol=0, atol=5e-4)
    np.testing.assert_allclose(velocity[-1], -terminal, rtol=1e-9)
    blown = replace(inputs, wind=np.array([[0, 0, 0.7]]))
    np.testing.assert_allclose(
        simulate(model, blown, dt=1e-4, substeps=40000).particle_qd[0, -1, :, 2], 0.7 - terminal, rtol=1e-9
    )


def test_lift_is_at_right_angles_to_the_motion() -> None:
    model, inputs = sheet_body(sheet_grid((1.0, 0.5), (2, 1)), membrane=(0, 0, 0, 0, 2.0))
    angle, speed = 0.4, 3.0
    q = model.particle_rest[None] @ turn((0, 1, 0), angle).T
    qd = np.broadcast_to(np.array([speed, 0, 0]), q.shape)
    total = forces(model, inputs, q, np.ascontiguousarray(qd))[0].sum(0)
    # The upper side looks forward: pressed down, by c A (n.u) |u| (1 - (n.u')^2)^(1/2).
    np.testing.assert_allclose(total, (0, 0, -2.0 * 0.5 * speed**2 * np.sin(angle) * np.cos(angle)), atol=1e-12)


# --- contact ------------------------------------------------------------------------------------------------------------------


def test_block_rests_on_a_slope_and_slides_on_a_steeper_one() -> None:
    mesh = box_hexes((0.2, 0.2, 0.1), (2, 2, 1))
    bottom = np.flatnonzero(mesh.vertices[:, 2] < -0.05 + 1e-9)
    friction, kf, slopes = 0.4, 500.0, np.array([0.2, 0.5])  # the angle of friction is 0.38
    model, inputs = solid_body(mesh, young=1e6, damping=100.0, elements={"contact": bottom, "ground_height": -0.05})
    inputs = worlds_at(model, inputs, 2)
    inputs.particle_contact[:] = 2e3, 50.0, kf, friction
    inputs.gravity[:] = GRAVITY * np.stack([np.sin(slopes), 0 * slopes, -np.cos(slopes)], -1)
    rollout = simulate(model, inputs, dt=2e-4, substeps=2500, frames=4)
    mass = inputs.particle_mass[0]
    velocity = np.einsum("p,btpk->btk", mass, rollout.particle_qd) / mass.sum()
    # Friction of the relaxed law gives way by a creep: all of them together carry the weight along the slope.
    creep = mass.sum() * GRAVITY * np.sin(slopes[0]) / (len(bottom) * kf)
    np.testing.assert_allclose(velocity[0, 2:, 0], creep, rtol=1e-6)
    assert np.abs(rollout.particle_qd[0, -1, :, 2]).max() < 1e-6
    acceleration = GRAVITY * (np.sin(slopes[1]) - friction * np.cos(slopes[1]))
    np.testing.assert_allclose(np.diff(velocity[1, 1:, 0]) / 0.5, acceleration, rtol=1e-4)
