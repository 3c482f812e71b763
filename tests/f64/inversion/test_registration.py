"""Registration: frames are fitted to their pictures one by one, and a sequence of actions to the motion of the frames."""

import numpy as np
import pytest
import torch

from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import linearise, losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.solvers.refinement import refined
from risp_torch.inversion.solvers.registration.frame_modes import MAX_MODES, frame_modes
from risp_torch.inversion.solvers.registration.frame_steps import FrameSteps
from risp_torch.inversion.solvers.registration.motion_loss import Reference
from risp_torch.inversion.solvers.registration.rounds import needs_registration, registered
from risp_torch.inversion.solvers.registration.tangent import Tangent, with_placement
from risp_torch.risp.loss import RispLoss
from tests.reference.flying_box import flying_box

FRAMES, ROTORS, NAME = 10, 5, "rotors.actions"  # 50 unknowns
PLACES = np.array([(0.05, 0.04, 0.0), (-0.05, 0.04, 0.0), (-0.05, -0.04, 0.0), (0.05, -0.04, 0.0), (0.0, 0.0, 0.0)])
HOVER = 500.0 * 0.1 * 0.08 * 0.06 * 9.81 / ROTORS  # N


def rotored():
    """A box that hovers on five rotors, its true thrusts [FRAMES, rotors], and the unknowns."""
    scene = flying_box(frames=FRAMES)
    scene.set("box.velocity", (0.2, 0.1, 0.1))
    scene.set("box.angular_velocity", (1.0, -1.0, 2.0))
    truth = HOVER * (1.0 + 0.3 * np.random.default_rng(0).normal(size=(FRAMES, ROTORS)))
    scene.add_rotors("rotors", body="box", positions=PLACES, yaw_reaction=[0.02, -0.02, 0.02, -0.02, 0.0], actions=truth)
    return scene, truth, Unknowns.of(scene, (NAME,), bounds={NAME: (-3.0, 4.0)})


def comparison_of(scene, loss):
    """The comparison with the scene's own film."""
    with torch.no_grad():
        return Comparison.of(scene, loss, scene.render(scene.rollout({}), {})[0])


def placements(seed=0, bodies=2, particles=3):
    """A tangent of two bodies and three particles, and placements [4, 5, 7]."""
    random = torch.Generator().manual_seed(seed)
    placement = torch.randn(4, bodies + particles, 7, generator=random, dtype=torch.float64)
    placement[:, :bodies, 3:] /= placement[:, :bodies, 3:].norm(dim=-1, keepdim=True)
    placement[:, bodies:, 3:] = 0.0
    return Tangent(bodies, particles, torch.tensor([0.2, 0.5], dtype=torch.float64)), placement


def test_a_change_leads_from_one_placement_to_another():
    tangent, placement = placements()
    change = torch.randn(4, tangent.count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert tangent.count == 2 * 6 + 3 * 3
    for size, tolerance in ((1e-2, 1e-6), (1e-4, 1e-12)):  # the error is of third order, 1/24 of the turn's cube
        moved = tangent.moved(placement, size * change)
        torch.testing.assert_close(moved[:, :2, 3:].norm(dim=-1), torch.ones(4, 2, dtype=torch.float64))
        torch.testing.assert_close(tangent.between(placement, moved), size * change, atol=20 * tolerance, rtol=0)
    flipped = placement.clone()
    flipped[:, :2, 3:] *= -1  # the same rotations
    torch.testing.assert_close(tangent.between(placement, flipped), torch.zeros(4, tangent.count, dtype=torch.float64))


def test_a_turn_is_measured_at_the_bodys_size():
    """A turn by c / radius about z takes a point at that distance along by c."""
    tangent, placement = placements()
    placement[:, :2, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    change = torch.zeros(tangent.count, dtype=torch.float64)
    change[6 + 5] = 1e-3  # of the second body, about z
    q = tangent.moved(placement, change)[0, 1, 3:]
    assert float(2 * q[2] / q[3] * 0.5) == pytest.approx(1e-3, rel=1e-6)


def test_modes_are_the_directions_of_strongest_response():
    random = np.random.default_rng(0)
    wide = random.normal(size=(2, 30, 4)) @ random.normal(size=(2, 4, 50))  # four directions
    many = random.normal(size=(1, 30, 50))
    jacobian = torch.as_tensor(np.concatenate([np.zeros((1, 30, 50)), wide, many]))
    modes = frame_modes(jacobian)
    assert modes.shape == (4, MAX_MODES, 30)
    assert (modes[0] == 0).all() and (modes[1:3, 4:] == 0).all() and (modes[3].norm(dim=1) > 0.99).all()
    for k in (1, 2):
        torch.testing.assert_close(modes[k, :4] @ modes[k, :4].T, torch.eye(4, dtype=torch.float64))
        torch.testing.assert_close(modes[k].T @ (modes[k] @ jacobian[k]), jacobian[k])
    left = jacobian[3] - modes[3].T @ (modes[3] @ jacobian[3])
    assert float(torch.linalg.matrix_norm(left, 2)) == pytest.approx(float(torch.linalg.svdvals(jacobian[3])[MAX_MODES]))


def test_in_a_held_look_a_frame_shows_its_own_placement_alone():
    scene, _, _ = rotored()
    comparison = comparison_of(scene, MatchedLoss())
    with torch.no_grad():
        states = scene.rollout({}, worlds=1)
        tangent = Tangent.of(scene, states.placement)
        moved = states.placement.clone()
        moved[:, 3, 0, 0] += 0.01
        changed = {}
        for follows in (False, True):
            held = comparison.loss.frozen_at(scene, states, {}, None, follows=follows)
            first, last = (held.observe(scene, with_placement(states, q, tangent), {}, None) for q in (states.placement, moved))
            changed[follows] = (last - first)[0, :, :-1].abs().amax(dim=1)  # but for the look's own regularisation
    others = torch.arange(FRAMES + 1) != 3
    assert float(changed[False][3]) > 1e-2 and (changed[False][others] == 0).all()
    assert (changed[True][others] > 0).all()


def test_unknowns_follow_a_known_motion():
    """Weighted changes of the motion are linear in the thrusts to first order: Gauss-Newton steps end at those that made it."""
    scene, truth, unknowns = rotored()
    with torch.no_grad():
        true, begin = scene.rollout({}, worlds=1), np.full((FRAMES, ROTORS), HOVER)
        start = scene.rollout({NAME: torch.as_tensor(begin)[None]}, worlds=1)
    frames = tuple(range(FRAMES + 1))
    reference = Reference(start.placement[0], Tangent.of(scene, true.placement), frames, 100.0)
    comparison = reference.comparison(reference.observed(true.placement)[0])
    ends, losses = refined(scene, comparison, unknowns, begin.reshape(1, -1), 4, History(), thorough=False, progress=False)
    at = linearise(scene, comparison, unknowns, ends[0])
    seen = np.linalg.eigvalsh(at.normal_equations[0])
    # Five rotors make four forces.
    assert comparison.observation_count == 100.0 and losses[0] < 1e-12 and seen[0] < 1e-6 * seen[-1]
    with torch.no_grad():
        found = scene.rollout({NAME: torch.as_tensor(ends.reshape(1, FRAMES, ROTORS))}, worlds=1)
    torch.testing.assert_close(found.body_q, true.body_q, atol=1e-5, rtol=0)


def test_registered_frames_find_their_placements():
    """From placements that are wrong by some millimetres in all six directions, but for the first one, which cannot move."""
    scene, _, _ = rotored()
    comparison = comparison_of(scene, PixelLoss())
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        states = scene.rollout({}, worlds=1)
        true, tangent = states.placement[0], Tangent.of(scene, states.placement)
        modes = torch.eye(6, dtype=torch.float64).expand(FRAMES + 1, 6, 6) * (torch.arange(FRAMES + 1) > 0)[:, None, None]
        change = 0.003 * torch.randn(FRAMES + 1, 6, generator=random, dtype=torch.float64)
        change[0] = 0.0
        steps = FrameSteps(scene, comparison, states, {}, tangent, modes, tangent.extent(true))
        found, normal = steps.registered(tangent.moved(true, change), 12)
    left = tangent.between(true, found)[:, :3].norm(dim=1)
    assert left[0] == 0 and (normal[0] == 0).all()
    assert float(left[1:].median()) < 1e-6 and int((left[1:] < 1e-4).sum()) >= FRAMES - 1  # one is in a local minimum


@pytest.mark.parametrize(
    ("loss", "offs"), [(PixelLoss(), (0.12, 0.16)), (MatchedLoss(LookSettings(edges="scene")), (0.045, 0.055))],
    ids=["pixel", "matched"],
)  # fmt: skip
def test_rounds_of_registration_find_a_sequence(loss, offs):
    """From two starts: both come near, and the best one finds it.

    Frames may end in local minima, and in which ones is decided by roundings, which processors have differently.
    """
    scene, truth, unknowns = rotored()
    comparison = comparison_of(scene, loss)
    assert needs_registration(comparison, unknowns)
    begin = np.stack([(truth + off * np.sin(np.arange(FRAMES))[:, None] * np.arange(-2, 3)).ravel() for off in offs])
    history = History()
    ends = registered(scene, comparison, unknowns, begin, history, progress=False)
    losses = losses_at(scene, comparison, unknowns, unknowns.scaled(np.concatenate([begin, ends, truth.reshape(1, -1)])))
    first, last = losses[: len(offs)] - losses[-1], losses[len(offs) : -1] - losses[-1]
    assert (last < 0.5 * first).all() and (last < 0.05 * first).any()
    np.testing.assert_allclose(history.losses[-1].cpu().numpy(), last + losses[-1], rtol=1e-3, atol=1e-9)

    def off(values):
        with torch.no_grad():
            rows = torch.as_tensor(np.stack([values.reshape(FRAMES, ROTORS), truth]))
            body_q = scene.rollout({NAME: rows}, worlds=2).body_q[..., :3]
        return float((body_q[0] - body_q[1]).norm(dim=-1).mean())

    best = int(last.argmin())
    assert off(ends[best]) < (0.1 if loss.kind == "pixel" else 1.0) * off(begin[best])  # few pixels tell little of box and look


def test_what_is_not_registered():
    """Few unknowns, single pictures, losses of networks, and films with motion blur, whose frames show several placements."""
    scene, truth, unknowns = rotored()
    comparison = comparison_of(scene, PixelLoss())
    assert needs_registration(comparison, unknowns)
    assert not needs_registration(Comparison.of(scene, PixelLoss(), comparison.target, "last"), unknowns)
    assert not needs_registration(comparison, Unknowns.of(scene, ("box.velocity",), bounds={"box.velocity": (-2.0, 2.0)}))
    assert RispLoss.non_smooth
    scene.set_film(times=0.02 * np.arange(FRAMES - 1), exposure=0.01)
    comparison, begin, history = comparison_of(scene, PixelLoss()), 1.1 * truth.reshape(1, -1), History()
    assert (registered(scene, comparison, unknowns, begin, history, progress=False) == begin).all() and not history.losses
