"""An inversion by the solved look: a film in a look that the scene knows nothing of."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    DirectionalLight,
    LookSettings,
    MatchedLoss,
    NewtonSteps,
    PixelLoss,
    Scene,
    SearchStages,
    Sphere,
    Start,
    Surface,
    UserError,
    invert,
)
from risp_torch.__main__ import main
from risp_torch.commands.estimates import print_inversion
from risp_torch.files.run_folder import FinishedError
from risp_torch.inversion.appearance.model.palette import Palette
from risp_torch.inversion.problem.comparison import Comparison


def thrown(*, speed=0.8, color=(0.8, 0.3, 0.2), key=0.7, top=(0.2, 0.3, 0.6)):
    """A ball that flies through 32 pixels' pictures."""
    scene = Scene(frame_dt=0.02, frames=7, substeps=4, name="thrown")
    scene.add_rigid(
        "ball", shape=Sphere(0.04), density=500.0, surface=Surface(color=color),
        start=Start(position=(-0.08, 0.0, 0.03), velocity=(speed, 0.1, 0.9)),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(eye=(0.0, -0.5, 0.1), target=(0.0, 0.0, 0.05), vertical_fov=34.0, width=32, height=32, near=0.1, far=1.5)
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=key))
    scene.add_light(AmbientLight(intensity=0.25))
    scene.set_background(top=top, bottom=(0.7, 0.6, 0.4))
    return scene


def film_of(scene, noise=0.01):
    with torch.no_grad():
        film = scene.render(scene.rollout())[0]
    return (film + noise * torch.as_tensor(np.random.default_rng(0).normal(size=film.shape)).to(film)).clamp(0, 1)


@pytest.mark.usefixtures("unplotted")
def test_speed_in_another_look(tmp_path):
    """Colour, light and background are unknown: the speed is found within three bars, and the sheet of the look is written."""
    film = film_of(thrown(color=(0.1, 0.7, 0.3), key=0.3, top=(0.8, 0.2, 0.2)))
    result = invert(
        thrown(speed=1.2), film, ["ball.velocity[0]"], bounds={"ball.velocity[0]": (0.3, 1.5)}, loss=MatchedLoss(),
        starts=[{"ball.velocity[0]": 0.7}], search=SearchStages(steps=NewtonSteps(rounds=8), refine=2),
        out=tmp_path / "run", progress=False,
    )  # fmt: skip
    (value,), (sd,) = result.values.values(), result.sd.values()
    assert abs(value - 0.8) < 0.008
    assert abs(value - 0.8) < 3 * sd < 0.1
    assert (tmp_path / "run" / "look.png").is_file()


@pytest.mark.usefixtures("unplotted")
def test_losses_in_turn(tmp_path, capsys):
    """Each loss starts where the one before it ended; both runs are kept, and given again nothing changes.

    The film's light is not the scene's, so that pixels leave a residual: only the last loss tests the scene's numbers.
    """
    film, given = film_of(thrown(key=0.6)), {"bounds": {"ball.velocity[0]": (0.3, 1.5)}, "out": tmp_path / "run"}
    chain, search = [PixelLoss(), MatchedLoss(LookSettings(edges="scene"))], SearchStages(steps=NewtonSteps(rounds=8), refine=1)

    def run(losses, **more):
        return invert(thrown(speed=1.2), film, ["ball.velocity[0]"], loss=losses, search=search, progress=False, **(given | more))

    result = run(chain, starts=[{"ball.velocity[0]": 0.7}])
    first = json.loads((tmp_path / "run" / "1-pixel" / "result.json").read_text())
    assert result.initial.tolist() == [[first["unknowns"]["ball.velocity[0]"]["value"]]]
    assert abs(next(iter(result.values.values())) - 0.8) < 0.004
    assert first["misfit"] > 1.3 and not first["misspecifications"] and not any("differs" in doubt for doubt in first["doubts"])
    (sentence,) = result.assumptions
    assert sentence.startswith("the estimates assume all other numbers of the scene, none of which was tested: a solved look")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["assumptions"] == [sentence]
    assert main(["show", str(tmp_path / "run")]) == 0
    print_inversion(result)
    assert capsys.readouterr().out.count(f"assumption: {sentence}") == 2
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["search"]["first_frames"] == 7  # the whole film
    with pytest.raises(FinishedError):
        run(chain, starts=[{"ball.velocity[0]": 0.7}])
    with pytest.raises(UserError, match="list of losses is empty"):
        run([])
    with pytest.raises(UserError, match="other settings"):
        run([MatchedLoss(), MatchedLoss()], starts=[{"ball.velocity[0]": 0.7}])


def test_outliers_count_less():
    """A hand before some frames hardly moves the minimum: with robust weights the true speed is better than one 5 % off."""
    film = film_of(thrown())
    film[3:6, 10:26, 4:16] = 0.9
    losses = {}
    for speed in (0.8, 0.84):
        for robust_scale in (0.1, float("inf")):
            comparison = Comparison.of(thrown(), MatchedLoss(LookSettings(robust_scale=robust_scale)), film)
            with torch.no_grad():
                losses[speed, robust_scale] = float(comparison.losses(thrown(speed=speed), {}, worlds=1))
    assert losses[0.8, 0.1] < losses[0.84, 0.1]
    assert losses[0.8, 0.1] < 0.25 * losses[0.8, float("inf")]


def test_exposure_is_solved():
    """A film whose exposure drifts by 30 % leaves no more than noise when gains are solved, and far more when not."""
    film = film_of(thrown(), noise=0.002)
    film = (film * torch.linspace(0.85, 1.15, len(film)).to(film)[:, None, None, None]).clamp(0, 1)
    left = []
    for exposure in (True, False):
        comparison = Comparison.of(thrown(), MatchedLoss(LookSettings(exposure=exposure, edges="scene")), film)
        with torch.no_grad():
            left.append(float(comparison.losses(thrown(), {}, worlds=1)))
    assert left[0] < 0.05 * left[1]


def test_palettes():
    """A box has a colour for each of its faces' corners, a smooth ball one for each vertex, and a body one in all."""
    for shape, vertex, face in ((Box(1.0, 1.0, 1.0), 24, 12), (Sphere(1.0), None, None)):
        mesh = shape.surface()
        body = np.zeros(len(mesh.vertices), dtype=np.int64)
        palette = Palette.of(mesh.faces, mesh.vertices, body, "vertex")
        assert palette.count == (vertex or len(np.unique(np.round(mesh.vertices, 9), axis=0)))
        assert Palette.of(mesh.faces, mesh.vertices, body, "texel", texels=1).count == palette.count
        assert Palette.of(mesh.faces, mesh.vertices, body, "face").count == (face or len(mesh.faces))
        assert Palette.of(mesh.faces, mesh.vertices, body, "body").count == 1


def test_refusals():
    """No film, and a wrong choice: one sentence each."""
    scene = thrown()
    with torch.no_grad(), pytest.raises(UserError, match="needs the film"):
        MatchedLoss().observe(scene, scene.rollout(), {}, None)
    with pytest.raises(UserError, match="colors 'pixel' is unknown"):
        LookSettings(colors="pixel")
    with pytest.raises(UserError, match="no ground for the look's shadow"):
        Comparison.of(scene, MatchedLoss(LookSettings(shadow=True)), film_of(scene))
