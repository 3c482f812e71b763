"""Surfaces of scenes: textures, smooth shading, highlights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import trimesh
from PIL import Image

from risp_torch import Box, Mesh, Param, PictureStyle, Sphere, Start, Surface, UserError
from risp_torch.files.film.curves import srgb_to_linear
from tests.reference.full_scene import BALL, CONTACT, picture
from tests.reference.plain_scene import add, plain_scene, shot, textured_box


def test_a_texture_is_the_same_from_a_file_an_array_and_the_mesh_file(tmp_path: Path) -> None:
    path = textured_box(tmp_path)
    texels = srgb_to_linear(np.asarray(Image.open(tmp_path / "tex.png"), dtype=np.float64) / 255)
    films = []
    for shape, surface in (
        (Mesh(path), None),
        (Mesh(path), Surface(texture=tmp_path / "tex.png")),
        (Box(0.05, 0.04, 0.03), Surface(texture=str(tmp_path / "tex.png"))),
        (Box(0.05, 0.04, 0.03), Surface(texture=texels)),
        (Box(0.05, 0.04, 0.03), Surface(texture=Param(texels, low=0.0, high=1.0), uv=Box(0.05, 0.04, 0.03).mesh().uv)),
    ):
        scene = plain_scene(size=16)
        add(scene, shape=shape, surface=surface)
        np.testing.assert_allclose(scene.parameters["thing.texture"].value, texels, atol=1e-12)
        films.append(shot(scene))
    for film in films[1:]:
        torch.testing.assert_close(film, films[0], rtol=0, atol=1e-9)
    scene = plain_scene(size=16)
    add(scene)
    assert (films[0] - shot(scene)).abs().max() > 0.1
    # The scene's author may paint over it, and tint it.
    scene = plain_scene(size=16)
    add(scene, shape=Mesh(path), surface=Surface(color=(0.6, 0.6, 0.6)))
    assert "thing.texture" not in scene.parameters
    for tint in (1.0, 0.5):
        scene = plain_scene(size=16)
        add(scene, shape=Mesh(path), surface=Surface(color=(tint,) * 3, texture=np.full((2, 2, 3), 0.8)))
        wanted = plain_scene(size=16)
        add(wanted, surface=Surface(color=(0.8 * tint,) * 3))
        torch.testing.assert_close(shot(scene), shot(wanted), rtol=0, atol=1e-9)


def test_several_textures_of_one_file_and_the_grounds_are_kept_apart(tmp_path: Path) -> None:
    import trimesh

    parts, shown = trimesh.Scene(), Box(0.03, 0.03, 0.03).surface()
    for k, grey in enumerate((60, 200)):
        visual = trimesh.visual.TextureVisuals(
            uv=np.full((8, 2), 0.5), image=Image.fromarray(np.full((2 + k, 3, 3), grey, dtype=np.uint8))
        )
        part = trimesh.Trimesh(shown.vertices + (0.05 * k - 0.025, 0, 0), shown.faces, visual=visual, process=False)
        parts.add_geometry(part)
    parts.export(tmp_path / "two.glb")

    greys = {(2, 3, 3): 60, (3, 3, 3): 200}  # by the pictures' sizes
    order: list[float] = []

    def film(surface: Surface | None, texture: np.ndarray) -> torch.Tensor:
        scene = plain_scene(size=16, ground=False, style=PictureStyle(shading="none"))
        scene.add_ground(contact=CONTACT, pattern="texture", texture=texture, cell=0.05)
        scene.add_rigid(
            "pair", shape=Mesh(tmp_path / "two.glb"), density=800.0, start=Start(position=(0, 0, 0.03)), surface=surface
        )
        if surface is None:
            order[:] = [greys[scene.parameters[f"pair.texture.{k}"].value.shape] for k in range(2)]
        return shot(scene)

    ground = picture(3, 2, 6)
    textured = film(None, ground)
    linear = srgb_to_linear(np.array(order) / 255)
    painted = Surface(face_colors=np.repeat(linear[:, None], 3, axis=1).repeat(12, axis=0))
    torch.testing.assert_close(textured, film(painted, ground), rtol=0, atol=1e-9)
    assert (film(None, ground) - film(None, ground[::-1])).abs().max() > 0.01


def test_smooth_shading_and_creases() -> None:
    def normals(**options: object) -> torch.Tensor:
        scene = plain_scene(size=24, ground=False, sigma=1e-5)
        add(scene, shape=Sphere(0.03, subdivisions=1), surface=Surface(color=(0.5, 0.5, 0.5), **options))
        depth = shot(scene, quantity="normal", alpha=True)
        return torch.where(depth[..., 3:] > 0.99, depth[..., :3], torch.zeros(3, dtype=torch.float64))

    flat, smooth = normals(), normals(smooth=True)
    inside = smooth.norm(dim=-1) > 0.5
    # On a sphere the smooth normal is the direction from the centre: it changes steadily from pixel to pixel.
    step = lambda n: (n[:, 1:] - n[:, :-1]).norm(dim=-1)[inside[:, 1:] & inside[:, :-1]].max()  # noqa: E731
    assert step(smooth) < 0.7 * step(flat)
    torch.testing.assert_close(normals(smooth=True, crease_angle=0.0), flat, rtol=0, atol=1e-9)
    torch.testing.assert_close(normals(smooth=True, crease_angle=3.0), smooth, rtol=0, atol=1e-9)


def test_highlights_follow_specular_and_shininess() -> None:
    def film(**options: object) -> torch.Tensor:
        scene = plain_scene(size=24, style=PictureStyle(shading="phong"))
        add(scene, shape=BALL, surface=Surface(color=(0.3, 0.3, 0.3), smooth=True, **options))
        return shot(scene)

    dull, bright, sharp = film(specular=0.0), film(specular=(0.6, 0.0, 0.0)), film(specular=(0.6, 0.0, 0.0), shininess=200.0)
    assert (bright - dull)[..., 0].max() > 0.1 and (bright - dull)[..., 1:].abs().max() < 1e-12
    assert ((sharp - dull)[..., 0] > 0.02).sum() < ((bright - dull)[..., 0] > 0.02).sum()
    matt = plain_scene(size=24)
    add(matt, shape=BALL, surface=Surface(color=(0.3, 0.3, 0.3), smooth=True))
    torch.testing.assert_close(dull, shot(matt), rtol=0, atol=1e-12)


def test_textures_that_cannot_be_read_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "noise.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match=r"thing.texture: picture .*noise.png cannot be read .*save it again"):
        add(plain_scene(), surface=Surface(texture=tmp_path / "noise.png"))
    missing = Mesh(textured_box(tmp_path, image="lost.png", write=False))
    with pytest.raises(UserError, match=r"thing: a mesh file has a texture .*lost.png does not exist: fix it, or give"):
        add(plain_scene(), shape=missing)
    add(plain_scene(), shape=missing, surface=Surface(color=(0.5, 0.5, 0.5)))
    (tmp_path / "lost.png").write_bytes(b"\x89PNG half")
    with pytest.raises(UserError, match=r"lost.png is damaged, cut short or no picture"):
        add(plain_scene(), shape=Mesh(tmp_path / "box.obj"))


def test_a_file_with_textured_and_plain_parts_shows_both(tmp_path: Path) -> None:
    """A green texture on one half of the body, a red material on the other."""
    half = Box(0.02, 0.04, 0.03).mesh()
    materials = (
        trimesh.visual.material.PBRMaterial(baseColorTexture=Image.new("RGB", (2, 2), (0, 255, 0))),
        trimesh.visual.material.PBRMaterial(baseColorFactor=[255, 0, 0, 255]),
    )
    parts = [
        trimesh.Trimesh(
            half.vertices + [0.03 * k, 0, 0], half.faces, process=False,
            visual=trimesh.visual.TextureVisuals(uv=np.full((len(half.vertices), 2), 0.5) if k == 0 else None, material=material),
        )
        for k, material in enumerate(materials)
    ]  # fmt: skip
    trimesh.Scene(parts).export(tmp_path / "both.glb")
    scene = plain_scene(size=16)
    add(scene, shape=Mesh(tmp_path / "both.glb"), surface=None)
    assert {"thing.texture", "thing.face_colors"} <= set(scene.parameters)
    red, green, _ = shot(scene).reshape(-1, 3).T
    assert ((red > 4 * green) & (red > 0.2)).sum() > 3 and ((green > 4 * red) & (green > 0.2)).sum() > 3
