"""Inversions by the solved look of a film with motion blur, in a look that the scene knows nothing of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Camera,
    DirectionalLight,
    LookSettings,
    MatchedLoss,
    NewtonSteps,
    Scene,
    SearchStages,
    Sphere,
    Start,
    Surface,
    invert,
)

SPEED, EXPOSURE = 2.4, 0.01  # m/s; s, half of the time from picture to picture


def thrown(exposure, *, color=(0.8, 0.3, 0.2), key=0.7, top=(0.2, 0.3, 0.6), samples=8):
    """A ball that flies through 32 pixels' pictures, a third of its width in an exposure."""
    scene = Scene(frame_dt=0.02, frames=6, substeps=5, name="thrown")
    scene.add_rigid(
        "ball", shape=Sphere(0.04), density=500.0, surface=Surface(color=color),
        start=Start(position=(-0.13, 0.0, 0.06), velocity=(2.0, 0.1, 0.6)),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(eye=(0.0, -0.5, 0.1), target=(0.0, 0.0, 0.05), vertical_fov=34.0, width=32, height=32, near=0.1, far=1.5)
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=key))
    scene.add_light(AmbientLight(intensity=0.25))
    scene.set_background(top=top, bottom=(0.7, 0.6, 0.4))
    scene.set_film(exposure=exposure, samples=samples)
    return scene


@pytest.fixture(scope="module")
def film():
    """A film of twice as many moments as the inversions', with noise."""
    scene = thrown(EXPOSURE, color=(0.1, 0.7, 0.3), key=0.3, top=(0.8, 0.2, 0.2), samples=16)
    scene.set("ball.velocity", (SPEED, 0.1, 0.6))
    with torch.no_grad():
        pictures = scene.render(scene.rollout())[0]
    noise = torch.as_tensor(np.random.default_rng(0).normal(size=pictures.shape)).to(pictures)
    return (pictures + 0.01 * noise).clamp(0, 1)


def found(film, exposure, **more):
    """Values and standard deviations of the speed and of other unknowns with their bounds and starts."""
    unknowns = {"ball.velocity[0]": ((1.5, 3.5), 2.1)} | more
    result = invert(
        thrown(exposure), film, list(unknowns), bounds={name: bounds for name, (bounds, _) in unknowns.items()},
        starts=[{name: start for name, (_, start) in unknowns.items()}],
        loss=MatchedLoss(LookSettings(edges="scene")), search=SearchStages(steps=NewtonSteps(rounds=5), refine=1), progress=False,
    )  # fmt: skip
    return [(result.values[name], result.sd[name]) for name in unknowns]


def test_speed_of_a_blurred_film(film):
    """With the exposure the speed is found within three bars; without, it is far off."""
    ((value, sd),) = found(film, EXPOSURE)
    assert abs(value - SPEED) < 0.003
    assert abs(value - SPEED) < 3 * sd < 0.01
    ((without, _),) = found(film, 0.0)
    assert abs(without - SPEED) > 10 * abs(value - SPEED)


def test_speed_and_exposure(film):
    """Both are found within three bars."""
    (speed, speed_sd), (exposure, exposure_sd) = found(film, 0.005, **{"film.exposure": ((0.001, 0.018), 0.006)})
    assert abs(speed - SPEED) < 3 * speed_sd < 0.01
    assert abs(exposure - EXPOSURE) < 3 * exposure_sd < 3e-4
