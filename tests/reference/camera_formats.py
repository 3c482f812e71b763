"""Camera files of every format, records with every lens, and checks of projections and messages.

``lands`` compares with the rows that the renderer reads; ``distorted`` is OpenCV's lens model in plain numpy.
"""

import json

import numpy as np
import pytest

from ti_render.camera_files import CameraRecord, write_colmap_text, write_opencv_json, write_transforms_json
from ti_sim.base.errors import UserError

FX, FY, CX, CY, W, H = 410.0, 395.0, 318.7, 243.1, 640, 480
K1, K2, P1, P2, K3 = DISTORTION = (-0.11, 0.032, 0.0013, -0.0021, 0.0047)


def a_rotation(seed):
    """A rotation from two random vectors (Gram-Schmidt)."""
    generator = np.random.default_rng(seed)
    first, second = generator.normal(size=(2, 3))
    first = first / np.linalg.norm(first)
    second = second - first * (first @ second)
    second = second / np.linalg.norm(second)
    return np.stack([first, second, np.cross(first, second)])


def distorted(x, y):
    """OpenCV's lens model, as its manual writes it."""
    r = np.sqrt(x**2 + y**2)
    radial = 1 + K1 * r**2 + K2 * r**4 + K3 * r**6
    return (
        x * radial + 2 * P1 * x * y + P2 * (r**2 + 2 * x**2),
        y * radial + P1 * (r**2 + 2 * y**2) + 2 * P2 * x * y,
    )


def pixel_of_rows(camera, point):
    """The renderer's own projection, from the two rows that it is given."""
    row, (k1, k2, p1, p2, k3) = camera.camera_row(), camera.distortion_row()
    x, y, z = row[4:13].reshape(3, 3) @ point + row[13:]
    x, y = x / z, y / z
    r2 = x * x + y * y
    radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    x, y = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x), y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return np.array([row[0] * x + row[2], row[1] * y + row[3]])


def lands(camera, point, pixel, tolerance=1e-10):
    """Assert that the record and its rows put the point there."""
    np.testing.assert_allclose(pixel_of_rows(camera, np.asarray(point, dtype=float)), pixel, rtol=0, atol=tolerance)
    np.testing.assert_allclose(camera.project(point), pixel, rtol=0, atol=tolerance)


def put(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def opencv_entry(**changes):
    entry = {
        "K": [[FX, 0, CX], [0, FY, CY], [0, 0, 1]],
        "R": np.eye(3).tolist(),
        "t": [0.0, 0.0, 0.0],
        "width": W,
        "height": H,
    }
    return {key: value for key, value in (entry | changes).items() if value is not ...}


def transforms(**changes):
    data = {"fl_x": FX, "fl_y": FY, "cx": CX, "cy": CY, "w": W, "h": H, "camera_model": "OPENCV"}
    data |= {"frames": [{"file_path": "images/1.png", "transform_matrix": np.eye(4).tolist()}]}
    return {key: value for key, value in (data | changes).items() if value is not ...}


def frame(**changes):
    entry = {"file_path": "images/1.png", "transform_matrix": np.eye(4).tolist()}
    return {key: value for key, value in (entry | changes).items() if value is not ...}


IMAGE = "1 1 0 0 0 0 0 0 1 a b.jpg\n\n"


def colmap(folder, cameras=f"1 PINHOLE {W} {H} {FX} {FY} {CX} {CY}\n", images=IMAGE):
    folder.mkdir(exist_ok=True)
    put(folder / "cameras.txt", "# comment\n" + cameras)
    put(folder / "images.txt", "# comment\n" + images)
    return folder


def half_turn(axis):
    turn = -np.eye(3)
    turn[axis, axis] = 1.0
    return turn


def records():
    """Cameras with every lens, near and far, and every branch of the quaternion."""
    rotations = [a_rotation(seed) for seed in range(20, 32)] + [np.eye(3)] + [half_turn(axis) for axis in range(3)]
    lenses = [DISTORTION, (0,) * 5, (K1, K2, 0, 0, 0), (0, 0, 0, 0, K3)]
    generator = np.random.default_rng(5)
    return [
        CameraRecord(
            name=f"folder one/größe {index}.png",
            width=W + index % 3,
            height=H,
            intrinsics=[FX * (1 + 0.1 * generator.random()), FY, CX, CY],
            rotation=turn,
            translation=generator.normal(size=3) * 3,
            distortion=lenses[index % 4],
        )
        for index, turn in enumerate(rotations)
    ]


WRITERS = {
    "opencv": ("a.json", write_opencv_json),
    "transforms": ("b.json", write_transforms_json),
    "colmap": ("model", write_colmap_text),
}

NAN = float("nan")


def refused(words, call, *args, **options):
    """Assert one sentence without line breaks, with all the words in it."""
    with pytest.raises(UserError) as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message
