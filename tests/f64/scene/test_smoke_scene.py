"""Scenes of smoke: pictures against plain numpy, the gradient of every number from a film, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import Box, Camera, Param, Scene, SmokeAppearance, UserError, film
from risp_torch.scene.parts.smoke import overlaps
from risp_torch.scene.state import State
from tests.reference.gradients_in_worlds import check_torch_in_worlds

CELLS, FRAMES, SIZE = (8, 6), 3, (9, 12)  # height and width


def smoky(**changes: object) -> Scene:
    """A box with an obstacle, random smoke and flow."""
    random, (x, y) = np.random.default_rng(0), CELLS

    def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (np.abs(x - 1.375) < 0.1) & (np.abs(y - 0.625) < 0.1)

    scene = Scene(frame_dt=0.04, frames=FRAMES, substeps=2, name="smoky")
    given = {
        "obstacle": inside, "density": random.uniform(0, 1, (x, y)),
        "velocity": (random.normal(size=(x + 1, y)), random.normal(size=(x, y + 1))), "source": random.uniform(0, 1, (x, y)),
        "viscosity": 0.01, "buoyancy": Param(0.7, low=0.1, high=5.0, scale="log10"), "confinement": 0.2,
        "appearance": SmokeAppearance(color=(0.9, 0.7, 0.5), opacity=2.0),
    }  # fmt: skip
    scene.add_smoke("smoke", cells=CELLS, cell=0.25, **given | changes)
    scene.set_background(top=(0.2, 0.3, 0.4), bottom=(0.1, 0.1, 0.1))
    scene.add_camera(
        Camera.look_at(
            eye=(0, 0, 2), target=(0, 0, 0), up=(0, 1, 0), vertical_fov=40.0, width=SIZE[1], height=SIZE[0], near=0.1, far=9
        )
    )
    return scene


def test_pixels_are_means_of_the_cells_that_they_cover() -> None:
    assert np.allclose(overlaps(3, 2), [[2 / 3, 1 / 3, 0], [0, 1 / 3, 2 / 3]])
    assert np.allclose(overlaps(2, 4), np.repeat(np.eye(2), 2, axis=0))
    scene = smoky()
    states = scene.rollout(worlds=1)
    shown = scene.render(states)[0].cpu().numpy()
    covered = scene.render(states, alpha=True)[0, ..., 3:].cpu().numpy()
    density = states.smoke[0].cpu().numpy()
    assert density.shape == (FRAMES + 1, *CELLS) and shown.shape == (FRAMES + 1, *SIZE, 3)
    fine = 36  # of which cells and pixels are whole multiples
    cover = 1 - np.exp(-2.0 * density)
    cover = np.repeat(np.repeat(cover, 72 // CELLS[0], axis=1), fine // CELLS[1], axis=2)  # [T, 72, 36], x and y
    cover = cover.transpose(0, 2, 1)[:, ::-1]  # rows from the top
    cover = cover.reshape(FRAMES + 1, SIZE[0], fine // SIZE[0], SIZE[1], 72 // SIZE[1]).mean(axis=(2, 4))[..., None]
    np.testing.assert_allclose(covered, cover, atol=1e-12)
    share = ((np.arange(SIZE[0]) + 0.5) / SIZE[0])[:, None, None]
    behind = np.array([0.2, 0.3, 0.4]) * (1 - share) + np.array([0.1, 0.1, 0.1]) * share
    np.testing.assert_allclose(shown, behind * (1 - cover) + np.array([0.9, 0.7, 0.5]) * cover, atol=1e-12)


def test_gradient_of_a_film_in_every_number() -> None:
    scene = smoky()
    names = [f"smoke.{key}" for key in (
        "density", "velocity_x", "velocity_y", "source", "buoyancy", "viscosity", "confinement", "color", "opacity",
    )]  # fmt: skip
    weight = torch.as_tensor(np.random.default_rng(1).normal(size=(1, FRAMES + 1, *SIZE, 3)))

    def losses(given: dict[str, torch.Tensor]) -> torch.Tensor:
        return (weight * film(scene, given, worlds=len(given["smoke.density"]), frames=FRAMES)[0]).flatten(1).sum(dim=1)

    point = {name: np.asarray(scene.parameters[name].value, dtype=float) for name in names}
    report = check_torch_in_worlds(losses, point, step=1e-6, rtol=1e-6, floor=5e-3, atol=1e-8, max_entries=12)
    report.raise_if_wrong()
    assert {entry.name for entry in report.entries if entry.status == "ok"} == set(names)


def test_units_of_all_numbers_are_those_of_the_equations() -> None:
    """Lengths ten times as large and a clock half as fast: numbers that follow their units give the same smoke."""
    scene, length, time = smoky(), 10.0, 2.0
    scaled = Scene(frame_dt=time * 0.04, frames=FRAMES, substeps=2, name="scaled")
    factors = {"": 1.0, "m/s": length / time, "m/s2": length / time**2, "m2/s": length**2 / time, "1/s": 1 / time}
    numbers = {
        key: scene.parameters[f"smoke.{key}"].value * factors[scene.parameters[f"smoke.{key}"].unit]
        for key in ("density", "velocity_x", "velocity_y", "source", "buoyancy", "viscosity", "confinement")
    }
    velocity = (numbers.pop("velocity_x"), numbers.pop("velocity_y"))
    scaled.add_smoke(
        "smoke", cells=CELLS, cell=length * 0.25, obstacle=~scene.smoke.model.open_cells, velocity=velocity, **numbers
    )
    # Not to rounding: the vorticity at which confinement fades out is a constant.
    np.testing.assert_allclose(scaled.rollout(worlds=1).smoke, scene.rollout(worlds=1).smoke, atol=1e-6)


def test_sources_may_change_from_frame_to_frame_and_smoke_starts_from_given_fields() -> None:
    x, y = CELLS
    rates = np.zeros((FRAMES, x, y))
    rates[1, 2, 3] = 5.0
    scene = smoky(source=rates, density=0.0, velocity=(0.0, 0.0), buoyancy=0.0, confinement=0.0)
    total = scene.rollout(worlds=1).smoke[0].sum(dim=(1, 2))
    np.testing.assert_allclose(total, [0, 0, 5 * 0.04, 5 * 0.04], atol=1e-12)
    fields = (torch.zeros(2, *shape, dtype=torch.float64) for shape in ((x, y), (x + 1, y), (x, y + 1)))
    state = State(**dict(zip(("density", "velocity_x", "velocity_y"), fields, strict=True)))
    again = scene.rollout(state=state.replace(density=state.density + 1), frames=1).smoke
    open_cells = torch.as_tensor(scene.smoke.model.open_cells, dtype=torch.float64)
    assert again.shape == (2, 2, x, y) and torch.equal(again[:, 0], open_cells.expand(2, x, y))


def test_what_does_not_fit_is_refused() -> None:
    scene = smoky()
    with pytest.raises(UserError, match="a scene with smoke has no bodies"):
        scene.add_smoke("more", cells=CELLS, cell=0.1)
    with pytest.raises(UserError, match="the source has 2 frame intervals, and the film 3"):
        smoky(source=np.zeros((2, *CELLS)))
    with pytest.raises(UserError, match="smoke.velocity has 3 components: give two"):
        smoky(velocity=(1.0, 0.0, 0.0))
    with pytest.raises(UserError, match="no depths and no normals"):
        scene.render(scene.rollout(worlds=1), quantity="depth")
    with pytest.raises(UserError, match=r"the density has shape \(1, 2, 3, 3\)"):
        scene.render(torch.zeros(1, 2, 3, 3, dtype=torch.float64))
    again = Scene(frame_dt=0.1, frames=1, substeps=1)
    with pytest.raises(UserError, match="opacity"):
        again.add_smoke("smoke", cells=(4, 4), cell=0.1, appearance=SmokeAppearance(opacity=-1.0))
    again.add_smoke("smoke", cells=(4, 4), cell=0.1)  # what was refused has left nothing behind
    with pytest.raises(UserError, match="compare pixels, luminance or features"):
        scene.view.render_inputs(scene.table.values(), scene.rollout(worlds=1).placement)
    with pytest.warns(UserWarning, match="take more substeps, or lower the bound"):
        smoky(viscosity=Param(0.01, low=1e-3, high=10.0, scale="log10")).rollout(worlds=1)
    scene.add_rigid("box", shape=Box(1.0, 1.0, 1.0), density=1.0)
    with pytest.raises(UserError, match="smoke fills the picture"):
        scene.rollout(worlds=1)
    filmed = smoky()
    filmed.set_film()
    with pytest.raises(UserError, match="states at the frames alone"):
        filmed.rollout(worlds=1)


def test_the_start_is_the_first_frame() -> None:
    scene = smoky()
    start = scene.start_poses(scene.table.values())
    assert torch.equal(start, scene.rollout(worlds=1, frames=1).placement[:, 0])
    assert torch.equal(scene.render(start[:, None]), scene.render(scene.rollout(worlds=1), frames=[0]))


def test_the_description_of_a_scene_knows_its_smoke() -> None:
    assert np.argwhere(~smoky().smoke.model.open_cells).tolist() == [[5, 2]]
    assert smoky().description() != smoky(obstacle=None).description()
    assert smoky().description()["smoke"][:4] == ["smoke", list(CELLS), 0.25, "semi_lagrangian"]
