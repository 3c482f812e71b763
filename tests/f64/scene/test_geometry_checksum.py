"""The checksum of a scene's geometry: equal for meshes that differ in their last bits, not for others."""

import numpy as np
import pytest

from risp_torch import Box, Mesh, Scene
from risp_torch.scene.description import rounded


def _checksum(turn: float = 0.0, size: float = 1.0) -> str:
    """The geometry of a scene with one box, its vertices turned by an angle [rad] and scaled."""
    box = Box(0.1, 0.2, 0.3).mesh()
    c, s = np.cos(turn), np.sin(turn)
    vertices = size * np.asarray(box.vertices) @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    scene = Scene(frame_dt=0.01, frames=2, substeps=1, name="box")
    scene.add_rigid("box", shape=Mesh(vertices=vertices, faces=np.asarray(box.faces)), density=1000.0)
    return scene.description()["geometry_sha256"]


def test_other_last_bits_have_the_same_checksum():
    assert _checksum(size=1.0 + 4e-16) == _checksum(turn=3e-16) == _checksum()


@pytest.mark.parametrize("other", [{"turn": 1e-6}, {"size": 1.0 + 1e-6}])
def test_another_mesh_has_another_checksum(other):
    assert _checksum(**other) != _checksum()


def test_rounding():
    values = np.array([[1.0, -0.0], [1.0 / 3.0, -4.0]], dtype=np.float32)
    near = rounded(values)
    assert near.dtype == np.float64 and near.shape == (2, 2) and not np.signbit(near[0, 1])
    assert np.abs(near - values).max() <= 8.0 * 2.0**-31  # half a step of 2^-30, for magnitudes below 8
    assert (rounded(near * (1.0 + 1e-13)) == near).all()
    faces = np.array([0, 2**40 + 1])
    assert (rounded(faces) == faces).all()
    assert rounded(np.zeros((0, 3))).shape == (0, 3) and (rounded(np.zeros(2)) == 0.0).all()
    assert np.isnan(rounded(np.array([np.nan, 1.0]))[0])
