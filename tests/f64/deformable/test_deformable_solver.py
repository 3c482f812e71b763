"""Adjoints of every input of the deformable solver against central differences, how rollouts are kept, and bad input.

The loss is a random linear functional of all frames. Where particles touch the ground, the differences do not cross the kinks of
the law of contact: a test asserts how far every contact particle stays from the ground's height at all steps.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

from tests.reference.deformable_cases import everything, inputs_for
from ti_sim import Checkpoint, DivergenceError, StoreAll, UserError, gradcheck
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.solver import DeformableSolver

NAMES = tuple(field.name for field in fields(DeformableInputs))
FRAMES, SETTINGS = 2, DeformableSettings(dt=2e-3, substeps=3, plan="world")
ENERGY = ("corotated",)  # as in the tests against the reference, which compile the same kernels


def weights_of(rollout: DeformableRollout) -> tuple[np.ndarray, np.ndarray]:
    """A random linear functional of all frames."""
    draw = np.random.default_rng(3)
    return draw.normal(size=rollout.particle_q.shape), draw.normal(size=rollout.particle_qd.shape)


def loss_of(rollout: DeformableRollout) -> float:
    """The functional's value."""
    q_bar, qd_bar = weights_of(rollout)
    return float((q_bar * rollout.particle_q).sum() + (qd_bar * rollout.particle_qd).sum())


def gradient_of(solver: DeformableSolver, inputs: DeformableInputs, adjoint: StoreAll | Checkpoint) -> dict[str, np.ndarray]:
    """Its gradient by the adjoint."""
    rollout = solver.rollout(inputs, FRAMES, adjoint=adjoint)
    bars = solver.rollout_adjoint(rollout, *weights_of(rollout))
    return {name: getattr(bars, name) for name in NAMES}


def clear_of_the_ground(model: DeformableModel, inputs: DeformableInputs) -> float:
    """Least distance of a contact particle to the ground's height at any step [m]."""
    steps = FRAMES * SETTINGS.substeps
    every_step = replace(
        inputs,
        **{
            name: np.repeat(getattr(inputs, name), SETTINGS.substeps, axis=1)
            for name in ("solid_actuation", "tri_actuation", "edge_actuation", "load", "prescribed_qd")
        },
    )
    rollout = DeformableSolver(model, DeformableSettings(dt=SETTINGS.dt, substeps=1, plan="world")).rollout(every_step, steps)
    return float(np.abs(rollout.particle_q[:, :, model.contact, 2] - model.ground_height).min())


@pytest.mark.parametrize("touching", [True, False])
def test_gradient_of_every_input(touching: bool) -> None:
    model, inputs = everything(worlds=1, frames=FRAMES, energies=ENERGY)
    model = replace(model, ground_height=0.3 if touching else -50.0)
    assert clear_of_the_ground(model, inputs) > 1e-3
    solver = DeformableSolver(model, SETTINGS)

    def loss_and_gradient(point: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        at = DeformableInputs(**point)
        return loss_of(solver.rollout(at, FRAMES)), gradient_of(solver, at, StoreAll())

    point = {name: getattr(inputs, name) for name in NAMES}
    gradient = gradient_of(solver, inputs, StoreAll())
    seen = {name for name in NAMES if np.any(gradient[name])}
    assert seen == set(NAMES) - {"self_contact"} - (set() if touching else {"particle_contact"})
    report = gradcheck(
        loss_and_gradient, point, loss=lambda at: loss_of(solver.rollout(DeformableInputs(**at), FRAMES)), max_entries=7,
        step=1e-4, rtol=1e-5, atol=1e-7, min_observable=70,
    )  # fmt: skip
    report.raise_if_wrong()
    # Every entry at once: dense random directions.
    draw = np.random.default_rng(5)
    for name in NAMES:
        direction = draw.normal(size=point[name].shape)
        directional = gradcheck(
            lambda at, name=name, direction=direction: (
                loss_of(solver.rollout(replace(inputs, **{name: point[name] + at["s"] * direction}), FRAMES)),
                {"s": np.float64((gradient[name] * direction).sum())},
            ),
            {"s": np.float64(0.0)}, step=1e-5, rtol=1e-5, atol=1e-7, min_observable=0,
        )  # fmt: skip
        directional.raise_if_wrong()


@pytest.mark.parametrize("every", [1, 4, 100])
def test_checkpoints_give_the_gradient_of_all_states(every: int) -> None:
    model, inputs = everything(frames=FRAMES, energies=ENERGY)
    solver = DeformableSolver(model, SETTINGS)
    wanted, found = gradient_of(solver, inputs, StoreAll()), gradient_of(solver, inputs, Checkpoint(every))
    for name in NAMES:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-11, atol=1e-11 * np.abs(wanted[name]).max(initial=0))
    kept = solver.rollout(inputs, FRAMES, adjoint=Checkpoint(every)).states
    assert kept.shape[1] == FRAMES * SETTINGS.substeps // every + 1


def test_a_rollout_of_one_step_with_checkpoints_farther_apart() -> None:
    model, inputs = everything(worlds=1, frames=1, energies=ENERGY)
    solver = DeformableSolver(model, replace(SETTINGS, substeps=1))
    bars = []
    for adjoint in (StoreAll(), Checkpoint(5)):
        rollout = solver.rollout(inputs, 1, adjoint=adjoint)
        bars.append(solver.rollout_adjoint(rollout, *weights_of(rollout)))
    np.testing.assert_array_equal(bars[0].particle_q0, bars[1].particle_q0)


def test_worlds_do_not_depend_on_each_other() -> None:
    model, inputs = everything(worlds=3, frames=FRAMES, energies=ENERGY)
    solver = DeformableSolver(model, SETTINGS)
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    q_bar, qd_bar = weights_of(rollout)
    bars = solver.rollout_adjoint(rollout, q_bar, qd_bar)
    for b in range(3):
        single = DeformableInputs(*(np.ascontiguousarray(array[b : b + 1]) for array in inputs.arrays()))
        alone = solver.rollout(single, FRAMES, adjoint=StoreAll())
        np.testing.assert_array_equal(alone.particle_q[0], rollout.particle_q[b])
        own = solver.rollout_adjoint(alone, np.ascontiguousarray(q_bar[b : b + 1]), np.ascontiguousarray(qd_bar[b : b + 1]))
        for name in NAMES:
            np.testing.assert_array_equal(getattr(own, name)[0], getattr(bars, name)[b])


def test_held_particles_do_as_told() -> None:
    model, inputs = everything(worlds=1, frames=FRAMES, energies=ENERGY)
    rollout = DeformableSolver(model, SETTINGS).rollout(inputs, FRAMES)
    start, seconds = inputs.particle_q0[0], SETTINGS.dt * SETTINGS.substeps
    for frame in range(1, FRAMES + 1):
        np.testing.assert_array_equal(rollout.particle_q[0, frame, model.fixed], start[model.fixed])
        moved = start[model.prescribed] + seconds * inputs.prescribed_qd[0, :frame].sum(0)
        np.testing.assert_allclose(rollout.particle_q[0, frame, model.prescribed], moved, rtol=1e-12)
        np.testing.assert_array_equal(rollout.particle_qd[0, frame, model.prescribed], inputs.prescribed_qd[0, frame - 1])


def spring_pair() -> tuple[DeformableModel, DeformableInputs]:
    """Two worlds of a spring between a fixed particle and a free one, in the second of which it is too stiff for the step."""
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [1.0, 0, 0]]), spring_indices=np.array([[0, 1]]), fixed=np.array([0]),
        parts=(("wall", 0, 1), ("weight", 1, 2)),
    )  # fmt: skip
    material = np.array([[[10.0, 0, 0.9]], [[1e7, 0, 0.9]]])
    return model, inputs_for(model, worlds=2, frames=40, spring_material=material)


@pytest.mark.parametrize("plan", ["world", "element"])
def test_a_diverging_world_is_marked_and_the_others_go_on(plan: str) -> None:
    model, inputs = spring_pair()
    solver = DeformableSolver(model, DeformableSettings(dt=1e-2, substeps=5, plan=plan))
    rollout = solver.rollout(inputs, 40, adjoint=StoreAll())
    assert rollout.diverged_step[0] == -1 and rollout.diverged_particle[0] == -1
    step = int(rollout.diverged_step[1])
    assert step > 0 and rollout.diverged_particle[1] == 1
    first_lost = (step - 1) // 5 + 1
    assert np.isfinite(rollout.particle_q[0]).all() and np.isfinite(rollout.particle_q[1, :first_lost]).all()
    assert np.isnan(rollout.particle_q[1, first_lost:]).all() and np.isnan(rollout.particle_qd[1, first_lost:]).all()
    bars = solver.rollout_adjoint(rollout, np.ones_like(rollout.particle_q), np.ones_like(rollout.particle_qd))
    for array in bars.arrays():
        assert np.isfinite(array[0]).all() and np.isnan(array[1]).all()
    solver.check_divergence(rollout)  # one world is left

    lost = DeformableInputs(*(np.ascontiguousarray(array[1:]) for array in inputs.arrays()))
    with pytest.raises(DivergenceError, match=rf"particle 0 of 'weight' \(a corner of spring 0.*at step {step} ") as error:
        solver.check_divergence(solver.rollout(lost, 40))
    assert error.value.step == step and error.value.body == "weight"


def test_particles_without_elements_fall_freely() -> None:
    model = DeformableModel(particle_rest=np.zeros((1, 3)))
    inputs = inputs_for(model, frames=3, gravity=(0, 0, -10.0), particle_qd0=(1.0, 0, 2.0))
    for plan in ("world", "element"):
        solver = DeformableSolver(model, DeformableSettings(dt=0.1, substeps=2, plan=plan))
        rollout = solver.rollout(inputs, 3, adjoint=StoreAll())
        k = np.arange(0, 7, 2)
        np.testing.assert_allclose(rollout.particle_q[0, :, 0, 2], 0.2 * k - 0.05 * k * (k + 1), atol=1e-12)
        last = np.zeros_like(rollout.particle_q)
        last[:, -1, :, 2] = 1.0
        bars = solver.rollout_adjoint(rollout, last, 0 * last)
        np.testing.assert_allclose(bars.gravity[0], (0, 0, 0.21), atol=1e-12)
        np.testing.assert_allclose(bars.particle_qd0[0, 0], (0, 0, 0.6), atol=1e-12)


BAD_INPUTS = {
    "actuation": ("solid_actuation", (0, 0, 3), np.nan, "solid_actuation of tetrahedron 3 in frame 0 of world 0 is not"),
    "load": ("load", (0, 1, 2, 0), np.inf, r"load of particle 2 in frame 1 of world 0 is not finite"),
    "position": ("particle_q0", (1, 5, 0), np.nan, r"particle_q0 of particle 5 of world 1 is not finite"),
    "gravity": ("gravity", (1, 2), np.nan, r"gravity of world 1 is not finite"),
    "mass": ("particle_mass", (0, 7), 0.0, r"particle 7 has a mass of 0 kg in world 0"),
    "damping": ("solid_material", (0, 8, 2), -1.0, r"the damping of hexahedron 2 is -1 in world 0: it must not be negative"),
    "drag": ("tri_material", (0, 1, 3), -1.0, r"the drag of triangle 1 is -1 in world 0"),
    "rest": ("spring_material", (1, 0, 2), -0.5, r"the rest length of spring 0 is -0.5 in world 1"),
    "friction": ("particle_contact", (0, 4, 3), -0.5, r"the friction of particle 4 is -0.5 in world 0"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_numbers_that_no_simulation_begins_with(case: str) -> None:
    name, index, value, message = BAD_INPUTS[case]
    model, inputs = everything()
    array = getattr(inputs, name).copy()
    array[index] = value
    with pytest.raises(UserError, match=message):
        DeformableSolver(model, SETTINGS).rollout(replace(inputs, **{name: array}), FRAMES)


def test_shapes_and_options_that_do_not_fit() -> None:
    model, inputs = everything()
    solver = DeformableSolver(model, SETTINGS)
    with pytest.raises(UserError, match=r"solid_actuation has shape \(2, 2, 11\), and \(2, 2, 12\) is needed"):
        solver.rollout(replace(inputs, solid_actuation=inputs.solid_actuation[:, :, 1:]), FRAMES)
    with pytest.raises(UserError, match="float32"):
        solver.rollout(replace(inputs, wind=inputs.wind.astype(np.float32)), FRAMES)
    with pytest.raises(UserError, match="frames=3, and there are loads and actuations for 2 frame intervals"):
        solver.rollout(inputs, 3)
    with pytest.raises(UserError, match="frames is 0: give a whole number of at least 1"):
        solver.rollout(inputs, 0)
    with pytest.raises(UserError, match=r"more than an array can hold: use Checkpoint\(every=2449\)"):
        DeformableSolver(model, replace(SETTINGS, substeps=3_000_000)).rollout(inputs, FRAMES, adjoint=StoreAll())
    with pytest.raises(UserError, match="not contiguous"):
        solver.rollout(replace(inputs, gravity=np.asfortranarray(inputs.gravity)), FRAMES)
    with pytest.raises(UserError, match="dt is 0.0: give a finite number above zero"):
        DeformableSettings(dt=0.0, substeps=1)
    with pytest.raises(UserError, match="plan 'fast' is unknown"):
        DeformableSettings(dt=1.0, substeps=1, plan="fast")
    rest = spring_pair()[0].particle_rest
    with pytest.raises(UserError, match="kept no states"):
        pair, pair_inputs = spring_pair()
        pair_solver = DeformableSolver(pair, SETTINGS)
        plain = pair_solver.rollout(pair_inputs, 1)
        pair_solver.rollout_adjoint(plain, plain.particle_q, plain.particle_qd)
    for change, message in (
        ({"spring_indices": np.array([[0, 2]])}, r"spring_indices\[0\] names particle 2, and there are particles 0 to 1"),
        ({"spring_indices": np.array([[1, 1]])}, r"spring_indices\[0\] names a particle twice"),
        ({"spring_indices": np.array([0, 1])}, r"spring_indices has shape \(2,\)"),
        ({"fixed": np.array([2])}, "fixed names particle 2"),
        ({"loaded": np.array([1, 1])}, "loaded names particle 1 twice"),
        ({"fixed": np.array([1]), "prescribed": np.array([1])}, "particle 1 is fixed and has a prescribed velocity"),
        ({"solid_energy": ("corotated",)}, "solid_energy holds 1 names for 0 solids"),
        ({"particle_rest": rest * np.nan}, "the rest position of particle 0 is not finite"),
    ):
        with pytest.raises(UserError, match=message):
            DeformableModel(**({"particle_rest": rest} | change))
    with pytest.raises(UserError, match="'jelly' is unknown"):
        replace(model, solid_energy=("jelly",) * 12)
    with pytest.raises(UserError, match=r"tri_normal\[3\] has length 2"):
        replace(model, tri_normal=2 * model.tri_normal)
    flat = model.particle_rest.copy()
    flat[:24] = flat[0]
    with pytest.raises(UserError, match="tetrahedron 0 is flat at rest"):
        replace(model, particle_rest=flat)
