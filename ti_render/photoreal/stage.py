"""A Mitsuba scene that is kept from one picture to the next, while nothing moves in it but vertices.

Mitsuba's vectorised variants trace a rendering anew for every call, material by material and mesh by mesh. For small pictures
of many bodies that takes ten times as long as the rendering itself. From the second picture of a scene on calls are frozen
(``drjit.freeze``): they are traced three times at most, until it is known what changes from one to the next.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ti_render.inputs import present_inputs
from ti_render.photoreal.camera import Film, sensor_dict
from ti_render.photoreal.geometry import Submesh, row

if TYPE_CHECKING:
    from ti_render.inputs import RenderInputs

_MOVE = ("vertices_rest", "body_q")  # show in the positions of the parts
_IN_PARTS = ("albedo", "uv")  # show in their colours and uv


def stage_key(inputs: RenderInputs, image: int, submeshes: Sequence[Submesh]) -> bytes:
    """What all pictures of one stage have in common: a checksum of everything but the places of the vertices.

    Args:
        inputs: what the pictures are made of.
        image: number of the picture.
        submeshes: its triangles (``submeshes_of``).
    """
    checksum = hashlib.blake2b()
    for name in present_inputs(inputs):
        if name not in (*_MOVE, *_IN_PARTS, "softness"):
            checksum.update(name.encode() + row(getattr(inputs, name), image, len(inputs.body_q)).tobytes())
    for submesh in submeshes:
        flat, untextured = submesh.normals is None, submesh.uv is None
        checksum.update(repr((submesh.body, submesh.texture, submesh.positions.shape, flat, untextured)).encode())
        checksum.update(submesh.colors.tobytes() + (b"" if submesh.uv is None else submesh.uv.tobytes()))
    return checksum.digest()


class Stage:
    """A scene whose meshes "part0", "part1" ... can be moved, seen by one camera.

    Only the newest one can be used. Dr.Jit traces the materials of all scenes that there are into each rendering, whichever is
    rendered: a process with several scenes would spend its time on compiling. A new stage closes the one before.
    """

    _open: weakref.ref[Stage] | None = None

    def __init__(
        self, mitsuba: Any, content: Callable[[], Mapping[str, Any]], *, key: bytes, camera: np.ndarray, film: Film, near: float,
        far: float,
    ) -> None:  # fmt: skip
        """Close the stage that is open, and load the scene.

        Args:
            mitsuba: the module.
            content: makes Mitsuba's description of the scene.
            key: from ``stage_key``.
            camera: [16] camera row.
            film: from ``film_of``.
            near, far: depths [m] between which things are seen.
        """
        previous_stage = Stage._open() if Stage._open is not None else None
        if previous_stage is not None:
            previous_stage.close()
        self.key = key
        self._mitsuba, self._camera, self._film, self._near, self._far = mitsuba, camera, film, near, far
        # Side by side, objects are made by threads that can wait for each other for ever (mitsuba-renderer/drjit, issue 524).
        self.scene = mitsuba.load_dict(dict(content()), parallel=False)
        self._parameters = mitsuba.traverse(self.scene)
        self._views: dict[tuple[str, int, int], Callable[[int], Any]] = {}
        self._moved = False
        Stage._open = weakref.ref(self)

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self.scene is not None

    def close(self) -> None:
        """Let go of the scene."""
        self.scene = self._parameters = None
        self._views.clear()

    def move(self, submeshes: Sequence[Submesh]) -> None:
        """Put the vertices where other submeshes of the same key have them."""
        if not self._moved:  # from now on it pays to freeze
            self._moved = True
            self._views.clear()
        for number, submesh in enumerate(submeshes):
            for name, array in (("vertex_positions", submesh.positions), ("vertex_normals", submesh.normals)):
                if array is not None:
                    self._parameters[f"part{number}.{name}"] = self._own(array)
        self._parameters.update()

    def shapes(self) -> dict[int, str]:
        """Number that the integrator of shape numbers gives a mesh -> its name; 0 is nothing.

        Vectorised variants number the meshes of all scenes that there are, the scalar one those of each scene.
        """
        names = [shape.id() for shape in self.scene.shapes()]
        if not self._traced:
            return dict(enumerate(names, start=1))
        import drjit

        pointers = [self._mitsuba.ShapePtr(shape) for shape in self.scene.shapes()]
        numbers = [int(drjit.reinterpret_array(self._mitsuba.UInt32, pointer)[0]) for pointer in pointers]
        return dict(zip(numbers, names, strict=True))

    def exposed(self, integrator: Mapping[str, Any], *, samples: int, seed: int, finer: int = 1) -> np.ndarray:
        """What Mitsuba puts on the film, [rows, columns, channels] float64.

        Args:
            integrator: Mitsuba's description of it; one of each type.
            samples: of every pixel of the film.
            seed: of the random numbers.
            finer: the film gets so many pixels for each of its pixels and axis.
        """
        view = (integrator["type"], samples, finer)
        if view not in self._views:
            self._views[view] = self._viewed(integrator, samples, finer)
        return np.array(self._views[view](seed), dtype=np.float64)

    def _viewed(self, integrator: Mapping[str, Any], samples: int, finer: int) -> Callable[[int], Any]:
        """A function of the seed that renders the scene as it is then."""
        mitsuba, scene = self._mitsuba, self.scene  # not self: what closing lets go of must go at once
        camera = sensor_dict(mitsuba, self._camera, self._film, near=self._near, far=self._far, finer=finer)
        sensor, path = mitsuba.load_dict(camera), mitsuba.load_dict(dict(integrator))

        def shown(scene: Any, sensor: Any, path: Any, seed: Any) -> Any:
            return mitsuba.render(scene, sensor=sensor, integrator=path, spp=samples, seed=seed)

        if not self._traced or not self._moved:
            return lambda seed: shown(scene, sensor, path, seed)
        import drjit

        frozen = drjit.freeze(shown)
        return lambda seed: frozen(scene, sensor, path, mitsuba.UInt32(seed))

    @property
    def _traced(self) -> bool:
        return not self._mitsuba.variant().startswith("scalar")

    def _own(self, array: np.ndarray) -> Any:
        """Numbers in Mitsuba's own memory: a frozen call is traced anew when borrowed memory comes to lie otherwise."""
        numbers = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
        if not self._traced:
            return type(self._parameters["part0.vertex_positions"])(numbers)
        import drjit

        copied = self._mitsuba.Float(numbers) + drjit.opaque(self._mitsuba.Float, 0.0)
        drjit.eval(copied)
        return copied
