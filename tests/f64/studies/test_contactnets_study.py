"""ContactNets' cube: what the scene's numbers mean, and what the study computes without a contact law. No data are needed."""

import json
from pathlib import Path

import numpy as np
import pytest

from risp_torch.motions import MotionFitSettings, Recording, fit_motions, held_out, whole_recordings
from scenes.real import contactnets_cube as cube
from studies.real import contactnets as study
from tests.reference.cube_tosses import simulated_tosses
from tests.reference.folders import ROOT

SIDE, RATIO, METRE = 0.1, 0.26, 0.98  # of the simulated cube: real side [m], inertia, what a metre is measured as
NOMINAL = cube.SIDE / SIDE  # metres of the scene in a real one
VALUES = {
    "gravity": cube.GRAVITY * NOMINAL, study.SCALE: METRE / NOMINAL, "ground.contact.radius": cube.ROUNDING,
    "cube.mass": cube.INERTIA / (RATIO * cube.SIDE**2), "ground.contact.friction": 0.2, "ground.contact.stiffness": 2e4,
    "ground.contact.damping": 60.0, "ground.contact.friction_stiffness": 30.0,
}  # fmt: skip


def recordings(count: int = 24, frames: int = 60, seed: int = 0) -> list[Recording]:
    """Tosses of a cube of side 0.1 m, measured 2 % small."""
    starts = {"height": 0.16, "spread": 0.02, "fall": 0.4, "substeps": 60}
    body_q = simulated_tosses(VALUES, count=count, frames=frames, seed=seed, **starts)
    body_q[..., :3] *= VALUES[study.SCALE]
    return [Recording(f"toss_{k}", rows, 1 / cube.RATE) for k, rows in enumerate(body_q)]


def test_what_the_numbers_of_the_scene_mean() -> None:
    np.testing.assert_allclose(cube.real_side(VALUES), SIDE, rtol=1e-12)
    np.testing.assert_allclose(cube.measured_metre(VALUES), METRE, rtol=1e-12)
    np.testing.assert_allclose(cube.inertia_ratio(VALUES), RATIO, rtol=1e-12)
    rounder = VALUES | {"ground.contact.radius": cube.ROUNDING + 1e-3}
    np.testing.assert_allclose(cube.real_side(rounder), SIDE + 2e-3 / NOMINAL, rtol=1e-12)
    np.testing.assert_allclose(study.DERIVED["corner radius"][1](VALUES), cube.ROUNDING / NOMINAL, rtol=1e-12)


def test_free_flight_and_impulses_tell_gravity_and_inertia() -> None:
    tosses = recordings()
    g, _, left = study.free_flight(tosses)
    np.testing.assert_allclose(g, 9.81 * METRE, rtol=1e-4)  # in measured metres
    assert left < 1e-8
    ratio, bar, count = study.impulse_ratio(tosses)
    assert count > 10
    # Arms are those of a cube of the nominal measured side: lengths that are off by a factor change the ratio by its inverse.
    size = SIDE * METRE / cube.MEASURED_SIDE
    assert abs(ratio / (RATIO * size) - 1) < 0.08 and bar < 0.05 * ratio


def test_a_cube_that_rests_rests_at_half_its_side() -> None:
    rest = max(recordings(frames=200, count=4), key=lambda toss: -abs(np.ptp(toss.body_q[-20:, 0, 2])))
    np.testing.assert_allclose(rest.body_q[-1, 0, 2], 0.5 * SIDE * METRE, rtol=5e-3)
    turned = rest.body_q[-1:, 0]
    np.testing.assert_allclose(cube.lowest_corner(turned), rest.body_q[-1, 0, 2] - 0.5 * cube.MEASURED_SIDE, atol=1e-4)


def test_frames_count_less_from_the_first_contact_on() -> None:
    (toss, *_) = recordings(count=1)
    (window,) = whole_recordings([toss], first=1)
    noise = cube.with_contact_noise(window).noise
    first = int(np.argmax(noise == cube.CONTACT_NOISE))
    assert 0 < first < len(noise) and (noise[:first] == cube.FLIGHT_NOISE).all() and (noise[first:] == cube.CONTACT_NOISE).all()
    heights = cube.lowest_corner(window.body_q[:, 0])
    assert heights[:first].min() >= cube.CONTACT_HEIGHT > heights[first]


def test_rows_of_the_data_set_become_poses() -> None:
    row = np.array([[0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5, *np.zeros(6)]])  # the quaternion's real part comes first
    np.testing.assert_allclose(cube.measured_poses(row), [[0.1, 0.2, 0.3, 0.5, -0.5, 0.5, 0.5]])


def test_tosses_are_held_out_by_their_names() -> None:
    names = [f"toss_{k:03d}" for k in range(570)]
    held = held_out(names)
    assert len(held) == 113 and held[:3] == held_out(reversed(names))[::-1][:3]
    assert set(held_out(names[:10])) == set(held) & set(names[:10])


def test_estimates_of_all_lengths_are_put_together() -> None:
    def record(value: float, bar: float, mass: float) -> dict:
        derived = {name: {"value": value, "sd": bar} for name in study.DERIVED}
        scales = {"cube.mass": "log10", "gravity": "linear"}
        return {"derived": derived, "values": {"cube.mass": mass, "gravity": 2 * mass}, "scales": scales}

    records = [record(1.0, 0.3, 0.1), record(3.0, 0.4, 1.0)]
    value, bar = study.together(records)["side"]
    assert value == 2.0
    np.testing.assert_allclose(bar**2, (0.09 + 0.16) / 2 + 2.0)  # mean variance, and that of 1 and 3
    means = study.mean_values(records)
    np.testing.assert_allclose([means["cube.mass"], means["gravity"]], [10**-0.5, 1.1])


def test_restitution_of_the_estimates() -> None:
    def record(damping: float) -> dict:
        return {"values": {"ground.contact.stiffness": 1e4, "ground.contact.damping": damping, "cube.mass": 0.25}}

    value, spread = study.bounce([record(0.0), record(100.0)])  # 100 N s/m is twice the root of stiffness times mass
    np.testing.assert_allclose([value + spread, value - spread], [1.0, np.exp(-2)], rtol=1e-9)


def test_errors_are_in_measured_widths() -> None:
    (toss,) = recordings(count=1)
    scene = cube.make_scene(substeps=60)
    exact = study.predict_motions(scene, whole_recordings([toss], first=0), VALUES, scale=study.SCALE)
    motions = whole_recordings([toss], first=0)
    off = study.predict_motions(scene, motions, VALUES | {"ground.contact.friction": 0.1}, scale=study.SCALE)
    position, rotation = study.errors_in_widths(off)
    np.testing.assert_allclose(position[0], 100 * np.nanmean(off.position[0, :, 0]) / 0.1024)
    assert study.errors_in_widths(exact)[0] < 1.0 < position[0] and rotation.shape == (1,)
    cells = study.row_of("x", off)
    assert cells[1] == "1" and cells[2] == f"{position[0]:.1f}" and cells[4] == f"{position[0]:.1f} ± 0.0"


def test_the_study_writes_its_page_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On simulated tosses, in a small size: fits once, then read from their files."""
    tosses = recordings(count=12, frames=50)
    quick = MotionFitSettings(**(vars(study.SETTINGS) | {"iterations": 3}))
    monkeypatch.setattr(study, "SETTINGS", quick)
    fits = []
    monkeypatch.setattr(study, "fit_motions", lambda *given, **options: fits.append(1) or fit_motions(*given, **options))
    text = study.study(tmp_path, tosses, [16])
    held = held_out([toss.name for toss in tosses])
    assert f"{12 - len(held)} tosses for fits, {len(held)} held out" in text and "| held out |" in text
    assert (tmp_path / "errors.png").is_file() and len(fits) == 2
    record = json.loads((tmp_path / "viscous-16.json").read_text())
    assert set(record["derived"]) == set(study.DERIVED) and record["tosses"] == 12 - len(held)
    assert study.study(tmp_path, tosses, [16]) == text and len(fits) == 2


def test_without_the_data_it_says_where_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RISP_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert study.main(["--out", str(tmp_path / "out")]) == 2
    assert "contactnets_cube" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["viscous", "bristle"])
def test_the_page_shows_the_fits(kind: str) -> None:
    """Every number of its tables of fits follows from the records, and each derived number from the fitted ones."""
    records = [json.loads((ROOT / f"docs/results/contactnets/{kind}-{frames}.json").read_text()) for frames in study.LENGTHS]
    page = (ROOT / "docs/real.md").read_text(encoding="utf-8")
    table = page[page.index(f"Friction: {kind}.") :].split("\n\n")[1]
    sums = study.together(records)
    for name, (unit, derived) in study.DERIVED.items():
        cells = [f"{record['derived'][name]['value']:.5g} ± {record['derived'][name]['sd']:.2g}" for record in records]
        cells.append(f"{sums[name][0]:.5g} ± {sums[name][1]:.2g}")
        assert f"| {f'{name} [{unit}]' if unit else name} | {' | '.join(cells)} |" in table
        for record in records:
            np.testing.assert_allclose(record["derived"][name]["value"], derived(record["values"]), rtol=1e-9)
    assert f"| converged | {' | '.join('yes' if record['converged'] else 'no' for record in records)} |" in table
