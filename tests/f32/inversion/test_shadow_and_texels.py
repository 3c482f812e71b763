"""Parts of a look that are off by default: shadows on the ground, and colours finer than the mesh."""

import numpy as np
import pytest
import torch

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, LookSettings, MatchedLoss, Scene, Start, Surface
from risp_torch.inversion.appearance.model.lattice import Lattice
from risp_torch.inversion.appearance.model.palette import Palette
from risp_torch.inversion.appearance.model.shadow import slopes
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.scene.view.flattened import flattened
from risp_torch.scene.view.unlit import UnlitRenderInputs

PATCHES = np.random.default_rng(2).uniform(0.1, 0.9, size=(4, 4, 3))


def over_ground(*, speed=0.5, height=0.08, size=0.06, surface=None):
    """A box that flies and turns above a ground, in pictures of 40 pixels."""
    scene = Scene(frame_dt=0.02, frames=10, substeps=4, name="flown", gravity=(0.0, 0.0, 0.0))
    scene.add_ground(contact=Contact(stiffness=100.0, damping=0.1, friction_stiffness=1.0, friction=0.2), color=(0.5, 0.45, 0.4))
    scene.add_rigid(
        "box", shape=Box(size, size, size), density=500.0, surface=surface or Surface(color=(0.8, 0.3, 0.2)),
        start=Start(position=(-0.06, 0.0, height), velocity=(speed, 0.0, 0.0), angular_velocity=(4.0, 3.0, 5.0)),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(eye=(0.0, -0.45, 0.35), target=(0.0, 0.0, 0.03), vertical_fov=34.0, width=40, height=40, near=0.1, far=1.5)
    )
    scene.add_light(DirectionalLight(direction=(0.5, 0.2, -1.0), intensity=0.6))
    scene.add_light(AmbientLight(intensity=0.3))
    return scene


def patched():
    """A surface with patches on each side of the box: its mesh has twelve faces."""
    mesh = Box(1.0, 1.0, 1.0).surface()
    corners = mesh.vertices[mesh.faces] + 0.5
    flat = np.ptp(corners, axis=1).argmin(axis=1)
    uv = np.stack([np.delete(corners[k], flat[k], axis=1) for k in range(len(flat))])
    return Surface(texture=PATCHES, uv=uv, wrap="clamp")


def film_of(scene):
    with torch.no_grad():
        film = scene.render(scene.rollout())[0]
    return film + 0.005 * torch.as_tensor(np.random.default_rng(0).normal(size=film.shape)).to(film)


def losses(film, scenes, **look):
    """The matched losses of several scenes for a film."""
    comparison = Comparison.of(scenes[0], MatchedLoss(LookSettings(edges="scene", **look)), film)
    with torch.no_grad():
        return [float(comparison.losses(scene, {}, worlds=1)) for scene in scenes]


def lowest(film, **look):
    """The height that fits a film best, by a parabola through losses at three, and the loss at the true height."""
    heights = 0.08 + 0.002 * np.arange(-1, 2)
    left = losses(film, [over_ground(height=height) for height in heights], **look)
    a, b, _ = np.polyfit(heights - 0.08, left, 2)
    return 0.08 - 0.5 * b / a, left[1]


def test_a_shadow_on_the_ground():
    """A light between the directions, no robust weights: most of the shadow's residual goes, and of the height's error."""
    scene = over_ground()
    scene.set_shadows(center=(0.0, 0.0, 0.05), radius=0.2, resolution=128)
    film, plain = film_of(scene), {"robust_scale": float("inf")}
    (off, left_off), (on, left_on) = (lowest(film, shadow=shadow, **plain) for shadow in (False, True))
    (floor,) = losses(film_of(over_ground()), [over_ground()], **plain)
    assert left_on - floor < 0.4 * (left_off - floor)
    assert abs(on - 0.08) < 0.3 * abs(off - 0.08)


def test_no_shadow_is_found_where_there_is_none():
    """In a film without shadows their colours are nearly 0, and the loss is the same."""
    film = film_of(over_ground())
    comparison = Comparison.of(over_ground(), MatchedLoss(LookSettings(shadow=True, edges="scene")), film)
    with torch.no_grad():
        left = float(comparison.losses(over_ground(), {}, worlds=1))
    look = comparison.loss._begin.look
    assert np.abs(look.colors[-len(slopes()) :]).max() < 0.02
    assert left == pytest.approx(losses(film, [over_ground()])[0], rel=0.02)


def test_vertices_are_flattened_along_the_light():
    """A vertex at z over the ground lands z times the slope away; those of the bodies stay where they are."""
    scene = over_ground(speed=0.0)
    unlit_inputs = UnlitRenderInputs.of(scene, scene.rollout(), {}, [0])
    flat = flattened(unlit_inputs, np.array([[0.0, 0.0], [0.5, -1.0]])).arrays.vertices_rest.numpy(force=True)
    standing = unlit_inputs.rest + (-0.06, 0.0, 0.08)
    for vertices, slope in zip(flat, ((0.0, 0.0), (0.5, -1.0)), strict=True):
        expected = standing[:, :2] + standing[:, 2:] * slope
        np.testing.assert_allclose(vertices, np.column_stack([expected, np.zeros(len(expected))]), atol=1e-6)


@pytest.mark.parametrize("divisions", [1, 2, 5])
def test_a_lattice_reproduces_linear_colours(divisions):
    """Weights sum to those of the corners, and colours that are linear over a face are found again, on and in it."""
    lattice = Lattice(divisions)
    corners = np.random.default_rng(1).dirichlet(np.full(3, 0.5), size=200) * 0.7
    corners = np.concatenate([corners, np.eye(3), [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]])
    numbers, weights = lattice.weights(corners)
    i, j = lattice.places.T / divisions
    linear = 2.0 + 3.0 * i - 5.0 * j
    np.testing.assert_allclose((weights * linear[numbers]).sum(axis=1), corners @ (2.0, 5.0, -3.0), atol=1e-12)
    assert weights.min() > -1e-12
    steps = np.arange(divisions + 1) / divisions
    np.testing.assert_allclose(lattice.texels @ linear, 2.0 + 3.0 * steps - 5.0 * steps[:, None], atol=1e-12)


def test_texels_are_shared_across_smooth_edges():
    """Each side of a box is a square of (t + 1)^2 colours; with one division they are those of vertices."""
    mesh = Box(1.0, 1.0, 1.0).surface()
    body = np.zeros(len(mesh.vertices), dtype=np.int64)
    for t in (1, 2, 4):
        palette = Palette.of(mesh.faces, mesh.vertices, body, "texel", texels=t)
        assert palette.count == 6 * (t + 1) ** 2
        assert len(palette.neighbours) == 6 * (2 * t * (t + 1) + t * t)


def test_patches_on_a_box():
    """Without robust weights, the film of a box with textured sides leaves a seventh of what colours of its corners leave."""
    film, scene = film_of(over_ground(size=0.14, surface=patched())), over_ground(size=0.14)
    looks = {"colors": "vertex"}, {"colors": "texel", "texels": 8}
    vertex, texel = (losses(film, [scene], robust_scale=float("inf"), **look)[0] for look in looks)
    assert texel < vertex / 7


def test_silhouettes_do_not_change_with_texels():
    """Faces are not divided: what the bodies leave of the plate is the same to the last bit."""
    scene = over_ground(size=0.14)
    film = film_of(scene)
    left = []
    for look in ({}, {"colors": "texel"}):
        comparison = Comparison.of(scene, MatchedLoss(LookSettings(exposure=True, **look)), film)
        with torch.no_grad():
            comparison.losses(scene, {}, worlds=1)
        left.append(comparison.loss._begin.system.plate_share)
    np.testing.assert_array_equal(*left)
