"""Times of pictures, adjoints and forward derivatives of spheres, one by one and in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks.raster.passes import COLUMNS, make_passes
from benchmarks.raster.published import PYTORCH3D_BACKWARD, PYTORCH3D_BATCH, PYTORCH3D_FORWARD
from benchmarks.raster.scenes import make_inputs, sphere
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from risp_torch.scene import bridge
from ti_render import RasterSettings, RenderInputs, present_inputs, render

AGGREGATIONS = {"softras": "SoftRas", "dibr": "DIB-R"}
BATCH = 8

SceneKey = tuple[int, int, str]  # pixels, faces, aggregation


@dataclass(frozen=True)
class PassTimes:
    """Times of one scene [s].

    Attributes:
        forward, backward: of the pictures and of their adjoint.
        appearance, geometry: of the derivatives along eight directions, without the pictures (zero where not measured).
        covered_fraction: share of the picture that shows the sphere.
    """

    forward: float
    backward: float
    appearance: float
    geometry: float
    covered_fraction: float

    def jacobian_ratio(self, kind: str) -> float:
        """Time of the picture and its 8 columns over the time of the picture; ``kind`` is "appearance" or "geometry"."""
        return 1.0 + getattr(self, kind) / self.forward


def measure_sizes(sizes: Sequence[tuple[int, int]], *, repeats: int) -> dict[SceneKey, PassTimes]:
    """Times of single pictures of all sizes (pixels, faces), Phong, both aggregations interleaved."""
    pass_times: dict[SceneKey, PassTimes] = {}
    for pixels, faces in sizes:
        pass_times |= _measure({name: (pixels, faces, 1) for name in AGGREGATIONS}, repeats)
    return pass_times


def measure_batch(pixels: int, faces: int, *, repeats: int) -> dict[str, PassTimes]:
    """Times of eight pictures, by aggregation."""
    pass_times = _measure({name: (pixels, faces, BATCH) for name in AGGREGATIONS}, repeats, columns=False)
    return {name: times for (_pixels, _faces, name), times in pass_times.items()}


def _measure(sizes: Mapping[str, tuple[int, int, int]], repeats: int, *, columns: bool = True) -> dict[SceneKey, PassTimes]:
    functions: dict[tuple[str, str], Callable[[], object]] = {}
    covered_fraction = {}
    for name, (pixels, faces, images) in sizes.items():
        inputs, settings = make_inputs(sphere(faces), pixels, images=images, aggregation=name)
        covered_fraction[name] = float((render(inputs, settings).images[..., 3] > 0.5).float().mean())
        functions |= {(name, kind): run for kind, run in make_passes(inputs, settings, columns=columns).items()}
    best_seconds = best_times(functions, repeats=repeats)
    pass_times = {}
    for name, (pixels, faces, _images) in sizes.items():
        kinds = (best_seconds.get((name, kind), 0.0) for kind in ("forward", "backward", "appearance", "geometry"))
        pass_times[pixels, faces, name] = PassTimes(*kinds, covered_fraction[name])
    return pass_times


def speed_table(pass_times: Mapping[SceneKey, PassTimes]) -> Table:
    """Single pictures."""
    result = Table(
        "One picture of a sphere, Phong: colour and alpha",
        ("pixels", "faces", "covered", "aggregation", "forward, ms", "backward, ms", "pictures/s, both", "8 looks, ms",
         "with picture / forward", "8 of geometry, ms", "with picture / forward"),
    )  # fmt: skip
    for (pixels, faces, name), times in pass_times.items():
        result.add(
            f"{pixels} x {pixels}", f"{faces:,}", f"{100 * times.covered_fraction:.0f} %", AGGREGATIONS[name],
            format_number(times.forward * 1e3), format_number(times.backward * 1e3),
            format_number(1 / (times.forward + times.backward)),
            format_number(times.appearance * 1e3), format_ratio(times.jacobian_ratio("appearance")),
            format_number(times.geometry * 1e3),
            format_ratio(times.jacobian_ratio("geometry")),
        )  # fmt: skip
    result.remarks.append(
        "80 and 5,120 faces: icospheres; 1,008: a UV sphere of 24 x 21; smooth normals. sigma = gamma = 1e-4. Backward: towards "
        "vertices, poses, camera, colours, lights, materials and background together."
    )
    result.remarks.append(
        f"Derivatives along {COLUMNS} directions in one pass of `render_jvp`. Looks: ambient light, direction (2) and intensity "
        "of the light, red and green of the body, specular, shininess. Geometry: position (3) and rotation (3) of the body, "
        "focal length and distance of the camera. With picture: (picture + columns) / picture."
    )
    return result


def pytorch3d_table(pass_times: Mapping[SceneKey, PassTimes]) -> Table:
    """SoftRas beside PyTorch3D's earlier figures."""
    result = Table(
        "Beside PyTorch3D's CPU rasteriser (EARLIER figures, not of this run)",
        ("pixels", "faces", "forward, ms", "P3D, ms", "P3D / forward", "backward, ms", "P3D, ms", "P3D / backward"),
    )
    for (pixels, faces, name), times in pass_times.items():
        if name == "softras":
            forward, backward = PYTORCH3D_FORWARD[pixels, faces], PYTORCH3D_BACKWARD[pixels, faces]
            result.add(
                f"{pixels} x {pixels}", f"{faces:,}", format_number(times.forward * 1e3), _range_text(forward),
                format_ratio(min(forward) / times.forward), format_number(times.backward * 1e3), _range_text(backward),
                format_ratio(min(backward) / times.backward),
            )  # fmt: skip
    result.remarks.append(
        "P3D: PyTorch3D 0.7.9 with SoftPhongShader, sigma = gamma = 1e-4, 38 % covered, its figures for 10 and 50 faces a pixel, "
        "measured EARLIER on two cores of the same kind; the ratios are to the smaller of them."
    )
    return result


def _range_text(seconds: Sequence[float]) -> str:
    return " - ".join(dict.fromkeys(f"{1e3 * t:,.0f}" for t in (min(seconds), max(seconds))))


def batch_table(
    one_picture: Mapping[str, PassTimes], eight_pictures: Mapping[str, PassTimes], pixels: int, faces: int, *, repeats: int
) -> Table:
    """Eight pictures in one call.

    Args:
        one_picture, eight_pictures: times by aggregation.
        pixels, faces: of the scene.
        repeats: timed calls.
    """
    result = Table(
        f"Batches at {pixels} x {pixels} pixels, {faces:,} faces, Phong",
        ("pictures", "aggregation", "forward, ms", "to one", "backward, ms", "to one", "pictures/s, both"),
    )
    for name, label in AGGREGATIONS.items():
        _add_batch(result, "1", label, 1, one_picture[name].forward, one_picture[name].backward, one_picture[name])
        _add_batch(
            result, f"{BATCH}", label, BATCH, eight_pictures[name].forward, eight_pictures[name].backward, one_picture[name]
        )
    inputs, settings = make_inputs(sphere(faces), pixels, images=BATCH)
    best_seconds = best_times(_torch_passes(inputs, settings), repeats=repeats)
    _add_batch(
        result,
        f"{BATCH}, torch autograd",
        AGGREGATIONS["softras"],
        BATCH,
        best_seconds["forward"],
        best_seconds["backward"],
        one_picture["softras"],
    )
    if (pixels, faces) == PYTORCH3D_BATCH[0]:
        forward, backward = PYTORCH3D_BATCH[1:]
        result.remarks.append(
            f"PyTorch3D ({BATCH} pictures, 10 faces a pixel, EARLIER on two cores of the same kind): {1e3 * forward:.0f} ms and "
            f"{1e3 * backward:,.0f} ms, which is {format_ratio(forward / eight_pictures['softras'].forward)} and "
            f"{format_ratio(backward / eight_pictures['softras'].backward)} the times of SoftRas here."
        )
    return result


def _add_batch(
    table: Table, title: str, label: str, images: int, forward: float, backward: float, one_picture: PassTimes
) -> None:
    table.add(
        title, label, format_number(forward * 1e3), format_ratio(forward / one_picture.forward), format_number(backward * 1e3),
        format_ratio(backward / one_picture.backward), format_number(images / (forward + backward)),
    )  # fmt: skip


def _torch_passes(inputs: RenderInputs, settings: RasterSettings) -> dict[str, Callable[[], object]]:
    """``bridge.render`` and its gradients towards every input."""
    inputs_with_grad = {name: getattr(inputs, name).clone().requires_grad_() for name in present_inputs(inputs)}
    inputs = replace(inputs, **inputs_with_grad)
    pictures = bridge.render(inputs, settings)
    pictures_bar = torch.ones_like(pictures)
    return {
        "forward": lambda: bridge.render(inputs, settings),
        "backward": lambda: torch.autograd.grad(pictures, list(inputs_with_grad.values()), pictures_bar, retain_graph=True),
    }
