"""Speed and memory of the soft rasteriser on spheres, and what bounds it."""

# No postponed annotations here: a kernel's must be types.
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from benchmarks.memory import peak_bytes, reset_peak, resident_bytes
from benchmarks.table import Table, number, times
from benchmarks.timing import best_times
from risp_torch import bridge
from ti_render import (
    RasterSettings,
    RenderInputs,
    RenderResult,
    intrinsics_from_fov,
    look_at,
    pack_camera,
    render,
    render_adjoint,
)
from ti_render.fragment import closest_point, inside_gap, outside_coverage, setup, sub_areas, vec2
from ti_render.rasterise import NO_COVERAGE
from ti_render.tiles import CUT_OFF
from ti_sim.base.runtime import require, start, ti
from ti_sim.shapes import Sphere

TITLE = "Soft rasteriser"

COVERAGE = 0.40  # of the picture
DISTANCE = 2.7  # m, from the camera to the middle of the sphere of radius 1 m

# PyTorch3D 0.7.9, its C++ rasteriser for the CPU with SoftPhongShader, sigma = gamma = 1e-4, 38 % coverage, two cores of the
# same kind, measured earlier, not in this run: seconds by (pixels, faces), for 10 and for 50 faces a pixel.
PYTORCH3D_FORWARD = {
    (64, 80): (0.011, 0.030), (64, 1008): (0.026, 0.046), (64, 5120): (0.278, 0.213),
    (128, 80): (0.173, 0.752), (128, 1008): (0.964, 0.145), (128, 5120): (0.252, 0.357),
    (256, 80): (0.156,), (256, 1008): (0.248, 1.885), (256, 5120): (0.906,),
}  # fmt: skip
PYTORCH3D_BACKWARD = {
    (64, 80): (0.162, 0.203), (64, 1008): (0.374, 0.483), (64, 5120): (0.566, 1.251),
    (128, 80): (0.866, 1.601), (128, 1008): (2.360, 2.068), (128, 5120): (1.875, 4.398),
    (256, 80): (2.604,), (256, 1008): (5.862, 8.332), (256, 5120): (7.428,),
}  # fmt: skip
PYTORCH3D_BATCH = ((128, 1008), 0.661, 12.334)  # 8 images at once


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of the rasteriser, as they are measured.

    Args:
        quick: fewer sizes and repeats, no memory measured.
    """
    sizes = ((64, 80), (128, 1008)) if quick else tuple(sorted(PYTORCH3D_FORWARD))
    yield from _single_tables(sizes, quick)
    yield _batch_table(quick)


@cache
def sphere(faces: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] and faces [F, 3] of a unit sphere with 80 or 5,120 (icosphere) or 1,008 (24 x 21 UV sphere) faces."""
    subdivisions = {80: 1, 5120: 4}
    if faces in subdivisions:
        mesh = Sphere(1.0, subdivisions[faces]).surface()
        return mesh.vertices, mesh.faces
    return _uv_sphere(sections=24, rings=21)


def _uv_sphere(*, sections: int, rings: int) -> tuple[np.ndarray, np.ndarray]:
    """A sphere of ``rings`` rings of vertices between two poles: 2 sections rings faces."""
    polar = np.pi * np.arange(1, rings + 1) / (rings + 1)
    azimuth = 2.0 * np.pi * np.arange(sections) / sections
    ring = np.stack(np.broadcast_arrays(
        np.sin(polar)[:, None] * np.cos(azimuth), np.sin(polar)[:, None] * np.sin(azimuth), np.cos(polar)[:, None]
    ), axis=-1)  # fmt: skip
    vertices = np.concatenate([ring.reshape(-1, 3), [(0.0, 0.0, 1.0), (0.0, 0.0, -1.0)]])
    here = np.arange(sections)
    there = (here + 1) % sections
    north, south = rings * sections, rings * sections + 1
    low = (rings - 1) * sections
    faces = [
        np.stack([np.full(sections, north), here, there], 1),
        np.stack([np.full(sections, south), low + there, low + here], 1),
    ]
    for upper in range(0, low, sections):
        lower = upper + sections
        faces.append(np.stack([upper + here, lower + here, lower + there], 1))
        faces.append(np.stack([upper + here, lower + there, upper + there], 1))
    return vertices, np.concatenate(faces)


def make_inputs(pixels: int, faces: int, images: int = 1) -> tuple[RenderInputs, RasterSettings]:
    """A sphere in many colours under one lamp that covers about 40 % of a square picture, in torch tensors.

    Args:
        pixels: side of the picture.
        faces: of the sphere (see ``sphere``).
        images: M, the sphere a little turned in each.
    """
    vertices, triangles = sphere(faces)
    real = {"dtype": torch.float32, "device": require().device}
    # A unit sphere at distance d shows a disc of the angle asin(1 / d), which shall have the radius 2 sqrt(coverage / pi) in NDC.
    disc = 2.0 * np.sqrt(COVERAGE / np.pi)
    fov = 2.0 * np.arctan(np.tan(np.arcsin(1.0 / DISTANCE)) / disc)
    camera = pack_camera(
        intrinsics_from_fov(vertical_fov=fov, width=pixels, height=pixels), *look_at((DISTANCE, 0.0, 0.0), (0.0, 0.0, 0.0))
    )
    angle = 0.5 * torch.linspace(0.0, 0.3, images, **real)
    body_q = torch.zeros(images, 1, 7, **real)
    body_q[:, 0, 5], body_q[:, 0, 6] = torch.sin(angle), torch.cos(angle)
    colour = torch.rand(1, len(triangles), 3, 3, generator=torch.Generator().manual_seed(0)).to(**real)
    inputs = RenderInputs(
        vertices_rest=torch.tensor(vertices, **real),
        body_q=body_q,
        faces=torch.tensor(triangles, dtype=torch.int32, device=real["device"]),
        vertex_body=torch.zeros(len(vertices), dtype=torch.int32, device=real["device"]),
        camera=torch.tensor(camera[None], **real),
        albedo=colour,
        ambient=torch.full((1, 3), 0.3, **real),
        light=torch.tensor([[-1.0, 0.5, -0.7, 0.7, 0.7, 0.7]], **real),
        background=torch.ones(1, 3, **real),
    )
    return inputs, RasterSettings(width=pixels, height=pixels, sigma=1e-4, gamma=1e-4, near=1.0, far=100.0)


def _passes(inputs: RenderInputs, settings: RasterSettings) -> tuple[dict[str, Callable[[], object]], RenderResult]:
    """The "forward" pass and the "backward" pass towards all inputs, and a result."""
    result = render(inputs, settings)
    bar = torch.ones_like(result.images)
    return {"forward": lambda: render(inputs, settings), "backward": lambda: render_adjoint(result, bar)}, result


def _single_tables(sizes: tuple[tuple[int, int], ...], quick: bool) -> Iterator[Table]:
    speed = Table(
        "One picture of a sphere, colour and alpha",
        ("pixels", "faces", "covered", "forward, ms", "backward, ms", "pictures/s, both", "P3D forward, ms", "P3D backward, ms",
         "P3D / forward", "P3D / backward"),
    )  # fmt: skip
    bound = Table(
        "Memory above the inputs, and what the time goes into",
        ("pixels", "faces", "arrays, MB", "process, MB", "pairs visited", "pairs covered", "forward, ns a covered pair",
         "backward, ns a covered pair"),
    )  # fmt: skip
    for pixels, faces in sizes:
        inputs, settings = make_inputs(pixels, faces)
        functions, result = _passes(inputs, settings)
        least = best_times(functions, repeats=5 if quick else 25)
        _add_speed(speed, pixels, faces, result, least)
        visited, covered = count_pairs(result)
        process = _process_memory(pixels, faces, 1, quick)
        bound.add(
            f"{pixels} x {pixels}", f"{faces:,}", number(array_bytes(result) / 1e6), process, f"{visited:,}", f"{covered:,}",
            *(number(least[kind] * 1e9 / covered) for kind in ("forward", "backward")),
        )  # fmt: skip
    speed.remarks.append(
        "80 and 5,120 faces: icospheres; 1,008: a UV sphere of 24 x 21. sigma = gamma = 1e-4. Backward: towards vertices, "
        "poses, camera, colours, lights and background together."
    )
    speed.remarks.append(
        "P3D: PyTorch3D 0.7.9's CPU rasteriser with SoftPhongShader, its figures for 10 and 50 faces a pixel, measured "
        "EARLIER on two cores of the same kind, not in this run; the ratios are to the smaller of them."
    )
    bound.remarks.append(
        "Pairs visited: a pixel in the box of a face grown by the cut-off distance; covered: coverage above zero, the work "
        "that the result needs. Times are wall times of all cores and include posing, projection, shading and binning. "
        "Arrays: what one forward and one backward pass allocate; process: what they add to the peak memory of a process "
        "of its own that has drawn 8 x 8 pixels before."
    )
    yield speed
    yield bound


def _add_speed(table: Table, pixels: int, faces: int, result: RenderResult, least: dict[str, float]) -> None:
    forward, backward = least["forward"], least["backward"]
    covered = float((result.images[..., 3] > 0.5).float().mean())
    theirs = PYTORCH3D_FORWARD[pixels, faces], PYTORCH3D_BACKWARD[pixels, faces]
    ranges = [" - ".join(dict.fromkeys(f"{1e3 * t:.0f}" for t in (min(peer), max(peer)))) for peer in theirs]
    table.add(
        f"{pixels} x {pixels}", f"{faces:,}", f"{100 * covered:.0f} %", number(forward * 1e3), number(backward * 1e3),
        number(1 / (forward + backward)), *ranges, times(min(theirs[0]) / forward), times(min(theirs[1]) / backward),
    )  # fmt: skip


def _batch_table(quick: bool) -> Table:
    (pixels, faces), peer_forward, peer_backward = PYTORCH3D_BATCH
    result = Table(
        f"Batches at {pixels} x {pixels} pixels, {faces:,} faces",
        ("pictures", "forward, ms", "backward, ms", "pictures/s, both", "ratio to 1", "arrays, MB", "process, MB"),
    )
    single, batch = make_inputs(pixels, faces, 1), make_inputs(pixels, faces, 8)
    # One picture; eight; eight through torch autograd: all in turns.
    programs = {"1": _passes(*single), "8": _passes(*batch)}
    functions = {(name, kind): run for name, program in programs.items() for kind, run in program[0].items()}
    torch_name = "8, torch autograd (`bridge.render`)"
    functions |= {(torch_name, kind): run for kind, run in _torch_passes(*batch).items()}
    least = best_times(functions, repeats=5 if quick else 25)
    rates = {name: int(name[0]) / (least[name, "forward"] + least[name, "backward"]) for name in (*programs, torch_name)}
    for name, rate in rates.items():
        memory = ("", "")
        if name in programs:
            memory = number(array_bytes(programs[name][1]) / 1e6), _process_memory(pixels, faces, int(name), quick)
        cells = [number(least[name, kind] * 1e3) for kind in ("forward", "backward")]
        result.add(name, *cells, number(rate), number(rate / rates["1"], 2), *memory)
    result.remarks.append(
        f"PyTorch3D (see above; 8 pictures, 10 faces a pixel, EARLIER on such a machine): {1e3 * peer_forward:.0f} ms and "
        f"{1e3 * peer_backward:,.0f} ms, which is {times(peer_forward / least['8', 'forward'])} and "
        f"{times(peer_backward / least['8', 'backward'])} the times here."
    )
    return result


def _torch_passes(inputs: RenderInputs, settings: RasterSettings) -> dict[str, Callable[[], object]]:
    names = ("vertices_rest", "body_q", "camera", "albedo", "ambient", "light", "background")
    wanted = {name: getattr(inputs, name).clone().requires_grad_() for name in names}
    inputs = replace(inputs, **wanted)
    pictures = bridge.render(inputs, settings)
    bar = torch.ones_like(pictures)
    return {
        "forward": lambda: bridge.render(inputs, settings),
        "backward": lambda: torch.autograd.grad(pictures, list(wanted.values()), bar, retain_graph=True),
    }


def array_bytes(result: RenderResult) -> int:
    """Bytes that one forward and one backward pass allocate: the result, the adjoints of all that is in it."""
    real = [result.vertices_world, result.screen, result.lit, result.backdrop]
    tiles = result.tiles
    forward = [result.images, result.pixel_state, tiles.start, tiles.slot, tiles.entries, *real]
    inputs = result.inputs
    wanted = [inputs.vertices_rest, inputs.body_q, inputs.camera, inputs.albedo, inputs.ambient, inputs.light, inputs.background]
    return sum(array.nbytes for array in [*forward, *real, *wanted])


def _process_memory(pixels: int, faces: int, images: int, quick: bool) -> str:
    """MB by which one forward and one backward pass raise the memory of a process that did a small one before."""
    if quick or not sys.platform.startswith("linux"):
        return ""
    code = f"from benchmarks.raster import memory_child; memory_child({pixels}, {faces}, {images}, {require().device!r})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return f"{float(done.stdout) / 1e6:.1f}"


def memory_child(pixels: int, faces: int, images: int, device: str) -> None:
    """Body of that process: print the growth of its peak memory in bytes."""
    start(device=device, precision="f32")
    for small in (True, False):
        inputs, settings = make_inputs(8 if small else pixels, faces, 1 if small else images)
        images_bar = torch.ones(inputs.body_q.shape[0], settings.height, settings.width, 4, device=inputs.body_q.device)
        reset_peak()
        before = resident_bytes()
        render_adjoint(render(inputs, settings), images_bar)
    print(peak_bytes() - before)


@ti.kernel
def count_kernel(
    screen: ti.types.ndarray(), faces: ti.types.ndarray(), width: int, height: int, sigma: float, counts: ti.types.ndarray()
):
    """Count pixel-face pairs.

    Reads screen [M, V, 3] and faces [F, 3]. Adds to counts [2] int32 the pairs whose pixel lies in the grown box of the face, and
    those with coverage. The tests are the rasteriser's own. No adjoint: integers.
    """
    half = 0.5 * ti.min(width, height)
    radius = ti.sqrt(CUT_OFF * sigma)
    for m, f in ti.ndrange(screen.shape[0], faces.shape[0]):
        i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
        a0, a1 = vec2(screen[m, i, 0], screen[m, i, 1]), vec2(screen[m, j, 0], screen[m, j, 1])
        a2 = vec2(screen[m, k, 0], screen[m, k, 1])
        inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
        low, high = ti.min(a0, a1, a2) - radius, ti.max(a0, a1, a2) + radius
        x0 = ti.max(ti.cast(ti.ceil(low[0] * half + 0.5 * width - 0.5), ti.i32), 0)
        y0 = ti.max(ti.cast(ti.ceil(low[1] * half + 0.5 * height - 0.5), ti.i32), 0)
        x1 = ti.min(ti.cast(ti.floor(high[0] * half + 0.5 * width - 0.5), ti.i32), width - 1)
        y1 = ti.min(ti.cast(ti.floor(high[1] * half + 0.5 * height - 0.5), ti.i32), height - 1)
        visited, covered = 0, 0
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                visited += 1
                p = vec2((x + 0.5 - 0.5 * width) / half, (y + 0.5 - 0.5 * height) / half)
                distance = sub_areas(p, a0, a1, a2) * to_distance
                least = ti.min(distance[0], distance[1], distance[2])
                thin = inverse_area == 0
                coverage = 0.0
                if least >= 0 and not thin:
                    coverage = 1.0 - inside_gap(least * least / sigma)
                else:
                    _, squared, _ = closest_point(p, a0, a1, a2, inverse_squared, distance, thin)
                    if squared < CUT_OFF * sigma:
                        coverage, _ = outside_coverage(squared / sigma)
                if coverage > NO_COVERAGE:
                    covered += 1
        counts[0] += visited
        counts[1] += covered


def count_pairs(result: RenderResult) -> tuple[int, int]:
    """Pixel-face pairs of a result: visited (in the grown box of a face) and covered (with coverage)."""
    settings = result.settings
    counts = torch.zeros(2, dtype=torch.int32, device=result.screen.device)
    count_kernel(result.screen, result.inputs.faces, settings.width, settings.height, settings.sigma, counts)
    visited, covered = counts.tolist()
    return visited, covered
