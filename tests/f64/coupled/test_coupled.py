"""Deformable bodies and links that meet: conservation, rest, adjoints of every input, agreement with the single solvers."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from risp_torch import Shell
from risp_torch.scene.state import State
from tests.reference.block_scene import block_between_bodies
from tests.reference.bristle_cases import pinched
from tests.reference.contact_cases import COUPLED_FRAMES as FRAMES
from tests.reference.contact_cases import PEBBLE, at, bodies, frames_of, inputs_of
from tests.reference.deformable_cases import inputs_for, solid_body
from tests.reference.gradients_in_worlds import Point, check_torch_in_worlds, gradcheck_in_worlds
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.contact.collision import CollisionShape
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledRollout, CoupledSolver
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_tets, sheet_grid, sphere_tets
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

LINKS, PARTICLES = (tuple(field.name for field in fields(kind)) for kind in (ArticulatedInputs, DeformableInputs))


def joined(links: ArticulatedInputs, particles: DeformableInputs) -> CoupledInputs:
    return CoupledInputs(links, DeformableInputs(*(np.ascontiguousarray(array) for array in particles.arrays())))


def momenta(inputs: CoupledInputs, rollout: CoupledRollout, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Momentum and angular momentum about the origin of all particles and of links of 1 kg and 0.004 kg m2."""
    mass, at_frame = inputs.particles.particle_mass[0, :, None], {k: v[0, frame] for k, v in frames_of(rollout).items()}
    x, v = at_frame["particle_q"], at_frame["particle_qd"]
    q, qd = at_frame["body_q"], at_frame["body_qd"]
    linear = (mass * v).sum(axis=0) + qd[:, :3].sum(axis=0)
    orbital = np.cross(x, mass * v).sum(axis=0) + np.cross(q[:, :3], qd[:, :3]).sum(axis=0)
    angular = orbital + 0.004 * qd[:, 3:].sum(axis=0)
    return linear, angular


SLAB = CollisionShape("box", (0.3, 0.25, 0.05))


def three_links(*, ball: tuple[float, ...], pebble: tuple[float, ...]) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A fixed slab whose upper face is at -0.45 m, a free ball and a free pebble of a mesh, without gravity."""
    shapes = SLAB, CollisionShape("sphere", (0.1,)), PEBBLE
    links = bodies(*shapes, kinds=("fixed", "free", "free"), collision_pairs=((1, 2),))  # which never meet
    inputs = inputs_of(links, at(*ball) + at(*pebble), np.zeros(12), material=(300, 0.2, 0.6, 0.3))
    inputs.joint_frame[0, 0, 2] = -0.5
    return links, inputs


@pytest.mark.parametrize("hit", [1, 2])
def test_a_soft_ball_that_hits_a_rigid_one_keeps_both_momenta(hit: int) -> None:
    mesh = sphere_tets(0.1, 2)
    soft, particles = solid_body(
        mesh, young=2e4, density=300.0, damping=5.0, particle_q0=mesh.vertices + (0.02, 0.01, 0.23),
        particle_qd0=(0.3, 0.0, -2.0), particle_contact=(200.0, 0.1, 0.5, 0.4),
    )  # fmt: skip
    here, away = (0.0, 0.0, 0.0), (3.0, 0.0, 0.0)
    links, given = three_links(ball=here if hit == 1 else away, pebble=here if hit == 2 else away)
    inputs, model = joined(given, particles), CoupledModel(links, soft)
    rollout = CoupledSolver(model, CoupledSettings(1e-4, 600)).rollout(inputs, 1)
    before, after = (momenta(inputs, rollout, frame) for frame in (0, 1))
    assert rollout.links.body_qd[0, 1, hit, 2] < -0.3 and np.abs(rollout.links.body_qd[0, 1, hit, 3:]).max() > 0.1
    np.testing.assert_allclose(after[0], before[0], atol=1e-9)
    np.testing.assert_allclose(after[1], before[1], atol=1e-9)


def test_a_soft_block_on_a_box_sinks_by_its_weight_and_does_not_creep() -> None:
    mesh, margin, density = box_tets((0.2, 0.2, 0.1), (2, 2, 1)), 0.004, 300.0
    soft, particles = solid_body(
        mesh, young=2e4, density=density, damping=20.0, particle_q0=mesh.vertices + (0.02, 0.01, 0.05 - 0.45 + margin),
        particle_contact=(200.0, 20.0, 1.0, 0.5), gravity=(0.0, 0.0, -9.81),
    )  # fmt: skip
    links, given = three_links(ball=(3.0, 0.0, 0.0), pebble=(-3.0, 0.0, 0.0))
    below = np.flatnonzero(mesh.vertices[:, 2] < 0)
    inputs = joined(_over(given, 2), _over(particles, 2))
    rollout = CoupledSolver(CoupledModel(links, soft, below, margin), CoupledSettings(2e-4, 2500)).rollout(inputs, 2)
    x = rollout.particles.particle_q[0]
    depth = -0.45 + margin - x[2, below, 2]
    assert depth.sum() * 250.0 == pytest.approx(9.81 * density * 0.2 * 0.2 * 0.1, rel=1e-3)  # stiffness: the mean of both
    assert np.abs(x[2, below] - x[1, below]).max() < 1e-5 and np.abs(x[2, below, :2].mean(axis=0) - (0.02, 0.01)).max() < 1e-4
    assert np.abs(rollout.particles.particle_qd[0, 2]).max() < 1e-4


def _over(inputs: ArticulatedInputs | DeformableInputs, frames: int) -> ArticulatedInputs | DeformableInputs:
    """The same numbers in every frame interval."""
    names = {
        ArticulatedInputs: ("action", "servo_target", "link_wrench"),
        DeformableInputs: ("solid_actuation", "tri_actuation", "edge_actuation", "load", "prescribed_qd"),
    }[type(inputs)]
    return replace(inputs, **{name: np.repeat(getattr(inputs, name), frames, axis=1) for name in names})


def test_far_apart_both_move_as_their_own_solvers_move_them() -> None:
    model, inputs = scene()
    far = replace(inputs, particles=replace(inputs.particles, particle_q0=inputs.particles.particle_q0 + (5.0, 0.0, 0.0)))
    rollout = CoupledSolver(model, CoupledSettings(1e-3, 10)).rollout(far, 2)
    links = ArticulatedSolver(model.articulated, ArticulatedSettings(1e-3, 10)).rollout(far.links, 2)
    particles = DeformableSolver(model.deformable, DeformableSettings(1e-3, 10, plan="world")).rollout(far.particles, 2)
    for name, values in frames_of(rollout).items():
        np.testing.assert_allclose(values, getattr(links if name[0] != "p" else particles, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=7)], ids=str)
def test_links_stick_to_each_other_beside_particles(adjoint: StoreAll | Checkpoint) -> None:
    """A box between two fingers, far from the particles: motion and adjoints are those of the articulated solver."""
    links, given = pinched("box", 5.0, frames=2, off=0.004)
    soft = DeformableModel(particle_rest=np.zeros((2, 3)))
    far = inputs_for(
        soft, frames=2, particle_q0=((5.0, 0.0, 0.0), (5.2, 0.1, 0.0)), particle_qd0=(0.1, 0.0, -0.2), particle_mass=0.3,
        particle_contact=(200.0, 1.0, 2.0, 0.3),
    )  # fmt: skip
    coupled = CoupledSolver(CoupledModel(links, soft, margin=0.003), CoupledSettings(1e-3, 10))
    alone = ArticulatedSolver(links, ArticulatedSettings(1e-3, 10))
    rollout, wanted = coupled.rollout(joined(given, far), 2, adjoint=adjoint), alone.rollout(given, 2, adjoint=adjoint)
    np.testing.assert_allclose(rollout.links.body_q, wanted.body_q, rtol=0, atol=1e-13)
    seeds = [np.cos(array) for array in wanted.frame_arrays]
    soft = [np.zeros_like(array) for array in rollout.particles.frame_arrays]
    bars = coupled.rollout_adjoint(rollout, *seeds, *soft).links.named_arrays()
    assert np.abs(bars["link_bristle"]).max() > 0
    for name, array in alone.rollout_adjoint(wanted, *seeds).named_arrays().items():
        np.testing.assert_allclose(bars[name], array, rtol=1e-9, atol=1e-9, err_msg=name)


def scene() -> tuple[CoupledModel, CoupledInputs]:
    """A soft block above a fixed box, a pebble of a mesh and a ball on an arm, which all touch it; its ends touch each other."""
    rng = np.random.default_rng(0)
    mesh = box_tets((0.3, 0.3, 0.2), (1, 1, 1))
    ends = mesh.faces[np.ptp(mesh.vertices[mesh.faces][..., 2], axis=1) == 0]
    soft, particles = solid_body(
        mesh, young=3e3, density=300.0, damping=2.0, self_contact=(20.0, 0.3, 0.2, 0.3),
        elements={"fixed": np.array([7]), "contact_triangles": ends, "self_thickness": 0.25},
        particle_q0=1.02 * mesh.vertices + 0.003 * rng.standard_normal(mesh.vertices.shape), frames=2,
        particle_qd0=0.2 * rng.standard_normal(mesh.vertices.shape), gravity=(0.1, 0.2, -9.81),
    )  # fmt: skip
    particles = replace(particles, particle_contact=rng.uniform((200, 1, 2, 0.2), (300, 2, 3, 0.4), (1, len(mesh.vertices), 4)))
    tilted = (0.05, -0.1, 0.02, 1.0)
    shapes = (
        None, CollisionShape("capsule", (0.05, 0.04), (0.0, 0.01, 0.0), tilted), SLAB,
        replace(PEBBLE, position=(0.01, 0.0, 0.02), quaternion=tuple(tilted)),
    )  # fmt: skip
    links = ArticulatedModel(
        ("arm", "ball", "box", "pebble", "wheel"), (-1, 0, -1, -1, -1), ("revolute", "fixed", "fixed", "free", "revolute"),
        np.array([[0.3, 0.2, 1.0]] * 5), collision_shape=(*shapes, None), joint_coupling=((4, 0, -1.5),),
    )  # fmt: skip
    pose = np.concatenate([[0.2], [0.15, -0.14, 0.19], rng.standard_normal(4), [0.3]])
    velocity = 0.3 * rng.standard_normal(7)
    velocity = np.append(velocity, -1.5 * velocity[0])  # of the wheel, which the arm turns
    given = inputs_of(links, pose, velocity, material=(400, 2, 3, 0.2), gravity=9.81, frames=2)
    given.link_com[0, 4] = 0.05, 0.02, 0.0
    given.joint_frame[0, 0, :3] = -0.15, 0.1, 0.1
    given.joint_frame[0, 1, :3] = -0.02, 0.04, 0.05
    given.joint_frame[0, 2, :] = 0.02, 0.01, -0.14, 0.03, -0.02, 0.0, 1.0
    # Dry friction of the arm, which sticks at first and slips later.
    dry = {"dry_friction": 0.05, "dry_stiffness": 60.0, "dry_damping": 0.1, "bristle0": 5e-4}
    given = replace(given, **{f"joint_{name}": np.full_like(given.joint_qd0, value) for name, value in dry.items()})
    return CoupledModel(links, soft, margin=0.003), joined(given, particles)


def losses(model: CoupledModel, settings: CoupledSettings, frames: int) -> tuple:
    """A random linear functional of all frames: values at many points, the worlds of one rollout, and the gradient at one."""
    solver, rng, weights = CoupledSolver(model, settings), np.random.default_rng(1), {}

    def run(points: list[Point], adjoint: object = None) -> CoupledRollout:
        at = {name: np.concatenate([point[name] for point in points]) for name in points[0]}
        own = {name: at.get(f"links.{name}") for name in LINKS}, {name: at[f"particles.{name}"] for name in PARTICLES}
        rollout = solver.rollout(CoupledInputs(ArticulatedInputs(**own[0]), DeformableInputs(**own[1])), frames, adjoint=adjoint)
        for name, array in frames_of(rollout).items():
            weights.setdefault(name, rng.standard_normal((1, *array.shape[1:])))
        return rollout

    def values(points: list[Point]) -> np.ndarray:
        arrays = frames_of(run(points))
        return sum(arrays[name].reshape(len(points), -1) @ weights[name].ravel() for name in FRAMES)

    def gradient(at: Point, adjoint: object) -> Point:
        rollout = run([at], adjoint)
        return solver.rollout_adjoint(rollout, *(weights[name] for name in solver.frame_names)).named_arrays()

    return values, gradient


def test_adjoint_of_every_input_of_both_sides_and_of_checkpoints() -> None:
    model, inputs = scene()
    point = inputs.named_arrays()
    values, gradient = losses(model, CoupledSettings(1e-3, 5), 2)
    finite = [name for name, array in point.items() if array.size and np.isfinite(array).all()]
    report = gradcheck_in_worlds(
        values, lambda at: gradient(at, StoreAll()), point, names=finite, rtol=1e-5, floor=1e-4, atol=2e-8, max_entries=8,
        step=2e-6, order=2,
    )  # fmt: skip
    report.raise_if_wrong()
    reacts = {entry.name for entry in report.entries if entry.status == "ok"}
    assert {f"links.{name}" for name in ("joint_q0", "joint_qd0", "joint_frame", "link_mass", "link_contact")} <= reacts
    assert {f"particles.{name}" for name in ("particle_q0", "particle_qd0", "particle_mass", "particle_contact")} <= reacts
    assert "particles.self_contact" in reacts
    assert {f"links.joint_{name}" for name in ("dry_friction", "dry_stiffness", "dry_damping", "bristle0")} <= reacts
    stored = gradient(point, StoreAll())
    assert stored["links.link_contact"][0, 1:4].any(axis=1).all()  # every shape was touched
    for every in (3, 100):
        for name, array in gradient(point, Checkpoint(every)).items():
            np.testing.assert_allclose(array, stored[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.threads
@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=3)], ids=str)
def test_a_team_of_threads_gives_what_one_thread_gives(adjoint: StoreAll | Checkpoint) -> None:
    model, inputs = scene()
    found = {}
    for plan in ("world", "element"):
        settings = CoupledSettings(1e-3, 5, plan=plan)
        rollout = CoupledSolver(model, settings).rollout(inputs, 2)
        _, gradient = losses(model, settings, 2)
        found[plan] = frames_of(rollout) | gradient(inputs.named_arrays(), adjoint)
    assert np.any(found["world"]["links.link_contact"]) and np.any(found["world"]["particles.self_contact"])
    for name, array in found["world"].items():
        largest = np.abs(array[np.isfinite(array)]).max(initial=1e-12)
        np.testing.assert_allclose(found["element"][name], array, rtol=0, atol=1e-9 * largest, err_msg=name)


def test_a_team_names_the_particle_that_diverges() -> None:
    model, inputs = scene()
    inputs.particles.particle_qd0[0, 2] = 1e30
    marks = []
    for plan in ("world", "element"):
        rollout = CoupledSolver(model, CoupledSettings(1e-3, 5, plan=plan)).rollout(inputs, 2)
        marks.append((int(rollout.particles.diverged_step[0]), int(rollout.particles.diverged_particle[0])))
    assert marks[0] == marks[1] and marks[0][1] >= 0


def test_a_world_that_diverges_is_named_and_leaves_the_others_alone() -> None:
    model, inputs = scene()
    two = CoupledInputs(*(
        type(kind)(*(np.concatenate([array, array]) for array in kind.arrays())) for kind in (inputs.links, inputs.particles)
    ))  # fmt: skip
    two.particles.solid_material[1, :, 0] = 1e12
    solver = CoupledSolver(model, CoupledSettings(1e-3, 10))
    rollout = solver.rollout(two, 2, adjoint=StoreAll())
    alone = solver.rollout(inputs, 2)
    assert rollout.links.diverged_step[0] == -1 and 0 < rollout.links.diverged_step[1] < 20
    for name, array in frames_of(rollout).items():
        np.testing.assert_array_equal(array[0], frames_of(alone)[name][0])
        assert np.isnan(array[1, -1]).all()
    bars = solver.rollout_adjoint(rollout, *(np.ones_like(array) for array in rollout.frame_arrays))
    assert np.isfinite(bars.links.joint_q0[0]).all() and np.isnan(bars.particles.particle_q0[1]).all()
    solver.check_divergence(rollout)
    worse = replace(inputs, particles=replace(inputs.particles, solid_material=1e9 * inputs.particles.solid_material))
    with pytest.raises(DivergenceError, match=r"particle \d+ .*stopped being finite at step"):
        solver.check_divergence(solver.rollout(worse, 2))


def test_scenes_with_bodies_that_meet_particles() -> None:
    scene = block_between_bodies()
    weights: list[torch.Tensor] = []

    def losses(given: dict[str, torch.Tensor]) -> torch.Tensor:
        states = scene.rollout({name: torch.as_tensor(scene.parameters[name].value) + given[name] for name in given})
        found = (states.body_q, states.body_qd, states.particle_q, states.particle_qd)
        if not weights:
            generator = torch.Generator().manual_seed(0)
            weights.extend(torch.randn(array.shape[1:], generator=generator, dtype=array.dtype) for array in found)
        return sum((w * array).flatten(1).sum(dim=1) for w, array in zip(weights, found, strict=True))

    names = (
        "arm.angle", "arm.rate", "arm.contact.stiffness", "pebble.density", "pebble.position", "block.velocity", "block.density",
    )  # fmt: skip
    report = check_torch_in_worlds(
        losses, {name: np.zeros(np.shape(scene.parameters[name].value)) for name in names}, step=1e-6, rtol=1e-5, floor=1e-3
    )
    report.raise_if_wrong()
    assert {entry.name for entry in report.entries if abs(entry.adjoint) > 1e-6} == set(names)
    scene = block_between_bodies(is_dry=False)  # its states are those of a motion at a frame
    states = scene.rollout()
    assert states.diverged_step.shape == (1, 3) and bool(states.finite.all())
    middle = State(**{name: array[:, 1] for name, array in states.arrays().items()})
    again = scene.rollout(frames=1, state=middle)
    torch.testing.assert_close(again.particle_q[:, 1], states.particle_q[:, 2], rtol=0, atol=1e-12)


def test_a_step_too_long_for_contact_with_bodies_warns() -> None:
    particles = block_between_bodies().simulator.adapter.particles
    assert not particles.step_warnings(particles.solver)
    with pytest.warns(UserWarning, match="too long for 'block': the longest stable step of elements and contacts"):
        _ = block_between_bodies(stiffness=1e6).simulator.solver


def test_bad_input() -> None:
    model, inputs = scene()
    links, soft = model.articulated, model.deformable
    for options, words in (
        ({"particles": np.array([0, 0])}, f"must be different numbers from 0 to {soft.particle_count - 1}"),
        ({"particles": np.array([0.5])}, "give a row of whole numbers, or None for all"),
        ({"margin": -0.1}, "finite and not below zero"),
        ({"margin": np.zeros(3)}, "give one length in m"),
    ):
        with pytest.raises(UserError, match=words):
            CoupledModel(links, soft, **options)
    with pytest.raises(UserError, match="no link has a collision_shape"):
        CoupledModel(ArticulatedModel(("a",), (-1,), ("free",), np.ones((1, 3))), soft)
    cloth = {"mesh": sheet_grid((1.0, 1.0), (1, 1)), "material": Shell(mu=1, lam=1)}
    with pytest.raises(UserError, match="cloth.thickness is -1.0: give a finite number that is not negative"):
        block_between_bodies().add_cloth("cloth", **cloth, thickness=-1.0)
    solver = CoupledSolver(model, CoupledSettings(1e-3, 2))
    with pytest.raises(UserError, match="for 2 frame intervals"):
        solver.rollout(inputs, 3)
    with pytest.raises(UserError, match="frames is 0: give a whole number of at least 1"):
        solver.rollout(inputs, 0)
    twice = DeformableInputs(*(np.concatenate([array, array]) for array in inputs.particles.arrays()))
    with pytest.raises(UserError, match="there are 1 worlds of links and 2 of particles"):
        solver.rollout(CoupledInputs(inputs.links, twice), 1)
    kept_nothing = solver.rollout(inputs, 1)
    with pytest.raises(UserError, match="kept no states"):
        solver.rollout_adjoint(kept_nothing, *kept_nothing.frame_arrays)
