"""Self-contact in the plans of the solver, in scenes, and over long times: lists, momentum, folds, bad input."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from risp_torch import Bending, Contact, Elastic, Scene, Shell, Springs, Start
from tests.reference.deformable_cases import inputs_for, sheet_body
from tests.reference.self_contact import piercings
from ti_sim import Checkpoint, StoreAll, UserError, stable_step
from ti_sim.base.parallel import thread_count
from ti_sim.base.runtime import require
from ti_sim.base.teams import cpu_team
from ti_sim.deformable import element_plan, self_contact_tables
from ti_sim.deformable import solver as solver_module
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes import box_tets, sheet_grid

FRAMES = 2
NAMES = tuple(field.name for field in fields(DeformableInputs))
CONTACT = Contact(stiffness=2000.0, damping=5.0, friction_stiffness=1.0, friction=0.3)


def two_sheets(*, worlds: int = 2) -> tuple[DeformableModel, DeformableInputs]:
    """A crumpled sheet that falls on another one, with friction; nothing holds them."""
    draw = np.random.default_rng(0)
    top, low = sheet_grid((0.6, 0.6), (3, 3)), sheet_grid((0.7, 0.5), (3, 2))
    count = len(top.vertices)
    triangles = np.concatenate([top.triangles, low.triangles + count])
    rest = np.concatenate([top.vertices + (0, 0, 0.08), low.vertices])
    sheets = type(top)(rest, triangles)
    falls = (np.arange(len(rest)) < count)[:, None] * (-0.5, 0.0, -1.0)
    return sheet_body(
        sheets, density=1.0, membrane=(20.0, 20.0, 0.01, 0, 0), rigidity=1e-2, worlds=worlds, frames=FRAMES,
        elements={"contact_triangles": triangles, "self_thickness": 0.1},
        particle_q0=rest + draw.uniform(-0.02, 0.02, (worlds, len(rest), 3)),
        particle_qd0=0.3 * draw.normal(size=(worlds, len(rest), 3)) + falls, gravity=(0.0, 0.0, -9.81),
        self_contact=(200.0, 0.3, 0.2, 0.4),
    )  # fmt: skip


def run(
    model: DeformableModel, inputs: DeformableInputs, plan: str, adjoint: StoreAll | Checkpoint | None = None
) -> dict[str, np.ndarray]:
    """Frames and adjoints of a random linear functional of them."""
    solver = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=10, plan=plan))
    rollout = solver.rollout(inputs, FRAMES, adjoint=adjoint or StoreAll())
    draw = np.random.default_rng(1)
    bars = solver.rollout_adjoint(rollout, *(draw.normal(size=rollout.particle_q.shape) for _ in range(2)))
    frames = {"particle_q": rollout.particle_q, "particle_qd": rollout.particle_qd}
    return frames | {name: getattr(bars, name) for name in NAMES}


def on_cpu() -> bool:
    return require().device == "cpu"


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], rtol: float) -> None:
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=rtol * np.abs(array).max(initial=0), err_msg=name)


def test_plans_and_checkpoints_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = two_sheets()
    wanted = run(model, inputs, "world")
    free = run(model, replace(inputs, self_contact=0 * inputs.self_contact), "world")
    assert np.abs(wanted["particle_q"] - free["particle_q"]).max() > 0.05 and wanted["self_contact"].all()
    for copies in (2, 0) if on_cpu() else (0,):  # copies are for threads of a CPU
        monkeypatch.setattr(element_plan, "copy_count", lambda copies=copies: copies)
        for adjoint in (StoreAll(), Checkpoint(4)):
            assert_same(run(model, inputs, "element", adjoint), wanted, 1e-12)
    if on_cpu():  # one group for all worlds, as the grid of a GPU
        monkeypatch.setattr(solver_module, "element_team", lambda *_: cpu_team(1, 1))
        assert_same(run(model, inputs, "element", StoreAll()), wanted, 1e-12)
    assert_same(run(model, inputs, "world", Checkpoint(4)), wanted, 1e-12)


@pytest.mark.threads
def test_no_bit_depends_on_lists_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another skin, other cells, lists with room for a single pair, and the size of the team change nothing; on a GPU, where sums
    of atomics come in any order, nothing but rounding.
    """
    if on_cpu():
        monkeypatch.setattr(element_plan, "copy_count", lambda: 2)
    model, inputs = two_sheets(worlds=1)
    wanted = {plan: run(model, inputs, plan) for plan in ("world", "element")}
    for threads in sorted({1, min(2, thread_count())}) if on_cpu() else (1,):
        monkeypatch.setattr(element_plan, "threads_per_world", lambda worlds, threads=threads: threads)
        for name, value in (
            ("PAIRS_PER_TRIANGLE", 0), ("_SKIN_OF_EDGE", 1e-6), ("_SKIN_OF_EDGE", 3.0), ("_CELL_OF_EDGE", 1e-2)
        ):  # fmt: skip
            with monkeypatch.context() as patch:
                patch.setattr(self_contact_tables, name, value)
                for plan, arrays in wanted.items():
                    assert_same(run(model, inputs, plan), arrays, 0.0 if on_cpu() else 1e-11)  # summed in any order


@pytest.mark.parametrize("friction", [0.0, 0.4])
def test_momentum_is_kept_and_without_friction_angular_momentum_too(friction: float) -> None:
    model, inputs = two_sheets()
    given = np.array([[200.0, 0.3, 0.2 * (friction > 0), friction]] * 2)
    inputs = replace(inputs, self_contact=given, gravity=0 * inputs.gravity)
    rollout = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=10, plan="world")).rollout(inputs, FRAMES)
    momentum = inputs.particle_mass[:, None, :, None] * rollout.particle_qd
    total, turning = momentum.sum(2), np.cross(rollout.particle_q, momentum).sum(2)
    np.testing.assert_allclose(total - total[:, :1], 0, atol=1e-14)
    change = np.abs(turning - turning[:, :1]).max()
    assert change < 1e-14 if friction == 0 else 1e-7 < change < 1e-2


def thrown_strip() -> tuple[DeformableModel, DeformableInputs]:
    """A strip that lies on a table of two triangles, half of it thrown over the other half; world 1 does not feel itself."""
    mesh, thickness = sheet_grid((0.4, 0.05), (16, 2)), 0.012
    table = np.array([(-1.0, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)])
    count = len(mesh.vertices)
    triangles = np.vstack([mesh.triangles, np.array([(0, 1, 2), (0, 2, 3)]) + count])
    rest = np.vstack([mesh.vertices + (0, 0, thickness), table])
    qd = np.zeros((len(rest), 3))
    qd[:count, 2] = 13.0 * np.maximum(-mesh.vertices[:, 0], 0.0)
    model, inputs = sheet_body(
        type(mesh)(rest, triangles), density=0.2, membrane=(100.0, 100.0, 0.05, 0, 0), rigidity=1e-4, frames=250, worlds=2,
        elements={"contact_triangles": triangles, "self_thickness": thickness, "fixed": np.arange(count, count + 4)},
        particle_qd0=qd, gravity=(0.0, 0.0, -9.81), self_contact=(50.0, 0.02, 0.02, 0.6),
    )  # fmt: skip
    inputs.self_contact[1] = 0.0
    return model, inputs


def test_a_strip_that_folds_lies_on_itself_after_five_seconds() -> None:
    model, inputs = thrown_strip()
    rollout = DeformableSolver(model, DeformableSettings(dt=2.5e-4, substeps=80, plan="world")).rollout(inputs, 250)
    triangles, (q, through) = model.contact_triangles, rollout.particle_q
    # Frames are 20 ms apart: no edge could pass a triangle in between and leave no other one in it.
    assert not any(piercings(triangles, at) for at in q[::2])
    assert any(piercings(triangles, at) for at in through[:20:2])
    assert np.abs(rollout.particle_qd[0, -1]).max() < 0.05  # the bend still trembles
    end, rest = q[-1], model.particle_rest[:51]
    lower, thrown = end[:51][rest[:, 0] > 0.05], end[:51][rest[:, 0] < -0.05]
    over = (thrown[:, 0] > lower[:, 0].min() + 0.02) & (thrown[:, 0] < lower[:, 0].max() - 0.02)
    assert over.sum() > 5 and (thrown[over, 2] > 1.8 * model.self_thickness).all()
    assert (lower[:, 2] < 1.2 * model.self_thickness).all() and (end[:51, 2] > 0.9 * model.self_thickness).all()


def test_stable_step_counts_self_contact() -> None:
    """Two sheets of points, each both vertex and corner: the fastest mode is that of both sheets against each other."""
    triangle = np.array([(0.0, 0, 0), (1, 0, 0), (0, 1, 0)])
    model = DeformableModel(
        particle_rest=np.vstack([triangle, triangle + (0, 0, 0.09)]), contact_triangles=np.array([(0, 1, 2), (3, 4, 5)]),
        self_thickness=0.1,
    )  # fmt: skip
    inputs = inputs_for(model, particle_mass=0.25, self_contact=(100.0, 0, 0, 0))
    limit = stable_step(model, inputs)
    assert limit == pytest.approx(2 / np.sqrt(4 * 100.0 / 0.25), rel=1e-3)


def blocks(*, gap: float = 0.01) -> Scene:
    """A small block that comes down inside of one triangle of the top of a fixed one."""
    scene = Scene(frame_dt=0.5, frames=1, substeps=1500)
    rubber = Elastic(E=2e4, nu=0.3, damping=100.0)
    scene.add_solid(
        "lower", mesh=box_tets((1.0, 1.0, 0.2), (1, 1, 1)), material=rubber, density=300.0,
        fixed=lambda x: np.ones(len(x), dtype=bool),
    )  # fmt: skip
    scene.add_solid(
        "upper",
        mesh=box_tets((0.1, 0.1, 0.1), (1, 1, 1)),
        material=rubber,
        density=300.0,
        start=Start(position=(0.3, 0.08, 0.15 + gap)),
    )
    return scene


def test_a_block_rests_on_another_one() -> None:
    scene = blocks()
    scene.add_self_contact(contact=CONTACT, thickness=0.01)
    states = scene.rollout()
    x = states.particle_q[0, -1].cpu().numpy()
    low = x[8:][scene.deformables[1].rest[:, 2] < 0]
    depth = 0.1 + 0.01 - low[:, 2]
    assert depth.sum() * 2000.0 == pytest.approx(9.81 * 300.0 * 1e-3, rel=1e-3)  # every vertex touches one triangle
    assert np.abs(states.particle_qd[0, -1].cpu().numpy()).max() < 1e-3


def cloths() -> Scene:
    """A cloth above another one."""
    scene = Scene(frame_dt=0.02, frames=2, substeps=20)
    for name, height in (("lower", 0.0), ("upper", 0.095)):
        scene.add_cloth(
            name, mesh=sheet_grid((0.6, 0.6), (3, 3)),
            material=Shell(mu=20.0, lam=20.0, damping=0.01, bending=Bending(stiffness=1e-2)), density=1.0,
            start=Start(position=(0.0, 0.05, height), velocity=(height, 0.0, -10 * height)),
        )  # fmt: skip
    return scene


def test_scene_gives_gradients_of_self_contact() -> None:
    scene = cloths()
    soft = Contact(stiffness=50.0, damping=0.3, friction_stiffness=0.2, friction=0.3)
    scene.add_self_contact(contact=soft, thickness=0.1, bodies=("lower", "upper"))
    names = [name for name in scene.parameters if name.startswith("self_contact")]
    assert names == [f"self_contact.{field}" for field in ("stiffness", "damping", "friction_stiffness", "friction")]

    def height(stiffness: torch.Tensor) -> torch.Tensor:
        return scene.rollout({"self_contact.stiffness": stiffness}).particle_q[0, -1, 16:, 2].sum()

    stiffness = torch.tensor([50.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(height(stiffness), stiffness)
    with torch.no_grad():
        difference = (height(stiffness + 1e-3) - height(stiffness - 1e-3)) / 2e-3
    assert float(slope) == pytest.approx(float(difference), rel=1e-5) and float(slope) > 1e-4
    assert scene.description()["self_contact"] == [["lower", "upper"], 0.1] and "self_contact" not in cloths().description()


def test_bad_input() -> None:
    def add(scene: Scene, **options: object) -> None:
        scene.add_self_contact(**{"contact": CONTACT, "thickness": 0.01} | options)

    twice = blocks()
    add(twice)
    netted = blocks()
    netted.add_springs("net", points=np.eye(3), springs=Springs(indices=[(0, 1)], stiffness=1.0), mass=1.0)
    flat = blocks()
    flat.add_flat_body("slice", mesh=sheet_grid((1.0, 1.0), (1, 1)), material=Elastic(E=1e3, nu=0.3), density=1.0)
    lying = blocks(gap=0.0)
    fine = Scene(frame_dt=0.1, frames=1, substeps=10)
    fine.add_cloth("cloth", mesh=sheet_grid((1.0, 1.0), (10, 10)), material=Shell(mu=1.0, lam=1.0), density=1.0)
    for scene, options, words in (
        (Scene(frame_dt=0.1, frames=1, substeps=1), {}, "needs deformable bodies, and the scene has none yet"),
        (blocks(), {"bodies": ["lover"]}, "deformable body 'lover'.*lower"),
        (blocks(), {"bodies": []}, "self-contact names no body"),
        (blocks(), {"thickness": 0.0}, "add_self_contact: thickness is 0.0: give a finite number above zero"),
        (twice, {}, "has self-contact already: call add_self_contact once"),
        (netted, {}, "net cannot take part in self-contact: it is made of springs"),
        (flat, {}, "slice cannot take part in self-contact: it is made of a flat body"),
        (fine, {"thickness": 0.2}, r"in the rest shape of 'cloth' vertex \d+ is 0.14\d m from triangle .*give a smaller thick"),
    ):
        with pytest.raises(UserError, match=words):
            add(scene, **options)
    add(lying)
    with pytest.raises(UserError, match=r"vertex \d of 'upper' starts .* m from triangle \[.*\] of 'lower'"):
        lying.rollout()
    model, inputs = two_sheets()
    with pytest.raises(UserError, match="self_thickness is 0.0 m"):
        replace(model, self_thickness=0.0)
    solver = DeformableSolver(model, DeformableSettings(dt=1e-3, substeps=1))
    inputs.self_contact[1, 3] = -0.5
    with pytest.raises(UserError, match="the friction of self-contact is -0.5 in world 1"):
        solver.rollout(inputs, 1)
    inputs.self_contact[1, 3] = np.nan
    with pytest.raises(UserError, match="self_contact of world 1 is not finite"):
        solver.rollout(inputs, 1)
