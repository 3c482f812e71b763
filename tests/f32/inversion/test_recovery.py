"""What pictures alone give back: a pose, a texture, a light's direction, a focal length and a shape.

The pictures to explain are made with sharper edges, finer shadows and more samples than the search has, and go through 8-bit sRGB
as a photograph would. Searches start far away and see these pictures and what each test calls known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from risp_torch import AmbientLight, Camera, Capsule, Contact, DirectionalLight, Mesh, PictureStyle, Scene, Sphere, Surface
from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.inversion.losses.mesh_regularisation import flattening_loss, laplacian_loss, mesh_neighbours
from risp_torch.scene import bridge
from risp_torch.scene.numbers import constant
from risp_torch.scene.rotations import quaternion_product, rotation_quaternion
from tests.reference.silhouettes import silhouette_iou
from ti_render import (
    RasterSettings,
    RenderInputs,
    intrinsics_from_fov,
    look_at,
    mesh_topology,
    pack_camera,
    render,
    render_adjoint,
    render_jvp,
)  # fmt: skip

COLORS = np.array([
    (0.8, 0.15, 0.1), (0.1, 0.5, 0.8), (0.9, 0.75, 0.1), (0.15, 0.65, 0.2), (0.55, 0.2, 0.7), (0.9, 0.5, 0.2),
    (0.85, 0.85, 0.8), (0.2, 0.25, 0.35),
])  # fmt: skip
IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


# -- pictures and searches ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """How sharp a picture is: softness of edges and depth order, samples along a pixel's side, shadow maps."""

    sigma: float
    gamma: float
    antialias: int = 1
    shadow_texels: int = 192
    shadow_sigma: float = 7e-5


SHARP = Look(sigma=1e-7, gamma=1e-4, antialias=6, shadow_texels=256, shadow_sigma=5e-5)


@dataclass(frozen=True)
class Stage:
    """A part of a search: the look of its pictures, the blur [pixels] under which they are compared, steps, first damping."""

    look: Look
    blur: float
    steps: int
    damping: float = 1.0


Film = Callable[[torch.Tensor], torch.Tensor]  # parameters [B, K] to pictures [B, H, W, C]


def photograph(pictures: torch.Tensor) -> torch.Tensor:
    """Pictures as an 8-bit sRGB file would hold them, linear again."""
    stored = np.round(255.0 * linear_to_srgb(pictures.detach().clamp(0.0, 1.0).cpu().numpy())) / 255.0
    return constant(srgb_to_linear(stored))


def blurred(pictures: torch.Tensor, width: float) -> torch.Tensor:
    """Square pictures [..., H, H, C] under a Gaussian of standard deviation ``width`` pixels, normalised at the border."""
    places = torch.arange(pictures.shape[-2], dtype=pictures.dtype, device=pictures.device)
    weights = torch.exp(-0.5 * ((places - places[:, None]) / width) ** 2)
    weights = weights / weights.sum(dim=1, keepdim=True)
    return torch.einsum("ij,...jkc,lk->...ilc", weights, pictures, weights)


def searched(film: Callable[[Look], Film], pictures: torch.Tensor, start: torch.Tensor, stages: Sequence[Stage]) -> torch.Tensor:
    """Parameters [B, K] that explain pictures [B, H, H, C], from the start [B, K], coarse to fine."""
    point = start
    for stage in stages:
        point, _ = levenberg_marquardt(film(stage.look), pictures, point, stage)
    return point


def levenberg_marquardt(
    film: Film, pictures: torch.Tensor, point: torch.Tensor, stage: Stage, *, longest: float = 0.3
) -> tuple[torch.Tensor, torch.Tensor]:
    """Least squares (Levenberg 1944, Marquardt 1963) of B pictures side by side, each with its own parameters.

    All columns of all Jacobians come from one forward-mode pass, and the damping is in parts of the mean diagonal entry of J^T J.

    Args:
        film: the pictures of parameters.
        pictures: [B, H, H, C] to explain.
        point: [B, K], start.
        stage: blur, number of steps tried, first damping.
        longest: norm of a step at most.

    Returns:
        Parameters [B, K] and sums of squares [B].
    """
    goal = blurred(pictures, stage.blur)

    def residual(at: torch.Tensor) -> torch.Tensor:
        return blurred(film(at), stage.blur) - goal

    damping = torch.full((len(point), 1, 1), stage.damping, dtype=torch.float64)
    identity = torch.eye(point.shape[1], dtype=torch.float64)
    with torch.no_grad():
        value = residual(point).flatten(1).double().cpu()
        for _ in range(stage.steps):
            jacobian = torch.func.jacfwd(lambda step, at=point: residual(at + step))(torch.zeros_like(point[0]))
            jacobian = jacobian.flatten(1, -2).double().cpu()
            normal = jacobian.transpose(1, 2) @ jacobian
            scale = normal.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None, None]
            gradient = jacobian.transpose(1, 2) @ value[..., None]
            step = -torch.linalg.solve(normal + damping * scale * identity, gradient)[..., 0]
            step = step * (longest / step.norm(dim=1, keepdim=True).clamp_min(longest))
            tried = point + step.to(point)
            found = residual(tried).flatten(1).double().cpu()
            better = ((found * found).sum(dim=1) < (value * value).sum(dim=1))[:, None]
            point = torch.where(better.to(point.device), tried, point)
            value = torch.where(better, found, value)
            damping = torch.where(better[..., None], damping / 5.0, damping * 4.0).clamp(1e-7, 1e7)
    return point, (value * value).sum(dim=1)


def unit_vectors(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    vectors = rng.standard_normal(shape)
    return constant(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def degrees_between(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Angles [degrees] between rows of vectors."""
    one, other = (torch.nn.functional.normalize(x.double(), dim=1) for x in (one, other))
    return torch.rad2deg(torch.acos((one * other).sum(dim=1).clamp(-1.0, 1.0)))


# -- scenes ---------------------------------------------------------------------------------------------------------------


def angled_block() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An L whose arms differ in length, width and height, which no rotation but none at all maps to itself.

    Returns:
        Vertices [12, 3] m, faces [20, 3], and the side (0 to 7) of each face [20].
    """
    outline = np.array([(0.0, 0.0), (0.1, 0.0), (0.1, 0.035), (0.04, 0.035), (0.04, 0.075), (0.0, 0.075)])
    heights = np.array([0.03, 0.03, 0.05, 0.05, 0.06, 0.06])
    vertices = np.concatenate([np.column_stack([outline, z]) for z in (np.zeros(6), heights)])
    ends = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)])
    here, there = np.arange(6), (np.arange(6) + 1) % 6
    walls = np.stack([here, there, there + 6, here, there + 6, here + 6], axis=1).reshape(-1, 3)
    sides = np.concatenate([np.full(4, 6), np.full(4, 7), np.repeat(here, 2)])
    return vertices, np.concatenate([ends[:, ::-1], ends + 6, walls]), sides


VERTICES, FACES, SIDES = angled_block()
WIDTH = float(np.ptp(VERTICES, axis=0).max())
CONTACT = Contact(stiffness=1e3, damping=1.0, friction_stiffness=1.0, friction=0.3)  # nothing moves here


def block_scene(look: Look, camera: Camera, *, table: bool = False) -> Scene:
    """The block in front of a grey background; with ``table``, on the ground with a ball (poses: TABLE)."""
    scene = Scene(
        frame_dt=1.0, frames=1, substeps=1, sigma=look.sigma, gamma=look.gamma, style=PictureStyle(antialias=look.antialias),
    )  # fmt: skip
    if table:
        scene.add_ground(contact=CONTACT, color=(0.5, 0.45, 0.4))
    block = Mesh(vertices=VERTICES, faces=FACES)
    scene.add_rigid("block", shape=block, density=1e3, surface=Surface(face_colors=COLORS[SIDES]))
    if table:
        scene.add_rigid("ball", shape=Sphere(0.025), density=1e3, surface=Surface(color=(0.7, 0.7, 0.7), smooth=True))
    scene.add_camera(camera)
    scene.add_light(DirectionalLight(direction=(0.4, 0.6, -1.0), intensity=0.6))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.3, 0.3, 0.3))
    return scene


TABLE = ((-0.01, 0.0, 0.026, 0.0, 0.0, 0.0, 1.0), (0.07, -0.07, 0.025, 0.0, 0.0, 0.0, 1.0))


def table_poses(worlds: int) -> torch.Tensor:
    return constant(TABLE).expand(worlds, 1, 2, 7)


# -- the pose of a body ---------------------------------------------------------------------------------------------------


def test_poses_from_one_picture_each() -> None:
    # Known: the block's shape and colours, the camera and the light. Unknown: position and orientation.
    rng = np.random.default_rng(0)
    cases, tries = 4, 7
    true_turn, axis, way = unit_vectors(rng, cases, 4), unit_vectors(rng, cases, 3), unit_vectors(rng, cases, 3)
    first_turn = quaternion_product(rotation_quaternion(math.radians(40.0) * axis), true_turn)
    first_place = 0.5 * WIDTH * way

    def pose(change: torch.Tensor) -> torch.Tensor:
        """Poses [B, 7] from changes [B, 6] (parts of WIDTH, rad) of the start, of one or several tries for each case."""
        place, turn = (x.repeat_interleave(len(change) // cases, dim=0) for x in (first_place, first_turn))
        return torch.cat([place + WIDTH * change[:, :3], quaternion_product(rotation_quaternion(change[:, 3:]), turn)], dim=1)

    def scene(look: Look, size: int = 112) -> Scene:
        eye, middle = (0.08, -0.2, 0.13), (0.0, 0.0, 0.0)
        view = {"vertical_fov": 50.0, "width": size, "height": size, "near": 0.05, "far": 1.0}
        return block_scene(look, Camera.look_at(eye=eye, target=middle, **view))

    def film(look: Look, size: int = 112) -> Film:
        made = scene(look, size)
        return lambda change: made.render(pose(change)[:, None, None])[:, 0]

    truth = torch.cat([torch.zeros_like(way), true_turn], dim=1)
    with torch.no_grad():
        pictures = photograph(scene(SHARP).render(truth[:, None, None])[:, 0])
    # Far from the truth there are other minima: look from the start, and from the start turned by half a radian, six ways.
    turned = torch.cat([torch.zeros(1, 6), 0.5 * torch.eye(6)[3:], -0.5 * torch.eye(6)[3:]]).to(pictures)
    small = pictures.unflatten(2, (56, 2)).unflatten(1, (56, 2)).mean(dim=(2, 4)).repeat_interleave(tries, dim=0)
    coarse = Stage(Look(3e-4, 1e-2), blur=4.5, steps=20)
    change, losses = levenberg_marquardt(film(coarse.look, 56), small, turned.repeat(cases, 1), coarse)
    best = losses.reshape(cases, tries).argmin(dim=1).to(change.device)
    change = change.reshape(cases, tries, 6)[torch.arange(cases, device=change.device), best]
    stages = [
        Stage(Look(1e-4, 3e-3), blur=3.0, steps=12),
        Stage(Look(3e-5, 1e-3), blur=1.5, steps=10, damping=0.1),
        Stage(Look(3e-6, 5e-4, antialias=2), blur=1.0, steps=10, damping=0.1),
        Stage(Look(1e-6, 2e-4, antialias=4), blur=1.0, steps=4, damping=1e-3),
    ]
    found = pose(searched(film, pictures, change, stages))
    cosine = (found[:, 3:].double() * true_turn.double()).sum(dim=1).abs().clamp(max=1.0)
    angles, offsets = torch.rad2deg(2.0 * torch.acos(cosine)), found[:, :3].norm(dim=1) / WIDTH
    print(f"poses: angles {angles.max():.3f} degrees, offsets {100 * offsets.max():.2f} % of the width at most")
    assert angles.max() < 1.0
    assert offsets.max() < 0.01


# -- a texture ------------------------------------------------------------------------------------------------------------


def globe(texture: np.ndarray, look: Look, shading: str = "lambert") -> tuple[RenderInputs, RasterSettings]:
    scene = Scene(
        frame_dt=1.0, frames=1, substeps=1, sigma=look.sigma, gamma=look.gamma,
        style=PictureStyle(antialias=look.antialias, shading=shading),
    )  # fmt: skip
    scene.add_rigid("globe", shape=Sphere(0.05, subdivisions=3), density=1e3, surface=Surface(texture=texture, smooth=True))
    view = {"vertical_fov": 28.0, "width": 128, "height": 128, "near": 0.05, "far": 1.0}
    scene.add_camera(Camera.look_at(eye=(0.1, -0.2, 0.1), target=(0.0, 0.0, 0.0), **view))
    scene.add_light(DirectionalLight(direction=(0.4, 0.6, -1.0), intensity=0.6))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.3, 0.3, 0.3))
    pose = constant([0.0, 0.0, 0.0, 0.3, 0.2, 0.1, 0.9])
    pose = pose / torch.cat([pose.new_ones(3), pose[3:].norm().expand(4)])
    return scene.view.render_inputs(scene.table.values(worlds=1), pose.expand(1, 1, 1, 7)), scene.view.raster_settings()


def texel_weights(texture: np.ndarray, look: Look) -> torch.Tensor:
    """[X] pixels' worth of the picture that every texel makes: how visible it is."""
    result = render(*globe(texture, look, shading="none"))
    red = torch.zeros_like(result.images)
    red[..., 0] = 1.0
    return render_adjoint(result, red).texels[0, :, 0]


def test_a_texture_from_one_picture() -> None:
    # Known: all but the texture. Texels are independent of each other, so that no assumption about pictures helps.
    look, grey = Look(1e-6, 2e-4, antialias=4), np.full((24, 48, 3), 0.5)
    texture = np.random.default_rng(0).uniform(0.1, 0.9, grey.shape)
    inputs, settings = globe(texture, SHARP)
    picture, truth = photograph(render(inputs, settings).images[..., :3]), inputs.texels
    weights = texel_weights(grey, look)
    inputs, settings = globe(grey, look)
    result = render(inputs, settings)

    # The picture is linear in the texels: conjugate gradients on the normal equations (Hestenes and Stiefel 1952), with texels
    # in units in which all are equally visible.
    units = 1.0 / torch.sqrt(1.0 + weights)[None, :, None]

    def forward(change: torch.Tensor) -> torch.Tensor:
        return render_jvp(result, {"texels": (units * change)[None]})[:, 0]

    def reverse(images: torch.Tensor) -> torch.Tensor:
        return units * render_adjoint(result, images).texels

    residual = torch.nn.functional.pad(picture - result.images[..., :3], (0, 1))
    change = torch.zeros_like(inputs.texels)
    direction = slope = reverse(residual)
    for _ in range(25):
        image = forward(direction)
        length = (slope * slope).sum() / (image * image).sum()
        change, residual = change + length * direction, residual - length * image
        last, slope = slope, reverse(residual)
        direction = slope + (slope * slope).sum() / (last * last).sum() * direction
    errors = ((inputs.texels + units * change - truth) ** 2).mean(dim=2)[0]

    def decibels(texels: torch.Tensor) -> float:
        return float(-10.0 * torch.log10(errors[texels].mean()))

    visible, clear = weights >= 1.0, weights >= 4.0
    start = float(-10.0 * torch.log10(((inputs.texels - truth) ** 2)[0, visible].mean()))
    print(
        f"texture: {decibels(visible):.1f} dB on {int(visible.sum())} texels of {len(weights)} with at least one pixel, "
        f"{decibels(clear):.1f} dB on {int(clear.sum())} with at least four; {start:.1f} dB at the start"
    )
    assert visible.sum() > 0.4 * len(weights)  # nearly half of a globe is seen
    assert decibels(visible) > 30.0
    assert decibels(clear) > 40.0


# -- a light --------------------------------------------------------------------------------------------------------------


def test_light_directions_from_one_picture_each() -> None:
    # Known: the bodies, the camera, the ground. Unknown: the light's direction and colour, and the ambient light's colour.
    rng = np.random.default_rng(2)
    cases = 4
    azimuth, away = rng.uniform(0.0, 2 * np.pi, cases), rng.choice([-1, 1], cases) * np.radians(rng.uniform(100, 180, cases))

    def travel(azimuth: np.ndarray) -> np.ndarray:
        height = np.radians(rng.uniform(30.0, 60.0, cases))
        return -np.stack([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)], axis=1)

    truth = constant(np.concatenate([travel(azimuth), rng.uniform(0.4, 0.8, (cases, 3)), rng.uniform(0.1, 0.3, (cases, 3))], 1))
    start = constant(np.concatenate([travel(azimuth + away), np.full((cases, 6), 0.3)], axis=1))
    assert degrees_between(start[:, :3], truth[:, :3]).min() > 45.0

    def film(look: Look) -> Film:
        view = {"vertical_fov": 40.0, "width": 80, "height": 80, "near": 0.05, "far": 1.0}
        scene = block_scene(look, Camera.look_at(eye=(0.12, -0.3, 0.25), target=(0.0, 0.0, 0.02), **view), table=True)
        scene.set_shadows(center=(0.0, 0.0, 0.03), radius=0.15, resolution=look.shadow_texels, sigma=look.shadow_sigma)

        def pictures(unknown: torch.Tensor) -> torch.Tensor:
            values = {
                "light.key.direction": unknown[:, :3],
                "light.key.intensity": unknown[:, 3:6].abs(),
                "light.ambient.intensity": unknown[:, 6:].abs(),
            }
            return scene.render(table_poses(len(unknown)), values)[:, 0]

        return pictures

    with torch.no_grad():
        pictures = photograph(film(SHARP)(truth))
    stages = [
        Stage(Look(3e-4, 1e-2, shadow_texels=64, shadow_sigma=1e-3), blur=3.0, steps=15),
        Stage(Look(1e-5, 1e-3, antialias=2), blur=1.0, steps=10),
    ]
    found = searched(film, pictures, start, stages)
    errors = degrees_between(found[:, :3], truth[:, :3])
    print(f"lights: {errors.max():.2f} degrees at most, intensities within {(found - truth)[:, 3:].abs().max():.3f}")
    assert errors.max() < 1.0
    assert (found - truth)[:, 3:].abs().max() < 0.03


# -- a camera -------------------------------------------------------------------------------------------------------------


def test_focal_lengths_from_one_picture_each() -> None:
    # Known: the bodies, the ground, the light. Unknown: the focal length and the camera's pose, which hides much of its effect.
    rng = np.random.default_rng(3)
    cases, eye = 4, constant((0.075, -0.17, 0.12))
    moves = [rng.uniform(-0.02, 0.02, (cases, 3)), rng.uniform(-0.1, 0.1, (cases, 3))]
    zoom = rng.choice([-1.0, 1.0], (cases, 1)) * rng.uniform(0.2, 0.3, (cases, 1))
    truth = constant(np.concatenate([10.0 * moves[0], moves[1], zoom], axis=1))  # in 0.1 m, rad, and logarithm

    def film(look: Look) -> Film:
        view = {"vertical_fov": 62.0, "width": 96, "height": 96, "near": 0.03, "far": 1.0}
        camera = Camera.look_at(eye=eye.tolist(), target=(0.02, -0.02, 0.02), **view)
        scene, focal = block_scene(look, camera, table=True), constant(camera.focal)

        def pictures(unknown: torch.Tensor) -> torch.Tensor:
            values = {
                "camera.position": eye + 0.1 * unknown[:, :3],
                "camera.turn": unknown[:, 3:6],
                "camera.focal": focal * torch.exp(unknown[:, 6:]),
            }
            return scene.render(table_poses(len(unknown)), values)[:, 0]

        return pictures

    with torch.no_grad():
        pictures = photograph(film(SHARP)(truth))
    stages = [
        Stage(Look(3e-4, 1e-2), blur=6.0, steps=20),
        Stage(Look(3e-6, 5e-4, antialias=2), blur=1.0, steps=15, damping=1e-3),
        Stage(Look(1e-6, 2e-4, antialias=4), blur=1.0, steps=6, damping=1e-4),
    ]
    found = searched(film, pictures, torch.zeros_like(truth), stages)
    errors = torch.expm1(found - truth)[:, 6].abs()
    places = 0.1 * (found - truth)[:, :3].norm(dim=1)
    print(f"focal lengths: {100 * errors.max():.2f} % at most, camera within {1000 * places.max():.2f} mm")
    # Half a pixel at the rim of the picture, 48 pixels from its middle; the camera, 0.24 m away, makes up for it by 2.4 mm.
    assert errors.max() < 0.5 / 48
    assert places.max() < 0.002


# -- a shape --------------------------------------------------------------------------------------------------------------


def directions(count: int, turn: float = 0.0) -> np.ndarray:
    """Unit vectors [count, 3] spread over the sphere on a spiral."""
    place = np.arange(count) + 0.5
    height, angle = 1.0 - 2.0 * place / count, np.pi * (1.0 + math.sqrt(5.0)) * place + turn
    radius = np.sqrt(1.0 - height**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)


def views(vertices: torch.Tensor, faces: np.ndarray, eyes: np.ndarray, size: int) -> RenderInputs:
    """A white mesh as cameras 4 m away see it."""
    intrinsics = intrinsics_from_fov(vertical_fov=math.radians(30.0), width=size, height=size)
    cameras = [pack_camera(intrinsics, *look_at(4.0 * eye, (0.0, 0.0, 0.0))) for eye in eyes]
    return RenderInputs(
        mesh=mesh_topology(faces, np.full(len(vertices), -1), like=vertices), vertices_rest=vertices,
        body_q=constant(IDENTITY).repeat(len(eyes), 1, 1), camera=constant(np.stack(cameras)),
        albedo=constant(np.ones((1, len(faces), 3, 3))), ambient=constant(np.ones((1, 3))),
        background=constant(np.zeros((1, 2, 3))),
    )  # fmt: skip


def silhouettes(inputs: RenderInputs, look: Look, size: int) -> torch.Tensor:
    """Coverage [views, size, size]."""
    style = {"sigma": look.sigma, "gamma": look.gamma, "antialias": look.antialias, "near": 0.1, "far": 10.0, "shading": "none"}
    return bridge.render(inputs, RasterSettings(width=size, height=size, **style))[..., 3]


def figure() -> tuple[torch.Tensor, np.ndarray]:
    """A body with a head, a foot and an arm, of primitives that overlap."""
    across, along = np.array([(0, 0, -1), (0, 1, 0), (1, 0, 0)]), np.array([(1, 0, 0), (0, 0, -1), (0, 1, 0)])
    parts = [
        (Capsule(0.3, 1.1, sections=24), np.eye(3), (-0.35, 0.0, 0.0)),
        (Capsule(0.22, 0.7, sections=24), across, (0.1, 0.0, -0.5)),
        (Sphere(0.36, subdivisions=3), np.eye(3), (-0.35, 0.05, 0.5)),
        (Capsule(0.16, 0.5), along, (-0.3, -0.3, 0.05)),
    ]
    vertices, faces, count = [], [], 0
    for shape, turn, place in parts:
        surface = shape.surface()
        vertices.append(surface.vertices @ turn.T + place)
        faces.append(surface.faces + count)
        count += len(surface.vertices)
    return constant(np.concatenate(vertices)), np.concatenate(faces)


def test_a_shape_from_silhouettes() -> None:
    # Known: twelve cameras. Unknown: the positions of 642 vertices. Colours and shading are not used.
    size, steps = 64, 120
    seen, unseen = directions(12), directions(8, turn=1.0)
    closeness = (seen @ unseen.T).max()
    assert math.degrees(math.acos(closeness)) > 5.0  # no view to judge by is one of those that were used
    with torch.no_grad():
        goal = photograph(silhouettes(views(*figure(), seen, size), SHARP, size))
        judged = silhouettes(views(*figure(), unseen, size), SHARP, size)
    ball = Sphere(0.6, subdivisions=3).surface()
    neighbours = mesh_neighbours(ball.faces, len(ball.vertices), device=goal.device)
    vertices = constant(ball.vertices).clone().requires_grad_()
    inputs = views(vertices.detach(), ball.faces, seen, size)

    def overlap() -> torch.Tensor:
        with torch.no_grad():
            found = silhouettes(views(vertices.detach(), ball.faces, unseen, size), SHARP, size)
            return silhouette_iou(found, judged, threshold=0.5)

    start = overlap()
    optimiser = torch.optim.Adam([vertices])
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.02 if step < 0.7 * steps else 0.004
        look = Look(sigma=3e-4 * 30.0 ** (-step / (steps - 1)), gamma=1e-4)
        found = silhouettes(replace(inputs, vertices_rest=vertices), look, size)
        smooth = 10.0 * laplacian_loss(vertices, neighbours) + 0.02 * flattening_loss(vertices, neighbours)
        loss = 1.0 - silhouette_iou(found, goal).mean() + smooth
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    end = overlap()
    print(f"shape: overlap {end.min():.3f} at least, {end.mean():.3f} in the mean; at the start {start.max():.3f} at most")
    assert start.max() < 0.75
    assert end.min() >= 0.95
    assert flattening_loss(vertices.detach(), neighbours) < 0.15  # a smooth surface, not a crumpled one


if __name__ == "__main__":
    pytest.main([__file__, "-s", "-q", "--durations=0"])
