"""Systems of the motions that were solved last, without film, and their looks: searches and error bars come back to the same
motions."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np
import torch

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from risp_torch.inversion.appearance.fit.look import Look
from risp_torch.inversion.appearance.fit.look_equations import LookInverse
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.scene.view.unlit import UnlitRenderInputs

MAX_BYTES = 2**29  # of all systems together
MAX_LOOKS = 32  # looks of one film

CoveredSystem = tuple[AppearanceSystem, np.ndarray]  # a system, and the visible share [n, H W] of the plate in whole pictures


class SystemCache:
    """The systems that were read or written last, up to ``MAX_BYTES``."""

    def __init__(self) -> None:
        self._systems: OrderedDict[bytes, CoveredSystem] = OrderedDict()

    def get(self, key: bytes) -> CoveredSystem | None:
        """The system of a key, without film; None if there is none."""
        if key in self._systems:
            self._systems.move_to_end(key)
        return self._systems.get(key)

    def put(self, key: bytes, system: AppearanceSystem, plate_share: np.ndarray) -> None:
        """Keep a system without its film, and the visible share [n, H W] of the plate."""
        self._systems[key] = system.without_film(), plate_share
        while sum(_size(*kept) for kept in self._systems.values()) > MAX_BYTES:
            self._systems.popitem(last=False)


class LookCache:
    """The looks of one film that were read or written last, each with the inverse of a matrix near its own."""

    def __init__(self) -> None:
        self._looks: OrderedDict[Hashable, tuple[Look, LookInverse | None]] = OrderedDict()

    def get(self, key: Hashable) -> tuple[Look, LookInverse | None] | None:
        """The look of a key; None if there is none."""
        if key in self._looks:
            self._looks.move_to_end(key)
        return self._looks.get(key)

    def put(self, key: Hashable, look: Look, inverse: LookInverse | None) -> None:
        """Keep a look."""
        self._looks[key] = look, inverse
        if len(self._looks) > MAX_LOOKS:
            self._looks.popitem(last=False)


def keys_of_worlds(unlit_inputs: UnlitRenderInputs, settings: LookSettings) -> list[bytes]:
    """A hash of everything that the system of each world depends on, but for the film."""
    common = hashlib.blake2b(repr((
        unlit_inputs.settings, unlit_inputs.frames, unlit_inputs.moments, unlit_inputs.ground_height, settings.light,
        settings.shadow, settings.colors, settings.texels, settings.exposure, settings.plate,
    )).encode())  # fmt: skip
    for array in (unlit_inputs.faces, unlit_inputs.vertex_body):
        common.update(np.ascontiguousarray(array))
    keys = []
    for world in range(unlit_inputs.worlds):
        key, inputs = common.copy(), unlit_inputs.of_worlds([world])
        for name, array in (*vars(inputs.arrays).items(), ("exposure", inputs.exposure_weights)):
            if isinstance(array, torch.Tensor):
                key.update(f"{name}{tuple(array.shape)}".encode())
                key.update(np.ascontiguousarray(array.detach().cpu().numpy()))
        keys.append(key.digest())
    return keys


def _size(system: AppearanceSystem, plate_share: np.ndarray) -> int:
    matrix = system.matrix
    arrays = matrix.data, matrix.indices, matrix.indptr, system.row, system.basis, system.plate_share, plate_share
    return sum(array.nbytes for array in arrays)
