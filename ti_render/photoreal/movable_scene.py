"""A Mitsuba scene that is reused for several pictures in which only vertices move.

Mitsuba's vectorised variants retrace a rendering in every call, material by material and mesh by mesh. For small pictures of many
bodies this takes ten times as long as the rendering. From the second picture of a scene, calls are frozen (``drjit.freeze``):
they are traced at most three times, until the inputs that change are known.
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

_MOVING_INPUTS = ("vertices_rest", "body_q")  # determine the positions of the submeshes
_SUBMESH_INPUTS = ("albedo", "uv")  # determine their colours and uv


def scene_key(inputs: RenderInputs, image: int, submeshes: Sequence[Submesh]) -> bytes:
    """Checksum of all data that pictures of one ``MovableScene`` share: everything except the positions of the vertices.

    Args:
        inputs: of the pictures.
        image: number of the picture.
        submeshes: its triangles (``submeshes_of``).
    """
    checksum = hashlib.blake2b()
    for name in present_inputs(inputs):
        if name not in (*_MOVING_INPUTS, *_SUBMESH_INPUTS, "softness"):
            checksum.update(name.encode() + row(getattr(inputs, name), image, len(inputs.body_q)).tobytes())
    for submesh in submeshes:
        flat, untextured = submesh.normals is None, submesh.uv is None
        checksum.update(repr((submesh.body, submesh.texture, submesh.positions.shape, flat, untextured)).encode())
        checksum.update(submesh.colors.tobytes() + (b"" if submesh.uv is None else submesh.uv.tobytes()))
    return checksum.digest()


class MovableScene:
    """A scene whose meshes "part0", "part1" ... can be moved, and one camera.

    Only the newest of these scenes can be used. Dr.Jit traces the materials of all existing scenes into each rendering: a process
    with several scenes would spend its time on compilation. A new scene closes the previous one.
    """

    _open: weakref.ref[MovableScene] | None = None

    def __init__(
        self, mitsuba: Any, describe: Callable[[], Mapping[str, Any]], *, key: bytes, camera: np.ndarray, film: Film, near: float,
        far: float,
    ) -> None:  # fmt: skip
        """Close the scene that is open, and load this one.

        Args:
            mitsuba: the module.
            describe: returns Mitsuba's description of the scene.
            key: from ``scene_key``.
            camera: [16] camera row.
            film: from ``film_of``.
            near, far: depths [m] of the clipping planes.
        """
        previous_scene = MovableScene._open() if MovableScene._open is not None else None
        if previous_scene is not None:
            previous_scene.close()
        self.key = key
        self._mitsuba, self._camera, self._film, self._near, self._far = mitsuba, camera, film, near, far
        # Parallel loading can deadlock (mitsuba-renderer/drjit, issue 524).
        self.scene = mitsuba.load_dict(dict(describe()), parallel=False)
        self._parameters = mitsuba.traverse(self.scene)
        self._render_functions: dict[tuple[str, int, int], Callable[[int], Any]] = {}
        self._has_moved = False
        MovableScene._open = weakref.ref(self)

    @property
    def is_open(self) -> bool:
        """Whether the scene can be used."""
        return self.scene is not None

    def close(self) -> None:
        """Release the scene."""
        self.scene = self._parameters = None
        self._render_functions.clear()

    def move(self, submeshes: Sequence[Submesh]) -> None:
        """Move the vertices to the positions of other submeshes with the same key."""
        if not self._has_moved:  # from the second picture, freezing saves time
            self._has_moved = True
            self._render_functions.clear()
        for number, submesh in enumerate(submeshes):
            for name, array in (("vertex_positions", submesh.positions), ("vertex_normals", submesh.normals)):
                if array is not None:
                    self._parameters[f"part{number}.{name}"] = self._copy_to_device(array)
        self._parameters.update()

    def shapes(self) -> dict[int, str]:
        """Shape number of each mesh -> its name; 0 is the background.

        Vectorised variants number the meshes of all existing scenes, the scalar one those of each scene.
        """
        names = [shape.id() for shape in self.scene.shapes()]
        if not self._is_traced:
            return dict(enumerate(names, start=1))
        import drjit

        pointers = [self._mitsuba.ShapePtr(shape) for shape in self.scene.shapes()]
        numbers = [int(drjit.reinterpret_array(self._mitsuba.UInt32, pointer)[0]) for pointer in pointers]
        return dict(zip(numbers, names, strict=True))

    def render_film(self, integrator: Mapping[str, Any], *, samples: int, seed: int, supersampling: int = 1) -> np.ndarray:
        """Render the film, [rows, columns, channels] float64.

        Args:
            integrator: Mitsuba's description of it; one of each type.
            samples: of every pixel of the film.
            seed: of the random numbers.
            supersampling: factor of the number of film pixels along each axis.
        """
        key = (integrator["type"], samples, supersampling)
        if key not in self._render_functions:
            self._render_functions[key] = self._render_function(integrator, samples, supersampling)
        return np.array(self._render_functions[key](seed), dtype=np.float64)

    def _render_function(self, integrator: Mapping[str, Any], samples: int, supersampling: int) -> Callable[[int], Any]:
        """A function of the seed that renders the scene in its state at the call."""
        mitsuba, scene = self._mitsuba, self.scene  # no reference to self, so that closing frees the scene at once
        camera = sensor_dict(mitsuba, self._camera, self._film, near=self._near, far=self._far, supersampling=supersampling)
        sensor, loaded_integrator = mitsuba.load_dict(camera), mitsuba.load_dict(dict(integrator))

        def render_frame(scene: Any, sensor: Any, loaded_integrator: Any, seed: Any) -> Any:
            return mitsuba.render(scene, sensor=sensor, integrator=loaded_integrator, spp=samples, seed=seed)

        if not self._is_traced or not self._has_moved:
            return lambda seed: render_frame(scene, sensor, loaded_integrator, seed)
        import drjit

        frozen_render = drjit.freeze(render_frame)
        return lambda seed: frozen_render(scene, sensor, loaded_integrator, mitsuba.UInt32(seed))

    @property
    def _is_traced(self) -> bool:
        """Whether Dr.Jit traces the renderings of the variant."""
        return not self._mitsuba.variant().startswith("scalar")

    def _copy_to_device(self, array: np.ndarray) -> Any:
        """Copy in Mitsuba's memory: a frozen call is retraced when the alignment of borrowed memory changes."""
        numbers = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
        if not self._is_traced:
            return type(self._parameters["part0.vertex_positions"])(numbers)
        import drjit

        device_array = self._mitsuba.Float(numbers) + drjit.opaque(self._mitsuba.Float, 0.0)
        drjit.eval(device_array)
        return device_array
