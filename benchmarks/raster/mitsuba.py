"""The soft rasteriser against Mitsuba 3 in the same run, on the same scene."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.raster.passes import make_passes
from benchmarks.raster.scenes import make_inputs, sphere
from benchmarks.raster.speed import AGGREGATIONS
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from ti_render import RasterSettings, RenderInputs, render
from ti_render.photoreal import Variant, choose_variant
from ti_render.photoreal.camera import film_of, sensor_dict
from ti_render.photoreal.geometry import row, submeshes_of
from ti_render.photoreal.lights import emitters_of
from ti_render.photoreal.surfaces import color_source, diffuse, submesh_object
from ti_render.photoreal.variant import load_mitsuba
from ti_sim.base.errors import UserError

SAMPLES = 16
SPHERE_ALBEDO = 0.8  # uniform, so that the two pictures can be compared
GRADIENT_PARAMETERS = ("part0.vertex_positions", "part0.vertex_normals", "part0.vertex_color", "sun0.irradiance.value")
# Direct light only; whether gradients of silhouettes are included.
INTEGRATORS = {
    "prb": ({"type": "prb", "max_depth": 2, "hide_emitters": True}, "without silhouettes"),
    "direct": ({"type": "direct", "hide_emitters": True}, "without silhouettes"),
    "prb_projective, no guiding": (
        {"type": "prb_projective", "max_depth": 2, "hide_emitters": True, "guiding": "none", "sppc": SAMPLES, "sppp": SAMPLES,
         "sppi": 0}, "with silhouettes"),
}  # fmt: skip
REFERENCE_INTEGRATOR = "prb"
# For a variant without derivatives, which has no prb.
FORWARD_INTEGRATOR = ("path", {"type": "path", "max_depth": 2, "hide_emitters": True})


@dataclass(frozen=True)
class Comparison:
    """Comparison with Mitsuba.

    Attributes:
        table: times of both renderers.
        forward_ratio, backward_ratio: Mitsuba's times over those of SoftRas with Phong; None where not measured.
    """

    table: Table
    forward_ratio: float | None
    backward_ratio: float | None


def compare(pixels: int, faces: int, *, repeats: int, quick: bool) -> Comparison:
    """Times of both renderers.

    Args:
        pixels, faces: of the scene: a sphere of one colour under one directional light.
        repeats: timed calls of each.
        quick: prb only.
    """
    table = Table(
        f"Against Mitsuba 3, {SAMPLES} samples a pixel: {pixels} x {pixels} pixels, {faces:,} faces, one directional light",
        ("renderer", "gradients", "forward, ms", "to SoftRas, Phong", "backward, ms", "to SoftRas, Phong"),
    )
    inputs, settings = make_inputs(sphere(faces), pixels, shading="lambert")
    inputs = replace(inputs, ambient=0.0 * inputs.ambient, albedo=0.0 * inputs.albedo + SPHERE_ALBEDO)
    try:
        variant = choose_variant("auto")
        mitsuba = load_mitsuba(variant)
    except UserError as error:
        table.remarks.append(f"Not measured: {error}.")
        return Comparison(table, None, None)
    our_times = _our_times(inputs, settings, repeats)
    scene = _scene(mitsuba, inputs, settings)
    reference, integrators = _integrators(variant, quick)
    mitsuba_times = {name: _mitsuba_times(mitsuba, variant, scene, options, repeats) for name, options in integrators.items()}
    repeated = _our_times(inputs, settings, repeats)  # so that other load affects both sides
    our_times = {key: min(seconds, repeated[key]) for key, seconds in our_times.items()}
    softras_times = {kind: our_times["softras", "phong", kind] for kind in ("forward", "backward")}
    for shading in ("phong", "lambert"):
        for name, label in AGGREGATIONS.items():
            kinds = {kind: our_times[name, shading, kind] for kind in softras_times}
            _add(table, f"{label}, {shading.capitalize()}", "all inputs", kinds, softras_times)
    for name, kinds in mitsuba_times.items():
        _add(table, f"Mitsuba {name}", INTEGRATORS[name][1] if "backward" in kinds else "none", kinds, softras_times)
    _remark(table, variant, mitsuba.__version__, _difference(mitsuba, scene, inputs, settings))
    ratios = {kind: seconds / softras_times[kind] for kind, seconds in mitsuba_times[reference].items()}
    return Comparison(table, ratios["forward"], ratios.get("backward"))


def _differentiates(variant: Variant) -> bool:
    return "_ad_" in variant.name


def _integrators(variant: Variant, quick: bool) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """Name of the reference integrator, and all that are timed."""
    if not _differentiates(variant):
        return FORWARD_INTEGRATOR[0], dict([FORWARD_INTEGRATOR])
    return REFERENCE_INTEGRATOR, {
        name: options for name, (options, _gradients) in INTEGRATORS.items() if name == REFERENCE_INTEGRATOR or not quick
    }


def _add(table: Table, name: str, gradients: str, kinds: Mapping[str, float], base: Mapping[str, float]) -> None:
    cells = []
    for kind in base:
        cells += [format_number(kinds[kind] * 1e3), format_ratio(kinds[kind] / base[kind])] if kind in kinds else ["", ""]
    table.add(name, gradients, *cells)


def _variant_text(variant: Variant) -> str:
    """The variant, with its library without a path."""
    return f"{variant.name} (with {Path(variant.llvm).name})" if variant.llvm else str(variant)


def _remark(table: Table, variant: Variant, version: str, difference: float) -> None:
    table.remarks.append(
        f"Mitsuba {version}, variant {_variant_text(variant)}. The sphere is ideally diffuse and one-coloured, convex, without "
        "ground: nothing casts a shadow on anything. Mitsuba has no highlights here; Phong's are computed. Not timed on "
        "Mitsuba's side: building the scene and its acceleration structure, which moved vertices make necessary. Its gradients: "
        "positions, normals and colours of the corners, and the light's intensity; here: every input. "
        f"On the sphere, the pictures (SoftRas, Lambert, 3 x 3 samples) differ by {100 * difference:.1f} % of their mean."
    )
    if not _differentiates(variant):
        table.remarks.append(
            f"Forward only: gradients need a variant with automatic differentiation, which {variant.name} is not."
        )


def _our_times(inputs: RenderInputs, settings: RasterSettings, repeats: int) -> dict[tuple[str, str, str], float]:
    functions: dict[tuple[str, str, str], Callable[[], object]] = {}
    for shading in ("phong", "lambert"):
        for name in AGGREGATIONS:
            changed_settings = replace(settings, shading=shading, aggregation=name)
            passes = make_passes(inputs, changed_settings, columns=False)
            functions |= {(name, shading, kind): run for kind, run in passes.items()}
    return best_times(functions, repeats=repeats)


def _scene(mitsuba: Any, inputs: RenderInputs, settings: RasterSettings) -> Any:
    """The scene of the inputs as a Mitsuba scene."""
    mitsuba.set_log_level(mitsuba.LogLevel.Error)
    camera = row(inputs.camera, 0, 1)
    film = film_of(camera, None, settings.width, settings.height)
    content: dict[str, Any] = {"type": "scene"}
    for index, part in enumerate(submeshes_of(inputs, 0)):
        material = mitsuba.load_dict(diffuse(color_source(mitsuba)))
        content[f"part{index}"] = submesh_object(mitsuba, f"part{index}", part, material)
    content |= emitters_of(mitsuba, inputs, 0)
    content["sensor"] = mitsuba.load_dict(sensor_dict(mitsuba, camera, film, near=settings.near, far=settings.far))
    return mitsuba.load_dict(content)


def _mitsuba_times(mitsuba: Any, variant: Variant, scene: Any, integrator: Mapping[str, Any], repeats: int) -> dict[str, float]:
    """Least times of the picture ("forward") and, where the variant differentiates, of its gradients ("backward") [s]."""
    integrator = mitsuba.load_dict(dict(integrator))
    if not _differentiates(variant):
        picture = lambda: np.array(mitsuba.render(scene, integrator=integrator, spp=SAMPLES))  # noqa: E731
        return {"forward": best_times({"": picture}, repeats=repeats)[""]}
    import drjit

    parameters = mitsuba.traverse(scene)
    best_seconds = {"forward": float("inf"), "backward": float("inf")}
    for seed in range(repeats + 2):  # two to compile and to warm up
        for name in GRADIENT_PARAMETERS:
            drjit.enable_grad(parameters[name])
        parameters.update()
        drjit.sync_thread()
        start_time = time.perf_counter()
        picture = mitsuba.render(scene, parameters, integrator=integrator, spp=SAMPLES, seed=seed)
        drjit.eval(picture)
        drjit.sync_thread()
        render_end_time = time.perf_counter()
        drjit.backward(drjit.sum(picture.array))
        drjit.eval([drjit.grad(parameters[name]) for name in GRADIENT_PARAMETERS])
        drjit.sync_thread()
        end_time = time.perf_counter()
        for name in GRADIENT_PARAMETERS:
            drjit.disable_grad(parameters[name])
        if seed >= 2:
            best_seconds = {
                "forward": min(best_seconds["forward"], render_end_time - start_time),
                "backward": min(best_seconds["backward"], end_time - render_end_time),
            }  # fmt: skip
    return best_seconds


def _difference(mitsuba: Any, scene: Any, inputs: RenderInputs, settings: RasterSettings) -> float:
    """Mean difference of the two pictures where the sphere is, over their mean there."""
    path = mitsuba.load_dict(FORWARD_INTEGRATOR[1])
    mitsuba_picture = np.array(mitsuba.render(scene, integrator=path, spp=4 * SAMPLES))[..., :3]
    images = render(inputs, replace(settings, antialias=3)).images[0].cpu().numpy()
    is_sphere = images[..., 3] > 0.99
    return float(np.abs(mitsuba_picture - images[..., :3])[is_sphere].mean() / images[..., :3][is_sphere].mean())
