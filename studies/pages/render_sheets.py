"""One contact sheet per feature of the renderer, for the documentation: ``python -m studies.pages.render_sheets [NAME ...]``."""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import (
    AmbientLight,
    Box,
    Cylinder,
    DirectionalLight,
    EnvironmentLight,
    PictureStyle,
    PointLight,
    Scene,
    Sphere,
    Start,
    Surface,
    load_scene,
    srgb_to_linear,
)
from risp_torch.programs import number_parser, run_with_exit_status, unknown_name_error
from risp_torch.scene.rendering_parameters import (
    Direction,
    Factor,
    Range,
    RenderingParameters,
    contact_sheet,
    default_psi,
    image_jacobian,
)
from studies.pages.sheet_stage import (
    BALL_PLACE,
    BALL_RADIUS,
    BOX_SIDE,
    FROM_LEFT,
    FROM_RIGHT,
    ORANGE,
    SIX_COLORS,
    TEAL,
    WHITE,
    empty_stage,
    grey,
    letters,
    shot,
    stage,
    start_of,
    with_shadows,
)
from ti_sim import Count

SIZE = 192  # pixels of a picture's sides
SAMPLES = 64  # light paths a pixel of the path-traced pictures


@dataclass(frozen=True)
class Sheet:
    """Content of a sheet.

    Attributes:
        pictures: [H, W, 3] linear rgb, each with its caption, in the order of the sheet.
        columns: pictures in a row.
    """

    pictures: Mapping[str, np.ndarray]
    columns: int = 4


def aggregation_sheet(size: int) -> Sheet:
    """SoftRas with several softnesses, its two ways to composite, DIB-R, and antialiasing."""
    pictures = {}
    for sigma in (1e-5, 1e-4, 1e-3, 1e-2):
        pictures[f"SoftRas, sigma {sigma:.0e}"] = shot(stage(size, sigma=sigma))
    for gamma in (1e-4, 1e-2, 1e-1, 1.0):
        pictures[f"SoftRas, gamma {gamma:.0e}"] = shot(stage(size, gamma=gamma))
    for name, style in {
        "SoftRas, composite alpha": PictureStyle(),
        "SoftRas, composite softmax": PictureStyle(composite="softmax"),
        "DIB-R": PictureStyle(aggregation="dibr"),
    }.items():
        pictures[f"{name},\nsigma 1e-3"] = shot(stage(size, sigma=1e-3, style=style))
    alpha = shot(stage(size, sigma=1e-3, style=PictureStyle(aggregation="dibr")), alpha=True)[..., 3]
    pictures["DIB-R, alpha,\nsigma 1e-3"] = grey(alpha)
    small = max(8, size // 4)
    for count in (1, 2, 4):
        scene = stage(small, sigma=1e-7, style=PictureStyle(antialias=count))
        pictures[f"antialias {count}, sigma 1e-7,\nenlarged four times"] = enlarged(shot(scene), size)
    pictures["antialias 1, edges one pixel\nsoft, enlarged four times"] = enlarged(shot(stage(small)), size)
    return Sheet(pictures)


def enlarged(picture: np.ndarray, size: int) -> np.ndarray:
    """A picture whose pixels are repeated until it has ``size`` pixels a side."""
    index = np.arange(size) * len(picture) // size
    return picture[index][:, index]


def output_sheet(size: int) -> Sheet:
    """The quantities of a picture: colour, coverage, depth, normals."""
    scene = stage(size)
    color, depth = shot(scene, alpha=True), shot(scene, quantity="depth")[..., 0]
    nearest, far = depth.min(), np.percentile(depth, 90)
    return Sheet(
        {
            "color": color[..., :3],
            "alpha: coverage by bodies": grey(color[..., 3]),
            f"depth: {nearest:.2f} m white,\n{far:.2f} m black": grey((far - depth) / (far - nearest)),
            "normal: (x, y, z) as red,\ngreen, blue, 0 is half": srgb_to_linear(0.5 + 0.5 * shot(scene, quantity="normal")),
        }
    )


def surface_sheet(size: int) -> Sheet:
    """Plain, vertex and face colours; textures, and what they do beyond their edges."""
    sides = letters(["+x", "-x", "+y", "-y", "+z", "-z"], columns=3)
    globe = letters([f"{k}" for k in range(1, 19)], columns=6)
    corners = Sphere(BALL_RADIUS, 3).mesh().vertices / BALL_RADIUS
    cube = np.array([(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)], dtype=float)
    tinted = Surface(texture=sides, color=(1.0, 0.6, 0.3))
    return Sheet(
        {
            "color": shot(stage(size)),
            "face_colors and vertex_colors": shot(
                stage(size, box=Surface(face_colors=SIX_COLORS), ball=Surface(vertex_colors=0.5 + 0.5 * corners))
            ),
            "vertex_colors of a box": shot(stage(size, box=Surface(vertex_colors=0.1 + 0.8 * cube))),
            "texture on a box and on a ball": shot(
                stage(size, box=Surface(texture=sides), ball=Surface(texture=globe, smooth=True))
            ),
            "texture times color": shot(stage(size, box=tinted)),
            "texture, own uv": shot(board(size, wrap="repeat", reach=1.0)),
            "texture, wrap repeat": shot(board(size, wrap="repeat", reach=3.0)),
            "texture, wrap clamp": shot(board(size, wrap="clamp", reach=3.0)),
        }
    )


def board(size: int, *, wrap: str, reach: float) -> Scene:
    """An upright board with a picture, whose edges lie at ``reach`` times the picture's size."""
    scene = empty_stage(size)
    side = 0.1
    shape = Box(side, 0.01, side)
    uv = 0.5 + reach * shape.mesh().vertices[:, [0, 2]] / side
    surface = Surface(texture=letters(["a", "b", "c", "d"], columns=2), uv=uv, wrap=wrap)
    scene.add_rigid("board", shape=shape, density=1e3, start=Start(position=(0.0, 0.0, 0.5 * side)), surface=surface)
    scene.add_light(AmbientLight(intensity=1.0))
    return scene


def shading_sheet(size: int) -> Sheet:
    """No shading, Lambert and Phong, flat and smooth normals, and the highlight's size."""
    flat, smooth = {"subdivisions": 2, "ball": Surface(color=ORANGE)}, {"ball": Surface(color=ORANGE, smooth=True)}
    pictures = {
        "shading none": shot(stage(size, style=PictureStyle(shading="none"), **smooth)),
        "lambert, flat": shot(stage(size, **flat)),
        "lambert, smooth": shot(stage(size, subdivisions=2, **smooth)),
        "lambert, smooth, left with\ncrease_angle 0.8 rad": shot(two_cylinders(size)),
        "phong, flat": shot(stage(size, style=PictureStyle(shading="phong"), **flat)),
    }
    for shininess in (5.0, 20.0, 100.0):
        ball = Surface(color=ORANGE, smooth=True, specular=0.5, shininess=shininess)
        box = Surface(color=TEAL, specular=0.5, shininess=shininess)
        scene = stage(size, style=PictureStyle(shading="phong"), ball=ball, box=box)
        pictures[f"phong, smooth ball, specular\n0.5, shininess {shininess:g}"] = shot(scene)
    return Sheet(pictures)


def two_cylinders(size: int) -> Scene:
    """Two smooth cylinders; the left one's rims stay sharp."""
    scene = empty_stage(size)
    for name, x, angle in (("left", -0.04, 0.8), ("right", 0.04, None)):
        surface = Surface(color=ORANGE, smooth=True, crease_angle=angle)
        scene.add_rigid(name, shape=Cylinder(0.03, 0.06), density=1e3, start=Start(position=(x, 0.0, 0.03)), surface=surface)
    scene.add_light(DirectionalLight(direction=FROM_LEFT, intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


def light_sheet(size: int) -> Sheet:
    """Ambient, directional and point lights, several lights, and the bands of an environment."""
    white = {"ball": Surface(color=WHITE, smooth=True), "box": Surface(color=WHITE)}
    ambient = AmbientLight(intensity=0.15)
    lamp = PointLight(position=(0.0, -0.02, 0.1), intensity=0.0035)
    several = [
        DirectionalLight(direction=FROM_LEFT, intensity=(0.8, 0.2, 0.1), name="red"),
        DirectionalLight(direction=FROM_RIGHT, intensity=(0.1, 0.3, 0.8), name="blue"),
        replace(lamp, intensity=(0.0005, 0.002, 0.0005)),
        AmbientLight(intensity=0.05),
    ]
    pictures = {
        "ambient": [AmbientLight(intensity=0.6)],
        "directional, from the left": [DirectionalLight(direction=FROM_LEFT), ambient],
        "directional, from the right": [DirectionalLight(direction=FROM_RIGHT), ambient],
        "point, between the two,\n10 cm above the ground": [lamp, ambient],
        "directional red from the left,\nblue from the right, point green": several,
        "environment, uniform (Y00)": [environment({0: 1.8})],
        "environment, brighter above\n(Y00, Y10)": [environment({0: 1.8, 2: 1.1})],
        "environment, brighter from\nthe right (Y00, Y11)": [environment({0: 1.8, 3: 1.1})],
        "environment, degree 2: above\nand below (Y00, Y20)": [environment({0: 1.8, 6: 1.6})],
        "environment, degree 2: left\nand right (Y00, Y22)": [environment({0: 1.8, 8: 1.6})],
        "environment, blue sky over\nbrown ground": [environment({0: (1.2, 1.4, 1.7), 2: (-0.2, 0.3, 1.0)})],
        "environment and directional": [
            environment({0: 0.9, 2: 0.5}), DirectionalLight(direction=FROM_LEFT, intensity=0.6),
        ],
    }
    return Sheet({name: shot(stage(size, lights=lights, **white)) for name, lights in pictures.items()})


def environment(coefficients_by_index: Mapping[int, Any]) -> EnvironmentLight:
    """An environment from some of its coefficients, the others zero."""
    coefficients = np.zeros((9, 3))
    for k, value in coefficients_by_index.items():
        coefficients[k] = value
    return EnvironmentLight(coefficients=coefficients)


def shadow_sheet(size: int) -> Sheet:
    """No shadows, sharp and soft ones, the depth test, several lights, and shadows of bodies on bodies."""
    ambient, low = AmbientLight(intensity=0.25), DirectionalLight(direction=(1.0, -0.45, -0.55), intensity=0.8)
    two = [
        DirectionalLight(direction=FROM_LEFT, intensity=0.5, name="left"),
        DirectionalLight(direction=FROM_RIGHT, intensity=0.5, name="right"),
        ambient,
    ]
    return Sheet(
        {
            "no shadows": shot(stage(size)),
            "sharp: resolution 512,\nsigma 5e-6": shot(with_shadows(stage(size), resolution=512, sigma=5e-6, width=0.003)),
            "usual: resolution 128,\nsigma 2e-4": shot(with_shadows(stage(size))),
            "soft: sigma 2e-3, bias 0.1": shot(with_shadows(stage(size), sigma=2e-3, bias=0.1)),
            "of one body on another": shot(with_shadows(stage(size, lights=[low, ambient]))),
            "two lights": shot(with_shadows(stage(size, lights=two))),
            "in a ball around the orange\nbody only": shot(with_shadows(stage(size), center=BALL_PLACE, radius=0.038)),
            "sigma 4e-3 with bias 0.04: too\nsoft, the box shades itself": shot(with_shadows(stage(size), sigma=4e-3)),
        }
    )


def background_sheet(size: int) -> Sheet:
    """A colour, a gradient and an image behind the bodies."""
    picture = letters(["sea", "sun", "sky", "ice", "oak", "elm"], columns=3, side=96)
    kinds = {
        "color": {"color": (0.9, 0.6, 0.4)},
        "top and bottom": {"top": (0.2, 0.4, 0.8), "bottom": (0.95, 0.9, 0.8)},
        "image, stretched": {"image": picture},
    }
    pictures = {}
    for name, background in kinds.items():
        view = {"eye": (0.0, -0.5, 0.12), "target": (0.0, 0.0, 0.1), "vertical_fov": 26.0}
        scene = stage(size, camera=view)
        scene.set_background(**background)
        pictures[name] = shot(scene)
    return Sheet(pictures, columns=3)


def ground_sheet(size: int) -> Sheet:
    """Plain, checkered and textured ground."""
    words, checker = letters(["a", "b", "c", "d"], columns=2), {"pattern": "checker", "color": (0.15, 0.15, 0.2)}
    texture = {"pattern": "texture", "texture": words, "cell": 0.1, "color": (1.0, 1.0, 1.0)}
    grounds = {
        "plain": {},
        "checker, cell 5 cm: as wide\nas the box": checker | {"cell": BOX_SIDE},
        "checker, cell 2 cm": checker | {"cell": 0.02},
        "checker, two colours": {"pattern": "checker", "color": ORANGE, "second_color": TEAL, "cell": 0.1},
        "texture, cell 10 cm, repeat": texture,
        "texture, origin (-5, -5) cm": texture | {"origin": (-0.05, -0.05)},
        "texture, clamp": texture | {"wrap": "clamp", "origin": (-0.05, -0.05)},
        "texture times color": texture | {"color": (0.4, 0.7, 1.0)},
    }
    style = PictureStyle(antialias=2)
    return Sheet({name: shot(with_shadows(stage(size, ground=ground, style=style))) for name, ground in grounds.items()})


def camera_sheet(size: int) -> Sheet:
    """Pinholes and lenses over a checkered ground, which shows what they do to straight lines."""
    lenses = {
        "pinhole": None,
        "barrel: k1 = -0.25": (-0.25, 0.0, 0.0, 0.0, 0.0),
        "pincushion: k1 = 0.9": (0.9, 0.0, 0.0, 0.0, 0.0),
        "tangential: p1 = 0.1": (0.0, 0.0, 0.1, 0.0, 0.0),
        "tangential: p2 = 0.1": (0.0, 0.0, 0.0, 0.1, 0.0),
        "k1 = -0.8 folds: nothing is\nseen beyond the fold": (-0.8, 0.0, 0.0, 0.0, 0.0),
    }
    pictures = {name: shot(over_checker(size, distortion=lens)) for name, lens in lenses.items()}
    scene = over_checker(size)
    pictures["principal point a quarter of\nthe picture to the right"] = shot(moved(scene, "camera.center", (0.25 * size, 0.0)))
    pictures["camera.turn (0, 0, 0.3)"] = shot(moved(over_checker(size), "camera.turn", (0.0, 0.0, 0.3)))
    pictures["from afar, small angle of view"] = shot(over_checker(size, eye=(0.0, -0.9, 1.5), vertical_fov=10.3, far=3.0))
    return Sheet(pictures, columns=3)


def over_checker(size: int, **camera: Any) -> Scene:
    """The stage from above, on a checkered ground."""
    view = {"eye": (0.0, -0.18, 0.3), "target": (0.0, 0.0, 0.0), "vertical_fov": 52.0, "near": 0.1}
    checker = {"pattern": "checker", "color": (0.15, 0.15, 0.2), "cell": 0.05}
    return stage(size, ground=checker, camera=view | camera)


def moved(scene: Scene, name: str, step: Sequence[float]) -> Scene:
    """The scene with one of its parameters moved by a step."""
    scene.set(name, np.asarray(scene.parameters[name].value) + step)
    return scene


def derivative_sheet(size: int) -> Sheet:
    """Columns of the image Jacobian: red where the picture gets brighter, blue where it gets darker."""
    scene = with_shadows(stage(size, style=PictureStyle(shading="phong"), ground={"pattern": "checker", "cell": 0.05}), bias=0.08)
    values = {name: np.asarray(param.value) for name, param in scene.parameters.items()}
    psi = RenderingParameters(
        scene,
        {
            "light.key.direction": Direction((math.pi - 1.0, math.pi + 1.0), (0.3, 1.2)),
            "light.key.intensity": Factor(0.5, 1.5, tied=True),
            "ball.color": Factor(0.5, 1.1, tied=True),
            "ball.shininess": Range(10.0, 30.0),
            "camera.turn": Range(-0.1, 0.1),
            "camera.position": Range(values["camera.position"] - 0.05, values["camera.position"] + 0.05),
            "camera.focal": Factor(0.8, 1.2, tied=True),
            "softness.sigma": Factor(0.2, 5.0, scale="log10"),
            "ground.cell": Range(0.04, 0.06),
        },
    )
    columns = {
        "light.key.direction[azimuth]": "light, on its way from the left\nto the camera's side",
        "light.key.direction[elevation]": "light, higher",
        "light.key.intensity": "light, brighter",
        "ball.color": "ball, lighter",
        "ball.shininess": "ball, smaller highlight",
        "camera.turn[1]": "camera.turn[1], turned to the left",
        "camera.turn[2]": "camera.turn[2], rolled\nanticlockwise",
        "camera.position[2]": "camera, higher",
        "camera.focal": "camera, longer focal length",
        "softness.sigma": "edges, softer",
        "ground.cell": "checker, larger squares",
    }
    image, jacobian = image_jacobian(scene, start_of(scene)[:, 0], torch.zeros(1, psi.size), psi, columns=list(columns))
    pictures = {"the picture": image[0].cpu().numpy()}
    for caption, column in zip(columns.values(), jacobian[0].cpu().numpy(), strict=True):
        pictures[caption] = red_and_blue(column.mean(axis=-1))
    return Sheet(pictures)


def red_and_blue(values: np.ndarray) -> np.ndarray:
    """Signed numbers [H, W] as a picture: white is zero, red positive, blue negative, full at the largest but 1 % of pixels."""
    strength = np.clip(values / max(float(np.percentile(np.abs(values), 99)), 1e-12), -1.0, 1.0)
    red, blue = 1.0 - np.maximum(-strength, 0.0), 1.0 - np.maximum(strength, 0.0)
    return srgb_to_linear(np.stack([red, np.minimum(red, blue), blue], axis=-1))


def psi_sheet(size: int) -> Sheet:
    """Eight random appearances of the thrown pebble, 0.12 s after the start, from near by."""
    scene = load_scene("toss", size=size)
    scene.set("camera.focal", 2.0 * np.asarray(scene.parameters["camera.focal"].value))
    scene.sigma *= (128 / size) ** 2
    with torch.no_grad():
        poses = scene.rollout(frames=12).body_q[:, -1:]
        parameters = default_psi(scene)
        films = scene.render(poses.expand(8, -1, -1, -1), parameters.values(parameters.sample(8, seed=0)))
    return Sheet({f"appearance {k + 1}": film[0].cpu().numpy() for k, film in enumerate(films)})


def mitsuba_sheet(size: int, samples: int = SAMPLES) -> Sheet:
    """The same stage rasterised, path-traced with its own lights, and path-traced with drawn looks."""
    from risp_torch.risp import photoreal_film
    from ti_render.photoreal import MitsubaSettings

    scene = with_shadows(
        stage(size, box=Surface(face_colors=SIX_COLORS), style=PictureStyle(antialias=2)), resolution=256, sigma=2e-5
    )
    states = scene.rollout(frames=1)
    pictures = {"rasterised": shot(scene)}
    for name, look, seed in (
        ("path-traced, look match", "match", 0),
        *((f"path-traced, look photoreal,\nseed {seed}", "photoreal", seed) for seed in (1, 2, 3)),
    ):
        options = MitsubaSettings(look=look, seed=seed, samples=samples)
        picture = photoreal_film(scene, states, options=options).picture(0)
        pictures[name] = picture.color
    pictures["mask of the ball"] = grey(picture.masks["ball"])
    return Sheet(pictures, columns=3)


def joint_sheet(size: int) -> Sheet:
    """Four moments of each scene with joints."""
    return moments(("pendulum", "double_pendulum", "hand", "hand_cube"), size)


def deformable_sheet(size: int) -> Sheet:
    """Four moments of each scene of a deformable body."""
    return moments(("beam", "rod", "ball_soft", "cloth", "springs"), size)


def moments(names: Sequence[str], size: int) -> Sheet:
    """Four moments of each scene."""
    pictures = {}
    for name in names:
        scene = load_scene(name, size=size)
        with torch.no_grad():
            states = scene.rollout()
            for frame in np.linspace(0, 0.6 * scene.frames, 4).astype(int).tolist():
                picture = scene.render(states, frames=[frame])[0, 0].cpu().numpy()
                pictures[f"{name.replace('_', ' ')}, {frame * scene.frame_dt:.2f} s"] = picture
    return Sheet(pictures)


SHEETS: Mapping[str, Callable[[int], Sheet]] = {
    "aggregations": aggregation_sheet,
    "outputs": output_sheet,
    "surfaces": surface_sheet,
    "shading": shading_sheet,
    "lights": light_sheet,
    "shadows": shadow_sheet,
    "backgrounds": background_sheet,
    "grounds": ground_sheet,
    "cameras": camera_sheet,
    "derivatives": derivative_sheet,
    "psi": psi_sheet,
    "joints": joint_sheet,
    "deformables": deformable_sheet,
    "mitsuba": mitsuba_sheet,
}


def write_sheets(folder: Path | str, names: Sequence[str] = (), *, size: int = SIZE) -> list[Path]:
    """Make contact sheets and write them as render_NAME.png.

    Args:
        folder: where they go.
        names: of ``SHEETS``, all by default; "mitsuba" is left out with a message where Mitsuba is not installed.
        size: side of each picture [pixels]; small ones are shown enlarged.

    Returns:
        The files written.

    Raises:
        UserError: no such sheet, or the place cannot be written.
    """
    for name in names:
        if name not in SHEETS:
            raise unknown_name_error("sheet", name, list(SHEETS))
    written = []
    for name in names or SHEETS:
        if name == "mitsuba" and importlib.util.find_spec("mitsuba") is None:
            print("render_mitsuba.png is left out: Mitsuba is not installed (pip install 'risp-taichi[photoreal]')")
            continue
        sheet, path = SHEETS[name](size), Path(folder) / f"render_{name}.png"
        contact_sheet(path, np.stack(list(sheet.pictures.values())), list(sheet.pictures), columns=sheet.columns)
        print(f"written: {path}", flush=True)
        written.append(path)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the sheets that are named, or all: 0, or 2 for wrong input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(SHEETS)} (default: all)")
    parser.add_argument("--out", default="docs/figures", help="folder (default docs/figures)")
    parser.add_argument(
        "--size", type=number_parser(Count), default=SIZE, help=f"side of each picture in pixels (default {SIZE})"
    )
    options = parser.parse_args(arguments)

    def work() -> int:
        write_sheets(options.out, options.names, size=options.size)
        return 0

    return run_with_exit_status(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
