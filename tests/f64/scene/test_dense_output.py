"""Motions between frames: closed forms, velocities at the frames, order, and derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from risp_torch import LinkFrame, Revolute, Scene, Sphere, Spherical, States, check_torch
from risp_torch.scene.rotations import rotation_matrix
from risp_torch.scene.simulation.dense_output import Moments, placement_at, states_at
from tests.reference.control_scene import make_scene as sheet_scene
from tests.reference.full_scene import make_full_scene
from tests.reference.small_scenes import make_scene

STEP = 0.05  # s between frames
GRAVITY = torch.tensor([0.3, -0.2, -9.81], dtype=torch.float64)


def moments(times: torch.Tensor, frames: int, step: float = STEP) -> Moments:
    return Moments.of(times, step, frames - 1, torch.float64)


def states_of(body_q: torch.Tensor, body_qd: torch.Tensor, **particles: torch.Tensor) -> States:
    return States(body_q, body_qd, torch.full(body_q.shape[:1] + (1,), -1), **particles)


def thrown(times: torch.Tensor, spin: np.ndarray) -> States:
    """A body in free flight [1, T, 1, ...] that turns with a constant angular velocity, from an oblique orientation."""
    velocity = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    t = times[0, :, None, None]
    place = 0.4 + velocity * t + 0.5 * GRAVITY * t**2
    turn = Rotation.from_rotvec(np.outer(times[0].cpu().numpy(), spin)) * Rotation.from_rotvec([0.3, -1.0, 0.4])
    body_q = torch.cat([place, torch.tensor(turn.as_quat())[:, None]], dim=-1)[None]
    body_qd = torch.cat([velocity + GRAVITY * t, torch.tensor(spin).expand(len(t), 1, 3)], dim=-1)[None]
    return states_of(body_q, body_qd)


@pytest.mark.parametrize("spin", [(0.0, 0.0, 0.0), (1e-4, 2e-4, 0.0), (2.0, -1.0, 0.5), (40.0, -30.0, 20.0)])
def test_free_flight_and_constant_spin_are_exact(spin: tuple[float, float, float]) -> None:
    """Also before the first and after the last frame, and by more than a radian per frame."""
    frames = STEP * torch.arange(6, dtype=torch.float64)[None]
    times = torch.tensor([[-0.02, 0.0, 0.013, 0.05, 0.0731, 0.2499, 0.25, 0.27]], dtype=torch.float64)
    found, exact = states_at(thrown(frames, np.array(spin)), moments(times, 6)), thrown(times, np.array(spin))
    torch.testing.assert_close(found.body_q[..., :3], exact.body_q[..., :3], rtol=0, atol=1e-13)
    torch.testing.assert_close(found.body_qd, exact.body_qd, rtol=0, atol=2e-11)
    turns = rotation_matrix(found.body_q[..., 3:]), rotation_matrix(exact.body_q[..., 3:])
    torch.testing.assert_close(*turns, rtol=0, atol=2e-12)


def tumbling(times: np.ndarray) -> States:
    """A nutating body on a spiral, and a particle: smooth, with exact velocities."""
    outer, inner = np.array([0.0, 0.0, 5.0]), np.array([7.0, 0.0, 2.0])
    first, second = Rotation.from_rotvec(np.outer(times, outer)), Rotation.from_rotvec(np.outer(times, inner))
    spin = outer + first.apply(inner)
    place = np.stack([np.cos(4 * times), np.sin(4 * times), np.exp(times)], axis=1)
    velocity = np.stack([-4 * np.sin(4 * times), 4 * np.cos(4 * times), np.exp(times)], axis=1)
    body_q = torch.tensor(np.concatenate([place, (first * second).as_quat()], axis=1))[None, :, None]
    body_qd = torch.tensor(np.concatenate([velocity, spin], axis=1))[None, :, None]
    return states_of(body_q, body_qd, particle_q=body_q[..., :3] ** 2, particle_qd=2 * body_q[..., :3] * body_qd[..., :3])


def test_the_error_is_of_fourth_order() -> None:
    errors = []
    for count in (10, 20, 40):
        step = 0.8 / count
        times = np.linspace(0.0, 0.8, 333)
        found = states_at(tumbling(step * np.arange(count + 1)), moments(torch.tensor(times)[None], count + 1, step))
        exact = tumbling(times)
        turn = (rotation_matrix(found.body_q[..., 3:]) - rotation_matrix(exact.body_q[..., 3:])).abs().max()
        place = (found.body_q[..., :3] - exact.body_q[..., :3]).abs().max()
        particle = (found.particle_q - exact.particle_q).abs().max()
        rates = (found.body_qd - exact.body_qd)[..., :3].abs().max(), (found.body_qd - exact.body_qd)[..., 3:].abs().max()
        errors.append([float(error) for error in (turn, place, particle, *rates)])
    ratios = np.array(errors[1:]) / np.array(errors[:-1])
    assert (ratios[:, :3] < 1 / 14).all(), ratios  # 1/16: fourth order
    assert (ratios[:, 3:] < 1 / 7).all(), ratios  # 1/8: velocities are of third order


def wild(frames: int = 4, seed: int = 0) -> States:
    """Two worlds of two bodies and two particles with random states, which need not belong to a motion."""
    rng = np.random.default_rng(seed)
    body_q = rng.normal(size=(2, frames, 2, 7))
    body_q[..., 3:] = (Rotation.from_rotvec(rng.normal(size=(2 * frames * 2, 3)))).as_quat().reshape(2, frames, 2, 4)
    others = (3 * rng.normal(size=(2, frames, 2, 6)), rng.normal(size=(2, frames, 2, 3)), rng.normal(size=(2, frames, 2, 3)))
    body_qd, particle_q, particle_qd = (torch.tensor(array) for array in others)
    return states_of(torch.tensor(body_q), body_qd, particle_q=particle_q, particle_qd=particle_qd)


def test_the_derivative_at_the_frames_is_the_velocity() -> None:
    """From both sides, so that the motion has no kinks; orientations turn by the angular velocity."""
    states, small = wild(), 1e-6
    for frame in (1, 2):
        for side in (-1, 1):
            times = torch.full((2, 2), frame * STEP, dtype=torch.float64)
            times[:, 1] += side * small
            at = states_at(states, moments(times, 4))
            step = (at.body_q[:, 1] - at.body_q[:, 0]) / (side * small)
            torch.testing.assert_close(step[..., :3], states.body_qd[:, frame, :, :3], rtol=0, atol=2e-2)
            torch.testing.assert_close(at.body_qd[:, 0], states.body_qd[:, frame], rtol=0, atol=1e-12)
            turn = rotation_matrix(at.body_q[..., 3:])
            rate = (turn[:, 1] - turn[:, 0]) @ turn[:, 0].mT / (side * small)
            spin = torch.stack([rate[..., 2, 1], rate[..., 0, 2], rate[..., 1, 0]], dim=-1)
            torch.testing.assert_close(spin, states.body_qd[:, frame, :, 3:], rtol=0, atol=2e-2)
            drift = (at.particle_q[:, 1] - at.particle_q[:, 0]) / (side * small)
            torch.testing.assert_close(drift, states.particle_qd[:, frame], rtol=0, atol=2e-2)


def test_the_derivative_of_the_motion_is_its_velocity() -> None:
    states, small = wild(seed=1), 1e-6
    middle = torch.linspace(0.003, 2.9 * STEP, 7, dtype=torch.float64).expand(2, -1)
    before, now, after = (states_at(states, moments(middle + shift, 4)) for shift in (-small, 0.0, small))
    velocity = (after.body_q - before.body_q)[..., :3] / (2 * small)
    torch.testing.assert_close(velocity, now.body_qd[..., :3], rtol=1e-8, atol=1e-7)
    turn = rotation_matrix(now.body_q[..., 3:])
    rate = (rotation_matrix(after.body_q[..., 3:]) - rotation_matrix(before.body_q[..., 3:])) @ turn.mT / (2 * small)
    spin = torch.stack([rate[..., 2, 1], rate[..., 0, 2], rate[..., 1, 0]], dim=-1)
    torch.testing.assert_close(spin, now.body_qd[..., 3:], rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_derivatives_by_states_and_times(size: float) -> None:
    """Large rotations between frames, and ones for which the series are used; only along unit quaternions."""
    states = wild(seed=2)
    times = np.array([[-0.01, 0.02, 0.061, 0.11], [0.003, 0.049, 0.12, 0.17]])
    weights = torch.tensor(np.random.default_rng(3).normal(size=(2, 4, 4, 7)))

    def loss(given: dict[str, torch.Tensor]) -> torch.Tensor:
        raw = given["turn"] * size + torch.tensor([0.1, 0.2, -0.3, 1.0])
        body_q = torch.cat([given["place"], raw / raw.norm(dim=-1, keepdim=True)], dim=-1)
        at = states_of(body_q, given["rate"], particle_q=given["place"], particle_qd=given["rate"][..., 3:])
        return (weights * placement_at(at, moments(given["times"], 4))).sum()

    place, turn = states.body_q[..., :3].cpu().numpy(), states.body_q[..., 3:].cpu().numpy()
    point = {"place": place, "turn": turn, "rate": states.body_qd.cpu().numpy(), "times": times}
    check_torch(loss, point, step=1e-4, order=4, rtol=1e-6, max_entries=20).raise_if_wrong()


def test_forward_mode_agrees_with_reverse_mode() -> None:
    """Pictures at times: forward through the interpolation and the renderer."""
    scene = make_scene()
    with torch.no_grad():
        states = scene.rollout()
    times = torch.tensor([[0.0012, 0.0071, 0.0183]], dtype=torch.float64)

    def pictures(at: torch.Tensor) -> torch.Tensor:
        return scene.render(placement_at(states, Moments.of(at, scene.frame_dt, 4, torch.float64)))

    along = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    images, forward = torch.func.jvp(pictures, (times,), (along,))
    weights = torch.tensor(np.random.default_rng(5).normal(size=images.shape))
    given = times.clone().requires_grad_()
    (reverse,) = torch.autograd.grad((weights * pictures(given)).sum(), given)
    assert float((reverse * along).sum()) == pytest.approx(float((weights * forward).sum()), rel=1e-10)
    assert float(reverse.abs().max()) > 1.0


def swinging() -> Scene:
    """Two links with their centres of mass off the joints' axes, and a drive."""
    scene = Scene(frame_dt=0.02, frames=4, substeps=20, name="swinging")
    ball = {"shape": Sphere(radius=0.05), "mass": 0.5}
    scene.add_link("upper", frame=LinkFrame(length=0.4), joint=Revolute(axis=(0.0, -1.0, 0.0), angle=0.7, rate=2.0), **ball)
    scene.add_link(
        "lower", frame=LinkFrame(parent="upper", at_tip=True, length=0.4),
        joint=Spherical(turn=(0.2, -0.1, 0.3), rate=(0.5, 4.0, -3.0)), **ball,
    )  # fmt: skip
    scene.add_motors("hip", joints=["upper"], actions=[[1.0], [-2.0], [3.0], [0.5]], gain=0.3)
    return scene


MAKERS = [(make_scene, 5, 0.25), (make_full_scene, 5, 0.25), (sheet_scene, 4, -0.25), (swinging, 4, -0.25)]


@pytest.mark.parametrize(("make", "states_per_interval", "late"), MAKERS)
def test_states_between_frames_are_those_of_finer_frames(
    make: Callable[[], Scene], states_per_interval: int, late: float
) -> None:
    """Rigid bodies, links and deformable bodies, driven by rows over time: kept states are the same, whatever is between."""
    coarse, fine = make(), make()
    plain = coarse.rollout()
    coarse.set_film(states_per_interval=1)
    fine.set_film(states_per_interval=states_per_interval)
    for scene in (coarse, fine):
        torch.testing.assert_close(scene.rollout().placement, plain.placement, rtol=0, atol=1e-12)
        scene.set("film.start", -late * scene.frame_dt)
    first = 0 if late > 0 else 1  # before its start a motion is continued with its first acceleration, which differs
    found, finer = (scene.rollout().placement[:, first:] for scene in (coarse, fine))
    moved = (plain.placement[:, 1:] - plain.placement[:, :-1]).abs().max()
    assert 0 < (found - finer).abs().max() < 0.01 * moved
