"""The study of predictions: its page, the baselines, and angles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from studies.gradsim import cells
from studies.gradsim.presets import preset_of
from studies.gradsim.rigid import prediction
from studies.gradsim.tosses import draw_toss, toss_scene


@pytest.mark.usefixtures("undiagnosed")
def test_page_has_its_rows_and_is_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "FRAMES", 20)
    monkeypatch.setattr(prediction, "HALF", 10)
    preset = replace(preset_of("tiny"), size=16)
    page = prediction.make("prediction", preset, tmp_path, jobs=1)
    for source in prediction.SOURCES:
        for title in prediction.TASKS.values():
            assert all(f"| {source} | {title} | {method} |" in page.text for method in prediction.METHODS)
    assert all(path.is_file() for path in page.pictures.values())
    monkeypatch.setattr(cells, "_perform", None)
    assert prediction.make("prediction", preset, tmp_path, jobs=1).text == page.text


def test_true_numbers_predict_without_error_and_others_do_not() -> None:
    toss = draw_toss(1, seed=0)
    scene = toss_scene(toss, size=16, frames=20)
    tried = {"truth": toss.values, "average": prediction.average(toss)}
    errors = prediction.errors_over_time(scene, tried, since=5, length=2.0)
    assert set(errors) == {"truth", "average", "constant velocity"} and len(errors["truth"]["angle"]) == 16
    assert max(errors["truth"]["position"]) < 1e-6 and max(errors["truth"]["squared"]) < 1e-10
    with torch.no_grad():
        true = scene.rollout(worlds=1).body_q[0, 5:, 0, :3]
        other = scene.rollout({name: torch.tensor([value]) for name, value in tried["average"].items()}, worlds=1).body_q
    np.testing.assert_allclose(errors["average"]["position"], (other[0, 5:, 0, :3] - true).norm(dim=1) / 2.0, rtol=1e-4)
    assert errors["average"]["position"][-1] > 1e-3 and errors["constant velocity"]["position"][0] == 0.0


def test_coasting_goes_straight_on_and_turns_about_a_fixed_axis() -> None:
    body_q, body_qd = torch.zeros(8, 1, 7), torch.zeros(8, 1, 6)
    turn = Rotation.from_rotvec([0.3, -0.2, 0.5])
    body_q[:, 0, 3:] = torch.as_tensor(turn.as_quat())
    spin = np.array([1.0, 2.0, -0.5])
    body_qd[3, 0] = torch.tensor([1.0, 0.0, -2.0, *spin])
    poses = prediction.coasting(body_q, body_qd, since=3, frame_dt=0.1)
    np.testing.assert_allclose(poses[7, 0, :3], [0.4, 0.0, -0.8], atol=1e-6)
    wanted = Rotation.from_rotvec(0.4 * spin) * turn
    assert (Rotation.from_quat(poses[7, 0, 3:].cpu().numpy()) * wanted.inv()).magnitude() < 1e-6
    assert torch.equal(poses[:3], body_q[:3])


def test_angles_between_orientations() -> None:
    random = np.random.default_rng(0)
    first, second = (random.standard_normal((50, 4)) for _ in range(2))
    wanted = np.degrees((Rotation.from_quat(first) * Rotation.from_quat(second).inv()).magnitude())
    np.testing.assert_allclose(prediction.turn_between(torch.as_tensor(first), torch.as_tensor(second)), wanted, atol=1e-6)


def test_a_new_throw_keeps_the_object_and_its_numbers() -> None:
    toss = draw_toss(4, seed=0)
    other = prediction.thrown_anew(toss, 4, seed=0)
    assert (other.shape, other.sides, other.values) == (toss.shape, toss.sides, toss.values)
    assert other.position != toss.position and other.impulse != toss.impulse
    pushes = [np.linalg.norm(t.impulse) / t.volume for t in (toss, other)]  # mean density times 1 to 2 m/s
    assert all(7.0 * 0.9 <= push <= 7.0 * 2.2 for push in pushes)


def test_units_of_the_page() -> None:
    assert prediction.shown("position", [0.5])[0] == 50
    assert prediction.shown("squared", [1e-3, 0.0]).tolist() == pytest.approx([30, 80])
