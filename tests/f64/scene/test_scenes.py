"""Scenes: gradients of whole films against central differences, every kind of body, the table of parameters, errors.

A difference of film losses is a ratio of two small numbers: the loss carries the roundoff of hundreds of steps and of all
pixels, measured below 1e-13 of itself, and the step is 1e-6 of a range. Gradients are therefore compared to 1e-5 of their size
(or of the floor below which a number is not observable), plus 1e-7 of the loss, a tenth of that floor.

A film has kinks: a pixel that comes within the cut-off distance of a near face's edge, in front of a farther face, begins at
once to take the near face's colour (``RasterSettings.composite``), and a contact that begins, ends, slips or sticks. The adjoint
differentiates the smooth piece at the point itself. Where a kink lies between the points of a difference, which shows as a
mismatch, the difference is taken again over smaller steps, with the roundoff that belongs to it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch

import risp_torch.inversion.diagnostics.gradient_check
import scenes
from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    Capsule,
    Checkpoint,
    Cone,
    Contact,
    Cylinder,
    DirectionalLight,
    Mesh,
    Param,
    Scene,
    SolverOptions,
    Sphere,
    Start,
    Surface,
    UserError,
    check_film_gradient,
    check_torch,
    load_scene,
    scene_names,
)
from risp_torch.control import load_control
from risp_torch.inversion.diagnostics.gradient_check import ShiftedFilmLoss
from risp_torch.scene import time_stepping
from tests.reference.folders import SCENE_ASSETS as ASSETS
from tests.reference.gradients_in_worlds import check_torch_in_worlds
from tests.reference.numpy_smoke import most_beyond
from tests.reference.small_scenes import COLORS, make_scene
from ti_sim import Shape, mass_properties
from ti_sim.base import rules
from ti_sim.rollout.time_steps import ExplicitIntegrator

RTOL = 1e-5
FLOOR = 1e-6  # of the loss, per range
ROUNDOFF = 1e-13  # of the loss
STEPS = (1e-6, 1e-7, 1e-8)  # of the range
STEP = STEPS[0]
CONTACT_NAMES = [f"ground.contact.{field}" for field in ("stiffness", "damping", "friction_stiffness", "friction")]

# Starts just above the ground, so that a film of a few frames has the contact in it.
STARTS = {
    ("cube", "contact"): {"die.position": (0.0, 0.0, 0.028), "die.velocity": (0.3, 0.0, -0.8)},
    ("toss", "contact"): {
        "body.position": (-0.02, 0.0, 0.035), "body.velocity": (0.02, 0.0, -0.3), "body.angular_velocity": (0.0, 0.3, 0.1),
    },
    ("cube", "flight"): {},
    ("toss", "flight"): {},
}  # fmt: skip
FRAMES = 6


def short_film(name: str, regime: str) -> Scene:
    """A shipped scene in 32 pixels that starts in flight or just above the ground."""
    scene = load_scene(name, size=32)
    for parameter, value in STARTS[name, regime].items():
        scene.set(parameter, value)
    return scene


def check_film(
    scene: Scene, names: Sequence[str], frames: int | None = None, *, steps: Sequence[float] = STEPS
) -> set[str]:
    """Assert that the film's gradient is right; the parameters of which something can be seen."""
    seen: set[str] = set()
    wrong: dict[str, str] = {}
    for step in steps:
        first = step == steps[0]
        names = names if first else list(dict.fromkeys(label.split("[")[0] for label in wrong))
        if not names:
            break
        losses = ShiftedFilmLoss(scene, names, frames=frames)
        with torch.no_grad():
            loss = float(losses({name: torch.from_numpy(zeros)[None] for name, zeros in losses.origin.items()}))
        assert loss > 1e-6
        report = check_torch_in_worlds(losses, losses.origin, step=step, order=4, floor=FLOOR * loss)
        for entry in report.entries:
            error, size, label = abs(entry.adjoint - entry.difference), abs(entry.difference), f"{entry.name}{list(entry.index)}"
            tolerance = RTOL * max(size, FLOOR * loss) + ROUNDOFF * loss / step
            if first and size > FLOOR * loss:
                seen.add(entry.name.split("[")[0])
            if error <= tolerance and (first or tolerance <= 1e-3 * size):
                wrong.pop(label, None)
            elif first or label in wrong:
                wrong[label] = f"{label}: {entry.adjoint:.9e} against {entry.difference:.9e}, loss {loss:.3e}"
    assert not wrong, "\n".join(wrong.values())
    return seen


@pytest.mark.parametrize("regime", ["flight", "contact"])
@pytest.mark.parametrize("name", ["cube", "toss"])
def test_film_gradient_of_every_parameter(name: str, regime: str) -> None:
    scene = short_film(name, regime)
    names = [n for n, param in scene.parameters.items() if np.size(param.value) < 100]
    seen = check_film(scene, names, FRAMES)
    without_effect = {"background.color"}  # the camera looks down: ground fills the picture
    if regime == "flight":
        without_effect |= {*CONTACT_NAMES}
        if name == "cube":
            without_effect |= {"die.density"}  # all bodies fall alike
    assert seen == set(names) - without_effect


@pytest.mark.parametrize("name", ["cube", "toss"])
def test_parameters_without_effect_have_no_gradient_at_all(name: str) -> None:
    entries, _ = check_film_gradient(short_film(name, "flight"), CONTACT_NAMES, frames=3)
    assert [(entry.gradient, entry.difference) for entry in entries] == [(0.0, 0.0)] * 4


@pytest.mark.parametrize("name", ["cube", "toss"])
def test_film_gradient_of_the_unknowns_over_the_whole_film(name: str) -> None:
    scene = load_scene(name, size=32)
    assert check_film(scene, scene.unknowns, steps=STEPS[-1:]) == set(scene.unknowns)  # many kinks: the smallest step at once


def test_film_gradient_of_many_face_colors() -> None:
    scene = short_film("toss", "flight")
    with torch.no_grad():
        states = scene.rollout(frames=1)

    def loss(at: dict[str, torch.Tensor]) -> torch.Tensor:
        return (scene.render(states, {"body.face_colors": at["colors"]}) ** 2).sum()

    point = {"colors": scene.parameters["body.face_colors"].value}
    # The loss is a square of the colours: any step is exact.
    check_torch(loss, point, max_entries=24, floor=1e-6, min_observable=8, step=1e-2).raise_if_wrong()


@pytest.mark.parametrize("regime", ["flight", "contact"])
@pytest.mark.parametrize("name", ["cube", "toss"])
def test_state_gradient_of_every_physical_parameter(name: str, regime: str) -> None:
    scene = short_film(name, regime)
    body = scene.bodies[0].name
    names = [n for n in scene.parameters if n.startswith((body, "ground.contact", "gravity", "push")) and "color" not in n]
    assert check_states(scene, names, FRAMES) == set(names) - (set(CONTACT_NAMES) if regime == "flight" else set()) - (
        {"die.density"} if (name, regime) == ("cube", "flight") else set()
    )


def check_states(scene: Scene, names: Sequence[str], frames: int) -> set[str]:
    """Assert that the gradient of a random sum of all states is right; the parameters on which it depends."""
    generator = torch.Generator().manual_seed(3)
    shape = (1, frames + 1, len(scene.bodies))
    weights = [torch.randn((*shape, size), generator=generator, dtype=torch.float64) for size in (7, 6)]
    # Each number in units of its own size.
    units = {n: np.maximum(np.abs(scene.parameters[n].value), 1e-2) for n in names}

    def losses(at: dict[str, torch.Tensor]) -> torch.Tensor:
        given = {n: torch.as_tensor(scene.parameters[n].value) + torch.as_tensor(units[n]) * at[n] for n in names}
        states = scene.rollout(given, frames=frames)
        arrays = (states.body_q, states.body_qd)
        return sum((weight * array).flatten(1).sum(dim=1) for weight, array in zip(weights, arrays, strict=True))

    point = {n: np.zeros(np.shape(scene.parameters[n].value)) for n in names}
    size = abs(float(losses({n: torch.as_tensor(v)[None] for n, v in point.items()})[0]))
    report = check_torch_in_worlds(losses, point, step=STEP)
    wrong = []
    for entry in report.entries:
        error = abs(entry.adjoint - entry.difference)
        if error > RTOL * max(abs(entry.difference), FLOOR * size) + max(entry.noise, ROUNDOFF * size / STEP):
            wrong.append(f"{entry.name}{entry.index}: {entry.adjoint:.9e} against {entry.difference:.9e}, loss {size:.3e}")
    assert not wrong, "\n".join(wrong)
    return {entry.name for entry in report.entries if abs(entry.difference) > FLOOR * size}


# -- every kind of body ---------------------------------------------------------------------------------------------------


def empty_scene(*, ground: bool = True, size: int = 16) -> Scene:
    """Ground, camera and lights; the caller adds bodies. Ground and background are both in the picture."""
    scene = Scene(frame_dt=5e-3, frames=4, substeps=10, sigma=1e-3, gamma=2e-3, name="bodies")
    if ground:
        scene.add_ground(contact=Contact(stiffness=400.0, damping=0.1, friction_stiffness=0.5, friction=0.3))
    scene.add_camera(
        Camera.look_at(
            eye=(0.08, -0.25, 0.07), target=(0.0, 0.0, 0.03), vertical_fov=30.0, width=size, height=size, near=0.05, far=1.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


MOTION = {"orientation": (0.1, 0.15, 0.05, 1.0), "velocity": (0.5, 0.1, -0.8), "angular_velocity": (3.0, -2.0, 1.0)}


def test_small_scene_shows_every_parameter() -> None:
    scene = make_scene()
    assert check_film(scene, list(scene.parameters)) == set(scene.parameters)


SHAPES = {
    "sphere": Sphere(0.018, subdivisions=1),
    "capsule": Capsule(0.012, 0.02, sections=8),
    "cylinder": Cylinder(0.016, 0.028, sections=8),
    "cone": Cone(0.02, 0.035, sections=8),
    "wedge": Mesh(ASSETS / "wedge.stl", scale=0.7),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_film_gradient_of_every_shape(kind: str) -> None:
    scene = empty_scene()
    low = float(SHAPES[kind].mesh().vertices[:, 2].min())
    scene.add_rigid("thing", shape=SHAPES[kind], density=800.0, start=Start(position=(0, 0, 0.002 - low), **MOTION))
    names = [name for name in scene.parameters if not name.startswith(("camera", "light"))]
    assert check_film(scene, names, 3) == set(names)
    mass = scene.bodies[0].mass(scene.table.values()).item()
    assert mass == pytest.approx(800.0 * mass_properties(SHAPES[kind]).volume, rel=1e-12)


def test_mesh_scale_scales_mass_and_inertia() -> None:
    small, large = (mass_properties(Mesh(ASSETS / "wedge.stl", scale=scale)) for scale in (0.5, 1.0))
    assert large.volume == pytest.approx(0.06 * 0.04 * 0.03 / 2, rel=1e-6)
    assert large.volume == pytest.approx(8 * small.volume, rel=1e-12)
    np.testing.assert_allclose(large.inertia_per_density, 32 * small.inertia_per_density, rtol=1e-9, atol=1e-20)


def test_film_gradient_with_mass_and_inertia_given() -> None:
    scene = empty_scene()
    inertia = np.array([[1.2e-5, 1e-6, 0.0], [1e-6, 1.6e-5, -1e-6], [0.0, -1e-6, 2e-5]])
    scene.add_rigid(
        "thing", shape=Box(0.05, 0.04, 0.03), mass=Param(0.05, low=0.01, high=0.2, scale="log10"),
        inertia=Param(inertia, low=inertia - 1e-5, high=inertia + 1e-5), start=Start(position=(0, 0, 0.022), **MOTION),
    )  # fmt: skip
    values = scene.table.values()
    assert scene.bodies[0].mass(values).item() == 0.05
    np.testing.assert_array_equal(scene.bodies[0].inertia(values)[0].cpu().numpy(), inertia)
    names = ["thing.mass", "thing.inertia", "thing.position", "thing.angular_velocity"]
    assert check_film(scene, names) == set(names)
    assert check_states(scene, names, 4) == set(names)


def test_given_inertias_that_no_body_has_are_told_of() -> None:
    scene = empty_scene(ground=False)
    inertia = np.diag([1e-3, 1e-3, 1.5e-3])
    scene.add_rigid("thing", shape=Box(0.05, 0.04, 0.03), mass=0.05, inertia=inertia)
    with pytest.warns(UserWarning, match="thing.inertia is not a physical inertia: a principal moment below zero"):
        scene.rollout({"thing.inertia": torch.tensor(np.stack([inertia, np.diag([1e-3, 1e-3, 2.5e-3])]))}, frames=1)
    with warnings.catch_warnings(action="error"):
        scene.rollout({"thing.inertia": torch.tensor(np.stack([inertia, np.diag([1e-3, 1e-3, 2e-3])]))}, frames=1)


def test_mass_alone_takes_the_inertia_of_the_shape() -> None:
    scene = empty_scene()
    shape = Box(0.05, 0.04, 0.03)
    scene.add_rigid("thing", shape=shape, mass=0.05, start=Start(position=(0, 0, 0.022), **MOTION))
    solid = mass_properties(shape)
    actual = scene.bodies[0].inertia(scene.table.values())[0].cpu().numpy()
    np.testing.assert_allclose(actual, 0.05 * solid.inertia_per_density / solid.volume, rtol=1e-13)
    np.testing.assert_allclose(np.diag(actual), 0.05 / 12 * np.array([25e-4, 34e-4, 41e-4]), rtol=1e-12)
    assert check_film(scene, ["thing.mass", "thing.rotation"]) == {"thing.mass", "thing.rotation"}


def two_bodies() -> Scene:
    """A box on the ground's own material and a cone with another."""
    scene = empty_scene()
    scene.add_rigid(
        "box", shape=Box(0.03, 0.04, 0.03), density=800.0, start=Start(position=(-0.03, 0, 0.022), **MOTION),
        surface=Surface(face_colors=COLORS),
    )  # fmt: skip
    scene.add_rigid(
        "cone", shape=Cone(0.02, 0.035, sections=8), density=600.0, start=Start(position=(0.03, 0.01, 0.012), **MOTION),
        contact=Contact(stiffness=150.0, damping=0.05, friction_stiffness=0.2, friction=0.6),
        surface=Surface(color=(0.7, 0.2, 0.1)),
    )  # fmt: skip
    return scene


def test_film_gradient_of_two_bodies_with_their_own_contact() -> None:
    scene = two_bodies()
    names = [n for n in scene.parameters if n.startswith(("box", "cone", "ground"))]
    assert {"cone.contact.stiffness", "ground.contact.stiffness"} <= set(names)
    assert check_film(scene, names, 3) == set(names)
    physical = [n for n in names if "color" not in n]
    assert check_states(scene, physical, 4) == set(physical)


def test_bodies_feel_their_own_contact_only() -> None:
    scene = two_bodies()
    with torch.no_grad():
        start = scene.rollout()
        harder = scene.rollout({"cone.contact.stiffness": torch.tensor(300.0)})
    assert torch.equal(start.body_q[:, :, 0], harder.body_q[:, :, 0])
    assert (start.body_q[:, -1, 1] - harder.body_q[:, -1, 1]).abs().max() > 1e-5


def test_a_scene_without_ground_falls_freely() -> None:
    scene = empty_scene(ground=False)
    start = Start(position=(0, 0, 0.03), velocity=(0.1, 0.0, 0.2))
    scene.add_rigid("thing", shape=Sphere(0.02, subdivisions=1), density=800.0, start=start)
    states = scene.rollout(frames=4)
    time, steps = 4 * 5e-3, 40
    drop = -9.81 * (time / steps) ** 2 * steps * (steps + 1) / 2  # semi-implicit Euler, exactly
    np.testing.assert_allclose(states.body_q[0, -1, 0, :3].cpu().numpy(), [0.1 * time, 0, 0.03 + 0.2 * time + drop], atol=1e-14)
    names = ["thing.position", "thing.velocity", "background.color", "gravity"]
    assert check_film(scene, names) == set(names)


def test_vertex_colors_and_plain_colors_have_gradients() -> None:
    for surface in (Surface(color=(0.5, 0.4, 0.3)), Surface(vertex_colors=np.linspace(0.1, 0.9, 24).reshape(8, 3))):
        scene = empty_scene()
        start = Start(position=(0, 0, 0.03), **MOTION)
        scene.add_rigid("thing", shape=Box(0.05, 0.04, 0.03), density=800.0, start=start, surface=surface)
        name = "thing.color" if surface.color is not None else "thing.vertex_colors"
        assert check_film(scene, [name], 1) == {name}


def test_a_shared_value_reaches_both_the_motion_and_the_picture() -> None:
    """Gradients with respect to one tensor that several parameters use add up."""
    scene = make_scene()

    def loss(at: dict[str, torch.Tensor]) -> torch.Tensor:
        given = {"block.velocity": torch.stack([at["x"], at["x"] ** 2, at["x"] - 1]), "light.key.intensity": at["x"].expand(3)}
        return (scene.render(scene.rollout(given), given) ** 2).sum()

    check_torch(loss, {"x": np.float64(0.4)}, floor=1e-3).raise_if_wrong()


def test_checkpoints_give_the_same_film_gradient() -> None:
    scene = make_scene()
    every, _ = check_film_gradient(scene, ["block.density", "ground.contact.friction"])
    kept, _ = check_film_gradient(scene, ["block.density", "ground.contact.friction"], adjoint=Checkpoint(every=6))
    for a, b in zip(every, kept, strict=True):
        assert a.label == b.label and a.gradient == pytest.approx(b.gradient, rel=1e-10)


def test_a_kink_is_told_from_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A motor at the limit of its force, and a film in which nothing moves what is asked for."""
    scene = load_scene("pendulum", size=16)
    scene.add_motors("motor", joints=["pendulum"], actions=0.3, limit=0.3, shared=True)
    names = ["motor.gain", "pendulum.length"]
    (kink, plain), _ = check_film_gradient(scene, names, frames=2)
    assert (kink.status, plain.status) == ("kink, inside", "ok") and kink.ok and "at a kink" in kink.verdict
    assert min(abs(kink.left), abs(kink.right)) < 1e-3 * max(abs(kink.left), abs(kink.right))
    original = risp_torch.inversion.diagnostics.gradient_check.loss_and_gradient
    monkeypatch.setattr(
        risp_torch.inversion.diagnostics.gradient_check, "loss_and_gradient",
        lambda f: lambda at: (lambda value, gradient: (value, {n: 1.5 * g for n, g in gradient.items()}))(*original(f)(at)),
    )  # fmt: skip
    entries, _ = check_film_gradient(scene, names, frames=2)
    assert [entry.verdict.split(" (")[0] for entry in entries] == ["WRONG, at a kink", "WRONG"]
    monkeypatch.undo()
    (still,), loss = check_film_gradient(make_scene(height=0.2), ["block.density"], frames=2)
    assert loss < 1e-25 and still.ok and still.status == "not observable"


# -- every scene that ships -----------------------------------------------------------------------------------------------


def shipped() -> list[str]:
    """Names of the modules in the folder of scenes that define make_scene, found by importing them."""
    names = [module.name for module in pkgutil.walk_packages(scenes.__path__, "scenes.") if ".studies" not in module.name]
    with_scene = [name for name in names if hasattr(importlib.import_module(name), "make_scene")]
    return [name.removeprefix("scenes.").replace(".", "/") for name in with_scene]


@pytest.mark.parametrize("name", shipped())
def test_every_scene_runs_and_renders(name: str) -> None:
    assert name in scene_names()
    scene = load_scene(name)
    scene.resize_camera(32, 32)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # no scene has a step that is too long
        states = scene.rollout(frames=2)
        pictures = scene.render(states, alpha=True)
    assert states.body_q.shape == (1, 3, len(scene.bodies), 7) and states.finite.all()
    # The least density that cubic advection reaches from densities of at most 1, by Beer and Lambert's law.
    opacity = scene.parameters["smoke.opacity"].value if name == "smoke" else 0.0
    below = np.expm1(opacity * most_beyond(2 * scene.stepping.substeps))
    assert pictures.shape == (1, 3, 32, 32, 4) and bool(((pictures >= -below) & (pictures <= 1 + 1e-12)).all())
    least = 0.001 if name == "cloth_control" else 0.01  # a cloth that starts edge-on covers its projected area, and no more
    most = 1.0 if name == "smoke" else 0.9
    assert least < pictures[..., 3].mean() < most and pictures[..., :3].std() > 0.02  # something is in the picture
    # A parameter is estimated from a film, or controlled.
    assert scene.unknowns or load_control(name, scene).controlled_parameter in scene.parameters


def test_all_scenes_are_listed() -> None:
    assert set(scene_names()) == set(shipped()) >= {"cube", "toss"}
    assert all(line.strip() for line in scene_names().values())


# -- the table of parameters ----------------------------------------------------------------------------------------------


def test_values_have_a_world_axis() -> None:
    table = make_scene().table
    plain = table.values()
    assert plain["block.density"].shape == (1,) and plain["block.velocity"].shape == (1, 3)
    assert all(value.dtype == torch.float64 for value in plain.values())
    four = table.values(worlds=4)
    assert four["block.density"].shape == (4,) and four["block.face_colors"].shape == (4, 6, 3)
    given = table.values({"block.density": torch.tensor([1.0, 2.0, 3.0]), "gravity": torch.tensor([0.0, 0.0, -1.0])})
    assert given["block.density"].tolist() == [1.0, 2.0, 3.0] and given["block.density"].dtype == torch.float64
    assert given["gravity"].tolist() == [[0.0, 0.0, -1.0]] * 3 and given["block.velocity"].shape == (3, 3)
    # Three numbers for a vector are the vector, whatever the number of worlds.
    assert table.values({"gravity": torch.ones(3)}, worlds=3)["gravity"].tolist() == [[1.0] * 3] * 3
    one = table.values({"block.density": torch.ones(1)})
    assert one["block.density"].shape == (1,)


def test_values_carry_gradients() -> None:
    density = torch.tensor(500.0, dtype=torch.float64, requires_grad=True)
    make_scene().table.values({"block.density": density}, worlds=3)["block.density"].sum().backward()
    assert density.grad.item() == 3.0


@pytest.mark.parametrize(
    ("given", "worlds", "message"),
    [
        ({"block.densty": 1.0}, None, "unknown parameter 'block.densty': did you mean 'block.density'"),
        ({"block.density": torch.ones(2)}, 3, r"block.density has shape \(2,\), and \(\) or \(3,\) is needed"),
        ({"block.density": torch.ones(2), "gravity": torch.ones(4, 3)}, None, r"gravity .*\(4, 3\), and \(3,\) or \(2, 3\)"),
        ({"block.velocity": torch.ones(2)}, None, r"block.velocity has shape \(2,\)"),
        ({"gravity": torch.ones(2, 3, 1)}, None, r"gravity has shape \(2, 3, 1\)"),
    ],
)
def test_values_errors(given: dict[str, torch.Tensor], worlds: int | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_scene().table.values(given, worlds=worlds)


def test_worlds_of_a_batch_are_the_worlds_alone() -> None:
    scene = make_scene(size=8)
    densities = torch.tensor([300.0, 800.0, 2000.0], dtype=torch.float64)
    with torch.no_grad():
        together = scene.rollout({"block.density": densities})
        pictures = scene.render(together)
        for b, density in enumerate(densities):
            alone = scene.rollout({"block.density": density})
            assert torch.equal(alone.body_q[0], together.body_q[b])
            torch.testing.assert_close(scene.render(alone)[0], pictures[b], rtol=0, atol=1e-14)
        assert torch.equal(scene.render(together, frames=[0, 2]), pictures[:, [0, 2]])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("block.densty", 1.0, "unknown parameter 'block.densty': did you mean 'block.density'"),
        ("ground.contact.stiffness", 1e9, r"^ground.contact.stiffness: .*outside its bounds \[40, 4000\] N/m"),
        ("block.velocity", (0.0, 0.0, 3.0), r"^block.velocity: .*outside its bounds \[-2, 2\] m/s"),
        ("block.position", (1.0, 2.0), r"block.position has shape \(2,\), and \(3,\) is needed: give finite numbers"),
        ("block.position", "high", "block.position is 'high': give finite numbers"),
        ("block.position", float("nan"), "block.position is nan: give finite numbers"),
        ("camera.focal", 0.0, "camera.focal is 0.0 px: give a number above zero"),
        ("ground.contact.damping", -1.0, "ground.contact.damping is -1.0 .*not negative"),
    ],
)
def test_set_errors_leave_the_scene_as_it_was(name: str, value: object, message: str) -> None:
    scene = make_scene()
    before = {n: np.copy(p.value) for n, p in scene.parameters.items()}
    with pytest.raises(UserError, match=message):
        scene.set(name, value)
    assert all(np.array_equal(before[n], p.value) for n, p in scene.parameters.items())


def test_set_keeps_bounds_and_shape() -> None:
    scene = make_scene()
    scene.set("block.position", 0.5)
    assert scene.parameters["block.position"].value.tolist() == [0.5] * 3
    scene.set("block.density", 100)
    param = scene.parameters["block.density"]
    assert (param.value, param.low, param.high, param.scale, param.unit) == (100.0, 80.0, 8000.0, "log10", "kg/m3")


# -- errors in writing a scene --------------------------------------------------------------------------------------------


def contact(**changes: float) -> Contact:
    return Contact(**({"stiffness": 400.0, "damping": 0.1, "friction_stiffness": 0.5, "friction": 0.3} | changes))


def add(scene: Scene, shape: Shape | None = None, **options: object) -> None:
    scene.add_rigid("thing", **({"shape": shape or Box(0.02, 0.02, 0.02), "density": 800.0} | options))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: add(s, density=0.0), "thing.density is 0.0 kg/m3: give a number above zero"),
        (lambda s: add(s, density=-1.0), "thing.density is -1.0 kg/m3"),
        (lambda s: add(s, density=None, mass=-0.1), "thing.mass is -0.1 kg"),
        (lambda s: add(s, density=None), "thing needs its density or its mass"),
        (lambda s: add(s, mass=1.0), "thing needs its density or its mass"),
        (lambda s: add(s, inertia=np.eye(3)), "thing has an inertia and a density"),
        (lambda s: add(s, density=None, mass=1.0, inertia=-np.eye(3)), "thing.inertia"),
        (lambda s: add(s, density=None, mass=1.0, inertia=np.diag([1.0, 1.0, 3.0])), "thing.inertia"),
        (lambda s: add(s, start=Start(orientation=(0, 0, 0, 0))), "thing.orientation"),
        (lambda s: add(s, start=Start(position=(1, 2))), r"Start: position has shape \(2,\)"),
        (lambda s: add(s, surface=Surface(face_colors=[(1, 1, 1)] * 5)), "thing has 5 face colours: give 6 .* or 12"),
        (lambda s: add(s, contact=contact(friction=-0.1)), "thing.contact.friction is -0.1"),
        (lambda s: add(s, contact=contact(stiffness=0.0)), "thing.contact.stiffness is 0.0"),
        (lambda s: (add(s), add(s)), "'thing.density' is in the scene already"),
        (lambda s: (add(s), s.add_ground(contact=contact())), "the ground comes before the bodies"),
        (lambda s: s.add_force("push", body="thin", start=0, duration=1, force=(0, 0, 1)), "unknown body 'thin'"),
        (lambda s: (add(s), s.add_force("p", body="thing", start=0, duration=1)), "p needs a force or an impulse"),
        (lambda s: (add(s), s.add_force("p", body="thing", start=0, duration=0, force=(0, 0, 1))), "p.duration is 0"),
        (lambda s: s.add_camera(s.camera), "a camera without a name already"),
        (lambda s: s.add_light(DirectionalLight(direction=(0, 0, -1), name="key")), "a light 'key' already"),
        (lambda s: s.rollout(), "the scene has no bodies"),
        (lambda s: Surface(color=(1, 1, 1), face_colors=[(1, 1, 1)]), "one of color, face_colors and vertex_colors"),
        (lambda s: check_film_gradient(s, []), "declares no unknowns"),
    ],
)
def test_errors_in_writing_a_scene(build: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(empty_scene())


@pytest.mark.parametrize(
    ("integrator", "plan", "message"),
    [
        ("euler", "auto", "integrator 'euler' is unknown: choose 'semi_implicit', 'rk4', 'backward_euler', 'bdf2' or 'sdirk2'"),
        ("semi_implicit", "gpu", "plan 'gpu' is unknown: choose 'auto', 'world' or 'element'"),
        ("bdf2", "element", "plan 'element' is only for explicit steps"),
    ],
)
def test_choices_of_time_steps(integrator: Any, plan: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Scene(frame_dt=0.01, frames=2, substeps=2, integrator=integrator, solver=SolverOptions(plan=plan))


def test_an_integrator_that_one_solver_has_is_refused_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (time_stepping, sys.modules[Scene.__module__]):
        monkeypatch.setattr(module, "Integrator", Literal[ExplicitIntegrator, "implicit"])
    monkeypatch.setattr(rules, "arguments_of", rules.arguments_of.__wrapped__)  # without what it keeps of the annotations
    scene = Scene(frame_dt=0.01, frames=2, substeps=2, integrator="implicit")
    add(scene)
    with pytest.raises(UserError, match="integrator 'implicit' is unknown: choose 'semi_implicit' or 'rk4'"):
        scene.rollout()


def test_a_picture_needs_camera_and_light() -> None:
    scene = Scene(frame_dt=0.01, frames=2, substeps=2)
    add(scene)
    with pytest.raises(UserError, match="no light"):
        scene.render(scene.rollout())
    scene.add_light(AmbientLight(intensity=1.0))
    with pytest.raises(UserError, match="no camera"):
        scene.render(scene.rollout())
