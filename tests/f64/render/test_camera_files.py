"""Cameras from files: known points land where each format's own formulas put them, formats agree, faults are named."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from ti_render.camera_files import (
    CameraRecord,
    read_cameras,
    write_colmap_text,
    write_opencv_json,
    write_transforms_json,
    z_up_from,
)
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


# --- OpenCV -----------------------------------------------------------------------------------------------------------


def opencv_entry(**changes):
    entry = {
        "K": [[FX, 0, CX], [0, FY, CY], [0, 0, 1]],
        "R": np.eye(3).tolist(),
        "t": [0.0, 0.0, 0.0],
        "width": W,
        "height": H,
    }
    return {key: value for key, value in (entry | changes).items() if value is not ...}


def test_opencv_by_hand(tmp_path):
    """x right, y down, z forward; an integer pixel centre moves by half a pixel to the renderer's."""
    path = put(tmp_path / "one.json", opencv_entry(K=[[100, 0, 50], [0, 100, 40], [0, 0, 1]], t=[0, 0, 3]))
    (camera,) = read_cameras(path)
    lands(camera, [1, 2, 1], [50 + 25 + 0.5, 40 + 50 + 0.5])
    lands(read_cameras(path, pixel_centers="half")[0], [1, 2, 1], [75, 90])
    assert (camera.name, camera.width, camera.height) == ("camera", W, H)


@pytest.mark.parametrize("centers", ["integer", "half"])
def test_opencv_projection(tmp_path, centers):
    """K (R p + t) with the lens between, exactly as cv2.projectPoints defines it."""
    rotation, shift = a_rotation(1), np.array([0.3, -0.2, 4.0])
    entry = opencv_entry(R=rotation.tolist(), t=[[v] for v in shift], dist=[list(DISTORTION)], name="left")
    (camera,) = read_cameras(put(tmp_path / "a.json", {"cameras": [entry], "pixel_centers": centers}))
    point = np.array([0.5, 0.8, -0.4])
    x, y, z = rotation @ point + shift
    u, v, _ = np.array(entry["K"]) @ [*distorted(x / z, y / z), 1.0]
    offset = 0.5 if centers == "integer" else 0.0
    lands(camera, point, [u + offset, v + offset])


def test_opencv_list_names_and_own_centres(tmp_path):
    """A plain list works; each entry may have its own name, its own pixel centres and four coefficients."""
    entries = [opencv_entry(), opencv_entry(name="b", pixel_centers="half", dist=[K1, K2, P1, P2])]
    first, second = read_cameras(put(tmp_path / "list.json", entries))
    assert (first.name, second.name) == ("camera_0", "b")
    np.testing.assert_array_equal(first.intrinsics, [FX, FY, CX + 0.5, CY + 0.5])
    np.testing.assert_array_equal(second.intrinsics, [FX, FY, CX, CY])
    np.testing.assert_array_equal(second.distortion, [K1, K2, P1, P2, 0])
    np.testing.assert_array_equal(first.distortion, np.zeros(5))


def test_opencv_file_is_what_opencv_wants(tmp_path):
    """The written K has integer pixel centres unless asked otherwise, and the file says which."""
    (record,) = read_cameras(put(tmp_path / "a.json", opencv_entry()))
    write_opencv_json(tmp_path / "new" / "b.json", [record])
    data = json.loads((tmp_path / "new" / "b.json").read_text())
    assert data["pixel_centers"] == "integer"
    np.testing.assert_allclose(data["cameras"][0]["K"], opencv_entry()["K"], rtol=0, atol=1e-12)
    write_opencv_json(tmp_path / "c.json", [record], pixel_centers="half")
    assert json.loads((tmp_path / "c.json").read_text())["cameras"][0]["K"][0][2] == CX + 0.5
    np.testing.assert_allclose(read_cameras(tmp_path / "c.json")[0].intrinsics, record.intrinsics, rtol=0, atol=1e-12)


# --- nerfstudio -------------------------------------------------------------------------------------------------------


def transforms(**changes):
    data = {"fl_x": FX, "fl_y": FY, "cx": CX, "cy": CY, "w": W, "h": H, "camera_model": "OPENCV"}
    data |= {"frames": [{"file_path": "images/1.png", "transform_matrix": np.eye(4).tolist()}]}
    return {key: value for key, value in (data | changes).items() if value is not ...}


def frame(**changes):
    entry = {"file_path": "images/1.png", "transform_matrix": np.eye(4).tolist()}
    return {key: value for key, value in (entry | changes).items() if value is not ...}


def test_transforms_by_hand(tmp_path):
    """The identity looks along -z with y up: a point above the axis lands above the principal point."""
    (camera,) = read_cameras(put(tmp_path / "a.json", transforms(fl_x=100, fl_y=100, cx=50, cy=40)))
    lands(camera, [1, 2, -4], [50 + 25, 40 - 50])
    assert np.isnan(camera.project([1, 2, 4])).all()
    assert camera.name == "images/1.png"


def test_transforms_projection(tmp_path):
    """Camera to world in OpenGL axes: undo the pose, divide by -z, turn y over, then the lens."""
    axes, eye = a_rotation(2), np.array([0.4, -1.0, 2.0])  # columns: right, up, back
    pose = np.vstack([np.column_stack([axes, eye]), [0, 0, 0, 1]])
    keys = dict(zip(("k1", "k2", "p1", "p2", "k3"), DISTORTION, strict=True))
    data = transforms(**keys, frames=[frame(transform_matrix=pose.tolist())])
    (camera,) = read_cameras(put(tmp_path / "transforms.json", data))
    np.testing.assert_allclose(camera.position(), eye, rtol=0, atol=1e-14)
    point = eye + 0.3 * axes[:, 0] + 0.2 * axes[:, 1] - 1.5 * axes[:, 2]  # right, above and in front
    x, y = distorted(0.3 / 1.5, -0.2 / 1.5)
    assert x > 0 > y
    lands(camera, point, [CX + FX * x, CY + FY * y])
    (from_folder,) = read_cameras(tmp_path)
    np.testing.assert_array_equal(from_folder.camera_row(), camera.camera_row())


def test_transforms_frames_go_first(tmp_path):
    """A frame's own intrinsics stand instead of the top's, key by key."""
    frames = [frame(), frame(file_path="b", fl_x=500.0, k1=0.25, w=800, transform_matrix=np.eye(4)[:3].tolist())]
    first, second = read_cameras(put(tmp_path / "a.json", transforms(k1=0.5, k2=0.125, frames=frames)))
    assert (first.width, second.width, second.height) == (W, 800, H)
    np.testing.assert_array_equal(second.intrinsics, [500, FY, CX, CY])
    np.testing.assert_array_equal(first.distortion, [0.5, 0.125, 0, 0, 0])
    np.testing.assert_array_equal(second.distortion, [0.25, 0.125, 0, 0, 0])


def test_transforms_original_world(tmp_path):
    """p_file = a (s A p + b): the original camera sees p where the file's camera sees p_file."""
    turn, shift, applied_scale, scale = a_rotation(3), np.array([0.5, -0.25, 2.0]), 0.4, 0.7
    pose = np.vstack([np.column_stack([a_rotation(4), [0.2, 0.1, 0.3]]), [0, 0, 0, 1]])
    data = transforms(
        applied_transform=np.column_stack([scale * turn, shift]).tolist(),
        applied_scale=applied_scale,
        frames=[frame(transform_matrix=pose.tolist())],
    )
    path = put(tmp_path / "a.json", data)
    (in_file,), (original,) = read_cameras(path), read_cameras(path, original_world=True)
    np.testing.assert_allclose(in_file.position(), pose[:3, 3], rtol=0, atol=1e-14)
    in_front = in_file.position() + in_file.rotation.T @ [0.2, -0.1, 2.0]

    def undone(point):
        return turn.T @ (point / applied_scale - shift) / scale

    np.testing.assert_allclose(original.position(), undone(in_file.position()), rtol=0, atol=1e-13)
    lands(original, undone(in_front), in_file.project(in_front))


@pytest.mark.parametrize("equal", [True, False])
def test_transforms_file_is_what_nerfstudio_wants(tmp_path, equal):
    """nerfstudio ignores a frame's intrinsics if the top has them: they must not stand in both places."""
    cameras = records()[:1] * 2 if equal else records()[:2]
    cameras = [CameraRecord(**(vars(camera) | {"name": name})) for camera, name in zip(cameras, "ab", strict=True)]
    write_transforms_json(tmp_path / "a.json", cameras)
    data = json.loads((tmp_path / "a.json").read_text())
    keys = {"fl_x", "fl_y", "cx", "cy", "w", "h", "k1", "k2", "p1", "p2", "k3"}
    assert data["camera_model"] == "OPENCV"
    assert keys & set(data) == (keys if equal else set())
    assert keys & set(data["frames"][1]) == (set() if equal else keys)


# --- COLMAP -----------------------------------------------------------------------------------------------------------

IMAGE = "1 1 0 0 0 0 0 0 1 a b.jpg\n\n"


def colmap(folder, cameras=f"1 PINHOLE {W} {H} {FX} {FY} {CX} {CY}\n", images=IMAGE):
    folder.mkdir(exist_ok=True)
    put(folder / "cameras.txt", "# comment\n" + cameras)
    put(folder / "images.txt", "# comment\n" + images)
    return folder


def test_colmap_by_hand(tmp_path):
    """OpenCV axes, and the first pixel's centre at (0.5, 0.5) already; a half turn about z by its quaternion."""
    images = "7 1 0 0 0 0 0 3 2 a b.jpg\n10.5 20 -1 3 4 17\n8 0 0 0 1 0 0 3 2 c.jpg\n"
    folder = colmap(tmp_path / "m", "2 SIMPLE_PINHOLE 100 80 100 50 40\n", images)
    first, second = read_cameras(folder)
    assert (first.name, second.name, first.width, first.height) == ("a b.jpg", "c.jpg", 100, 80)
    lands(first, [1, 2, 1], [75, 90])
    lands(second, [1, 2, 1], [25, -10])
    for name in ("cameras.txt", "images.txt"):
        np.testing.assert_array_equal(read_cameras(folder / name)[0].camera_row(), first.camera_row())


def hamilton(a, b):
    """The product of two quaternions w, x, y, z."""
    vector = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.concatenate([[a[0] * b[0] - a[1:] @ b[1:]], vector])


@pytest.mark.parametrize(
    ("model", "parameters", "focal", "coefficients"),
    [
        ("SIMPLE_PINHOLE", [FX, CX, CY], (FX, FX), ()),
        ("PINHOLE", [FX, FY, CX, CY], (FX, FY), ()),
        ("SIMPLE_RADIAL", [FX, CX, CY, K1], (FX, FX), (K1,)),
        ("RADIAL", [FX, CX, CY, K1, K2], (FX, FX), (K1, K2)),
        ("OPENCV", [FX, FY, CX, CY, K1, K2, P1, P2], (FX, FY), (K1, K2, P1, P2)),
        ("FULL_OPENCV", [FX, FY, CX, CY, K1, K2, P1, P2, K3, 0, 0, 0], (FX, FY), (K1, K2, P1, P2, K3)),
    ],
)
def test_colmap_models(tmp_path, model, parameters, focal, coefficients):
    """q p q* + t and the model's own distortion, with u, v, du, dv as COLMAP writes them."""
    quaternion, shift = np.array([0.5, -0.1, 0.7, 0.3]), np.array([0.2, 0.1, 3.0])
    quaternion /= np.linalg.norm(quaternion)
    pose = " ".join(map(repr, [*quaternion.tolist(), *shift.tolist()]))
    words = " ".join(map(repr, parameters))
    (camera,) = read_cameras(colmap(tmp_path / "m", f"1 {model} {W} {H} {words}\n", f"1 {pose} 1 a.png\n\n"))
    point = np.array([0.3, 0.6, 0.4])
    conjugate = quaternion * [1, -1, -1, -1]
    a, b, c = hamilton(hamilton(quaternion, np.array([0.0, *point])), conjugate)[1:] + shift
    u, v = a / c, b / c
    k1, k2, p1, p2, k3 = [*coefficients, 0, 0, 0, 0, 0][:5]
    r2 = u * u + v * v
    radial = k1 * r2 + k2 * r2 * r2 + k3 * r2 * r2 * r2
    du = u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u)
    dv = v * radial + 2 * p2 * u * v + p1 * (r2 + 2 * v * v)
    lands(camera, point, [focal[0] * (u + du) + CX, focal[1] * (v + dv) + CY])


def test_colmap_file(tmp_path):
    """The least model that holds the lens, one camera for equal lenses, an empty line for no points."""
    plain = dict(width=W, height=H, intrinsics=[FX, FY, CX, CY], rotation=np.eye(3), translation=[0, 0, 1])
    lenses = [(0,) * 5, (K1, 0, 0, 0, 0), DISTORTION, (0,) * 5]
    cameras = [CameraRecord(name=f"i {k}.png", distortion=lens, **plain) for k, lens in enumerate(lenses)]
    write_colmap_text(tmp_path, cameras)
    lines = (tmp_path / "cameras.txt").read_text().splitlines()[1:]
    assert [line.split()[:2] for line in lines] == [["1", "PINHOLE"], ["2", "OPENCV"], ["3", "FULL_OPENCV"]]
    images = (tmp_path / "images.txt").read_text().split("\n")[2:]
    assert [line.split()[8:] for line in images[0:8:2]] == [[c, "i", f"{k}.png"] for k, c in enumerate("1231")]
    assert images[1:8:2] == [""] * 4
    write_colmap_text(tmp_path, cameras[:2])  # over its own files
    assert len(read_cameras(tmp_path)) == 2


# --- all of them ------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("order", [("opencv", "transforms", "colmap"), ("colmap", "opencv", "transforms")])
def test_round_trip(tmp_path, order):
    """Through all three formats, one after the other, nothing changes by more than rounding."""
    cameras = records()
    for format_name in order:
        name, write = WRITERS[format_name]
        write(tmp_path / name, cameras)
        cameras = read_cameras(tmp_path / name)
        assert len(cameras) == len(records())
        for got, want in zip(cameras, records(), strict=True):
            assert (got.name, got.width, got.height) == (want.name, want.width, want.height)
            np.testing.assert_allclose(got.camera_row(), want.camera_row(), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(got.distortion_row(), want.distortion_row(), rtol=1e-12, atol=0)


def test_z_up():
    """The file's up becomes z, x stays, and the hand stays right."""
    np.testing.assert_array_equal(z_up_from("y", scale=0.5) @ [0, 2, 0, 1], [0, 0, 1, 1])
    np.testing.assert_array_equal(z_up_from("-y", scale=0.5) @ [0, 2, 0, 1], [0, 0, -1, 1])
    np.testing.assert_array_equal(z_up_from("z", scale=0.5) @ [0, 2, 0, 1], [0, 1, 0, 1])
    for up in ("y", "-y"):
        assert np.linalg.det(z_up_from(up)) == 1
        np.testing.assert_array_equal(z_up_from(up) @ [1, 0, 0, 0], [1, 0, 0, 0])


@pytest.mark.parametrize("format_name", WRITERS)
def test_world_from_file(tmp_path, format_name):
    """A moved, turned and scaled world looks the same through the moved cameras."""
    name, write = WRITERS[format_name]
    write(tmp_path / name, records())
    change = z_up_from("y", scale=0.01)
    change[:3, :3] = a_rotation(40) @ change[:3, :3]
    change[:3, 3] = (1.0, -2.0, 0.5)
    moved = read_cameras(tmp_path / name, world_from_file=change)
    for new, old in zip(moved, records(), strict=True):
        point = old.position() + old.rotation.T @ [0.2, -0.3, 1.5]
        lands(new, change[:3, :3] @ point + change[:3, 3], old.project(point), tolerance=1e-9)
        np.testing.assert_allclose(np.linalg.norm(new.position() - change[:3] @ [*point, 1]), 0.01 * np.sqrt(2.38), rtol=1e-9)


def test_record_keeps_its_own_arrays():
    """A record does not share memory with what it was made from, nor with what it gives."""
    source = np.zeros(3)
    camera = CameraRecord(name="a", width=W, height=H, intrinsics=[1, 1, 0, 0], rotation=np.eye(3), translation=source)
    source[0] = 1.0
    camera.camera_row()[0] = camera.distortion_row()[0] = 7.0
    np.testing.assert_array_equal(camera.translation, 0)
    np.testing.assert_array_equal(camera.distortion, 0)
    with pytest.raises(ValueError, match="read-only"):
        camera.translation[0] = 1.0


def test_rounded_rotation_becomes_a_rotation(tmp_path):
    """A matrix with four decimals is taken as the nearest rotation: symmetric difference, orthonormal result."""
    rounded = np.round(a_rotation(6), 4)
    (camera,) = read_cameras(put(tmp_path / "a.json", opencv_entry(R=rounded.tolist())))
    np.testing.assert_allclose(camera.rotation @ camera.rotation.T, np.eye(3), rtol=0, atol=1e-14)
    np.testing.assert_allclose(camera.rotation, rounded, rtol=0, atol=1e-4)
    stretch = camera.rotation.T @ rounded  # symmetric exactly where the rotation is the nearest one
    np.testing.assert_allclose(stretch, stretch.T, rtol=0, atol=1e-15)


# --- faults -----------------------------------------------------------------------------------------------------------

NAN = float("nan")
TILTED = [[1, 0, 0.1], [0, 1, 0], [0, 0, 1]]
MIRROR = [[1, 0, 0], [0, 1, 0], [0, 0, -1]]


def refused(words, call, *args, **options):
    """Assert one sentence without line breaks, with all the words in it."""
    with pytest.raises(UserError) as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"R": ...}, ["'R'", "missing"]),
        ({"t": ...}, ["'t'", "missing"]),
        ({"width": ...}, ["'width'", "missing"]),
        ({"height": ...}, ["'height'", "missing"]),
        ({"K": [[FX, 0, CX], [0, 0, CY], [0, 0, 1]]}, ["K is singular"]),
        ({"K": [[FX, 0, CX], [0, FY, CY], [0, 0, 0]]}, ["K is singular"]),
        ({"K": [[FX, 0, CX], [0, FY, CY], [0, 0, 2]]}, ["K", "last row [0.0, 0.0, 2.0]", "0, 0, 1"]),
        ({"K": [[FX, 2, CX], [0, FY, CY], [0, 0, 1]]}, ["skew", "K[0][1] = 2"]),
        ({"K": [[FX, 0, CX], [0.5, FY, CY], [0, 0, 1]]}, ["skew", "K[1][0] = 0.5"]),
        ({"K": [[-FX, 0, CX], [0, FY, CY], [0, 0, 1]]}, ["fx is -410", "above zero"]),
        ({"K": [[NAN, 0, CX], [0, FY, CY], [0, 0, 1]]}, ["K: not all entries are finite"]),
        ({"K": [FX, FY, CX, CY]}, ["K has shape [4]", "[3, 3] is needed"]),
        ({"K": [[FX, 0], [0, FY, CY], [0, 0, 1]]}, ["K is", "equally long"]),
        ({"K": "K.txt"}, ["K is 'K.txt'", "give numbers of shape [3, 3]"]),
        ({"R": TILTED}, ["R is not a rotation", "differs from the identity by 0.1"]),
        ({"R": (2 * np.eye(3)).tolist()}, ["R is not a rotation", "by 3", "without scale"]),
        ({"R": MIRROR}, ["R is a reflection", "determinant -1"]),
        ({"R": [0.1, 0.2, 0.3]}, ["R is a rotation vector", "cv2.Rodrigues"]),
        ({"R": [[1, 0, 0], [0, NAN, 0], [0, 0, 1]]}, ["R: not all entries are finite"]),
        ({"t": [0, 1]}, ["t has shape [2]", "3 numbers"]),
        ({"t": [0, 1, NAN]}, ["t: not all entries are finite"]),
        ({"dist": [0.1, 0.2, 0.3]}, ["dist has shape [3]", "4 or 5 or 8"]),
        ({"dist": [0.1, 0, 0, 0, 0, 0.2, 0, 0]}, ["dist", "beyond k3", "0.2"]),
        ({"dist": [0.1, 0, 0, NAN]}, ["dist: not all entries are finite"]),
        ({"width": 0}, ["width is 0", "at least 1"]),
        ({"height": -3}, ["height is -3"]),
        ({"height": 480.5}, ["height is 480.5", "whole number"]),
        ({"width": "640"}, ["width is '640'", "one finite number"]),
        ({"width": True}, ["width is True", "one finite number"]),
        ({"pixel_centers": "corner"}, ["pixel_centers is 'corner'", "'integer' or 'half'"]),
        ({"name": " x"}, ["camera name ' x'", "without blanks"]),
        ({"name": 5}, ["camera name 5"]),
    ],
)
def test_opencv_faults(tmp_path, changes, words):
    path = put(tmp_path / "bad.json", [opencv_entry(**({"name": "the one"} | changes))])
    named = [] if "name" in changes else ["the one"]
    refused([str(path), *named, *words], read_cameras, path)


def with_frame(**changes):
    return transforms(frames=[frame(**changes)])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        *((transforms(**{key: ...}), [f"'{key}'", "missing"]) for key in ("fl_x", "fl_y", "cx", "cy", "w", "h")),
        (with_frame(file_path=...), ["frame 0", "'file_path'", "missing"]),
        (with_frame(transform_matrix=...), ["'transform_matrix'", "missing"]),
        (transforms(frames=[]), ["'frames'", "at least one"]),
        (transforms(frames=["a.png"]), ["frame 0 is str"]),
        (transforms(camera_model="OPENCV_FISHEYE"), ["'OPENCV_FISHEYE' is not supported", "PINHOLE", "SIMPLE_RADIAL"]),
        (with_frame(camera_model="EQUIRECTANGULAR"), ["images/1.png", "'EQUIRECTANGULAR' is not supported"]),
        (transforms(is_fisheye=True), ["'OPENCV_FISHEYE' is not supported"]),
        (transforms(k4=0.1), ["k4 is 0.1", "k3 only"]),
        (transforms(k1=NAN), ["k1 is nan", "one finite number"]),
        (transforms(cx="a"), ["cx is 'a'"]),
        (transforms(fl_x=0), ["fx is 0"]),
        (transforms(w=0), ["width is 0"]),
        (with_frame(transform_matrix=[[1, 0], [0, 1]]), ["transform_matrix has shape [2, 2]"]),
        (with_frame(transform_matrix=np.ones((4, 4)).tolist()), ["last row [1.0, 1.0, 1.0, 1.0]"]),
        (with_frame(transform_matrix=np.diag([2.0, 2, 2, 1]).tolist()), ["not a rotation", "by 3"]),
        (with_frame(transform_matrix=np.diag([-1.0, 1, 1, 1]).tolist()), ["reflection", "transform_matrix"]),
        (with_frame(transform_matrix=np.diag([NAN, 1, 1, 1]).tolist()), ["transform_matrix: not all entries are finite"]),
        (transforms(frames=[frame(), frame()]), ["two cameras are named 'images/1.png'"]),
    ],
)
def test_transforms_faults(tmp_path, data, words):
    path = put(tmp_path / "bad.json", data)
    refused([str(path), *words], read_cameras, path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["original_world", "no applied_transform"]),
        ({"applied_scale": -1}, ["applied_scale is -1"]),
        ({"applied_transform": np.zeros((3, 4)).tolist()}, ["applied_transform is singular"]),
        ({"applied_transform": TILTED}, ["applied_transform", "not a rotation", "0.1"]),
    ],
)
def test_original_world_faults(tmp_path, changes, words):
    path = put(tmp_path / "a.json", transforms(**changes))
    refused([str(path), *words], read_cameras, path, original_world=True)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"cameras": "1 FOV 640 480 1 1 1 1 1\n"}, ["cameras.txt, line 2", "'FOV' is not supported", "FULL_OPENCV"]),
        ({"cameras": "1 OPENCV 640 480 1 1 1 1\n"}, ["line 2", "OPENCV has 4 parameters: 8", "fx fy cx cy k1 k2 p1 p2"]),
        ({"cameras": "1 FULL_OPENCV 9 9 1 1 1 1 0 0 0 0 0 0 0.5 0\n"}, ["k5 of FULL_OPENCV is 0.5"]),
        ({"cameras": "1 PINHOLE 0 480 1 1 1 1\n"}, ["WIDTH is 0", "at least 1"]),
        ({"cameras": "1 PINHOLE 640 x 1 1 1 1\n"}, ["HEIGHT 'x'", "numbers are needed"]),
        ({"cameras": "1 PINHOLE 640 480 1 nan 1 1\n"}, ["line 2", "the parameters: not all entries are finite"]),
        ({"cameras": "1 PINHOLE 640 480 1 0 1 1\n"}, ["images.txt, line 2", "fy is 0"]),
        ({"cameras": "1 PINHOLE\n"}, ["too few words", "MODEL WIDTH"]),
        ({"cameras": "1 PINHOLE 9 9 1 1 1 1\n" * 2}, ["line 3", "the camera 1 stands twice"]),
        ({"images": ""}, ["no images"]),
        ({"images": "1 1 0 0 0 0 0 0 1\n\n"}, ["images.txt, line 2", "too few words"]),
        ({"images": "1 1 0 0 0 0 0 0 4 a.png\n\n"}, ["'a.png' has the camera 4", "cameras.txt has 1"]),
        ({"images": "1 1 0 0 1 0 0 0 1 a.png\n\n"}, ["quaternion", "length 1.41421"]),
        ({"images": "1 nan 0 0 1 0 0 0 1 a.png\n\n"}, ["the pose: not all entries are finite"]),
        ({"images": "1 q 0 0 1 0 0 0 1 a.png\n\n"}, ["the pose 'q 0"]),
        ({"images": IMAGE[:-1] + IMAGE}, ["images.txt, line 3", "points", "empty line"]),
        ({"images": IMAGE[:-1] + "1 2\n"}, ["images.txt, line 3", "points"]),
        ({"images": IMAGE * 2}, ["two cameras are named 'a b.jpg'"]),
    ],
)
def test_colmap_faults(tmp_path, files, words):
    refused([str(tmp_path), *words], read_cameras, colmap(tmp_path / "m", **files))


def test_path_faults(tmp_path):
    """What is not there, not JSON, not text, or has no known format."""
    refused(["nothing.json", "does not exist", "check the path"], read_cameras, tmp_path / "nothing.json")
    refused(["holds no cameras", "transforms.json"], read_cameras, tmp_path)
    refused(["is not valid JSON", "line 1"], read_cameras, put(tmp_path / "a.json", '{"K": '))
    refused(["K has shape []", "[3, 3] is needed"], read_cameras, put(tmp_path / "a.yml", "%YAML:1.0\n---\nK: 1"))
    refused(["'K'", "'cameras'", "'frames'"], read_cameras, put(tmp_path / "a.json", {"R": []}))
    refused(["'K'", "'frames'"], read_cameras, put(tmp_path / "a.json", "3"))
    refused(["there are no cameras"], read_cameras, put(tmp_path / "a.json", []))
    refused(["camera_0 is int"], read_cameras, put(tmp_path / "a.json", [1]))
    refused(["'cameras' is dict", "list"], read_cameras, put(tmp_path / "a.json", {"cameras": {}}))
    refused(["camera 'x'", "'K' is missing"], read_cameras, put(tmp_path / "a.json", {"cameras": [{"name": "x"}]}))
    refused(["no known format", "cameras.txt"], read_cameras, put(tmp_path / "poses.txt", "1 2 3"))
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00K")
    refused(["is not a text file"], read_cameras, tmp_path / "b.json")
    (tmp_path / "binary").mkdir()
    put(tmp_path / "binary" / "images.bin", "")
    refused(["binary COLMAP model", "model_converter"], read_cameras, tmp_path / "binary")
    (colmap(tmp_path / "half") / "images.txt").unlink()
    refused(["images.txt cannot be read"], read_cameras, tmp_path / "half")
    put(colmap(tmp_path / "both") / "transforms.json", transforms())
    refused(["transforms.json and a COLMAP model"], read_cameras, tmp_path / "both")
    assert read_cameras(tmp_path / "both" / "images.txt")[0].name == "a b.jpg"


def test_option_faults(tmp_path):
    """Options that contradict the file, or that would do nothing, are refused."""
    stated = put(tmp_path / "a.json", opencv_entry(pixel_centers="half"))
    refused(["says pixel_centers 'half'", "'integer' was asked"], read_cameras, stated, pixel_centers="integer")
    refused(["pixel_centers 'no' is unknown"], read_cameras, stated, pixel_centers="no")
    refused(["no option original_world"], read_cameras, stated, original_world=True)
    frames = put(tmp_path / "b.json", transforms())
    refused(["no option pixel_centers"], read_cameras, frames, pixel_centers="half")
    refused(["COLMAP", "no option pixel_centers"], read_cameras, colmap(tmp_path / "m"), pixel_centers="half")
    refused(["up 'x' is unknown", "'-y'"], z_up_from, "x")
    refused(["scale is 0"], z_up_from, "y", scale=0)
    for change, words in [
        (np.eye(2), ["shape [2, 2]"]),
        (np.ones((4, 4)), ["last row [1.0, 1.0, 1.0, 1.0]"]),
        (np.zeros((3, 3)), ["is singular"]),
        (np.diag([1.0, 1.0, -1.0]), ["reflection"]),
        (np.diag([1.0, 1.0, 2.0]), ["not a rotation"]),
    ]:
        refused(["world_from_file", *words], read_cameras, frames, world_from_file=change)


@pytest.mark.parametrize("format_name", WRITERS)
def test_write_faults(tmp_path, format_name):
    name, write = WRITERS[format_name]
    camera = records()[0]
    refused(["no cameras"], write, tmp_path / name, [])
    refused(["two cameras are named", camera.name], write, tmp_path / name, [camera, camera])
    assert not (tmp_path / name).exists()
    put(tmp_path / "file", "")
    refused([str(tmp_path / "file"), "cannot be written"], write, tmp_path / "file" / name, [camera])


def test_writers_spare_other_models(tmp_path):
    """Points or binaries of another model would not fit the new cameras; a failed write leaves no scrap."""
    put(colmap(tmp_path / "m") / "points3D.txt", "# points\n1 0 0 0 9 9 9 0.1 1 0\n")
    refused(["holds points3D.txt of another"], write_colmap_text, tmp_path / "m", records())
    put(colmap(tmp_path / "n") / "frames.txt", "")
    refused(["holds frames.txt"], write_colmap_text, tmp_path / "n", records())
    assert read_cameras(tmp_path / "m")[0].name == "a b.jpg"
    (tmp_path / "c.json").mkdir()
    refused(["c.json cannot be written"], write_opencv_json, tmp_path / "c.json", records())
    refused(["pixel_centers 'x' is unknown"], write_opencv_json, tmp_path / "d.json", records(), pixel_centers="x")
    assert not [path.name for path in tmp_path.iterdir() if re.search(r"\.tmp$|d\.json", path.name)]


def test_project_faults():
    refused(["points have shape [2]", "[..., 3]"], records()[0].project, [1, 2])
    refused(["points: not all entries are finite"], records()[0].project, [1, 2, NAN])


# -- calibrations of OpenCV and ROS ---------------------------------------------------------------------------------------


OPENCV_YAML = """%YAML:1.0
---
calibration_time: "Fri Nov 27 10:00:00 2026"  # a comment
image_width: 640
image_height: 480
flags: 0
camera_matrix: !!opencv-matrix
   rows: 3
   cols: 3
   dt: d
   data: [ 4.1e+02, 0., 3.182e+02, 0.,
       3.95e+02, 2.426e+02, 0., 0., 1. ]
distortion_coefficients: !!opencv-matrix
   rows: 5
   cols: 1
   dt: d
   data: [ -1.1e-01, 3.2e-02, 1.3e-03, -2.1e-03, 4.7e-03 ]
avg_reprojection_error: .Nan
views:
   - { name: "a.png", used: 1 }
   - "b.png"
"""
OPENCV_XML = """<?xml version="1.0"?>
<opencv_storage>
<image_Width>640</image_Width>
<image_Height>480</image_Height>
<Camera_Matrix type_id="opencv-matrix">
  <rows>3</rows><cols>3</cols><dt>d</dt>
  <data>
    410. 0. 318.2 0. 395. 242.6 0. 0. 1.</data></Camera_Matrix>
<Distortion_Coefficients type_id="opencv-matrix">
  <rows>5</rows><cols>1</cols><dt>d</dt>
  <data>-0.11 0.032 1.3e-3 -2.1e-3 4.7e-3</data></Distortion_Coefficients>
</opencv_storage>
"""
ROS_YAML = """image_width: 640
image_height: 480
camera_name: head_camera
camera_matrix:
  rows: 3
  cols: 3
  data:
  - 410
  - 0
  - 318.2
  - 0
  - 395
  - 242.6
  - 0
  - 0
  - 1
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [-0.11, 0.032, 0.0013, -0.0021, 0.0047]
rectification_matrix: {rows: 3, cols: 3, data: [1, 0, 0, 0, 1, 0, 0, 0, 1]}
"""


@pytest.mark.parametrize(
    ("ending", "text", "name"), [("yml", OPENCV_YAML, "camera"), ("xml", OPENCV_XML, "camera"), ("yaml", ROS_YAML, "head_camera")]
)
def test_calibrations_give_a_lens(tmp_path, ending, text, name):
    path = put(tmp_path / f"lens.{ending}", text)
    (camera,) = read_cameras(path, pose_needed=False)
    np.testing.assert_allclose(camera.intrinsics, (410, 395, 318.7, 243.1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(camera.distortion, DISTORTION, rtol=0, atol=1e-12)
    assert (camera.width, camera.height, camera.name) == (640, 480, name)
    refused([str(path), "a lens and no pose", "risp camera pose --camera-file"], read_cameras, path)
    half = read_cameras(path, pose_needed=False, pixel_centers="half")[0]
    np.testing.assert_allclose(half.intrinsics[2:], (318.2, 242.6))


def test_files_that_opencv_writes(tmp_path):
    """With a pose, as a matrix and as a Rodrigues vector, in its three formats."""
    cv2 = pytest.importorskip("cv2")
    turn, shift = a_rotation(3), np.array([0.1, -0.2, 1.5])
    for ending in ("yml", "xml", "json"):
        for rotation in (turn, cv2.Rodrigues(turn)[0]):
            storage = cv2.FileStorage(str(tmp_path / f"c.{ending}"), cv2.FILE_STORAGE_WRITE)
            storage.write("camera_matrix", np.array([[FX, 0, CX - 0.5], [0, FY, CY - 0.5], [0, 0, 1]]))
            storage.write("dist_coeffs", np.array([DISTORTION]))
            storage.write("image_size", np.array([[W, H]]))
            storage.write("rvec" if rotation.size == 3 else "R", rotation)
            storage.write("tvec", shift)
            storage.release()
            (camera,) = read_cameras(tmp_path / f"c.{ending}")
            point = np.array([0.2, 0.3, 0.4])
            x, y, z = turn @ point + shift
            x, y = distorted(x / z, y / z)
            lands(camera, point, [FX * x + CX, FY * y + CY], tolerance=1e-6)


@pytest.mark.parametrize(
    ("ending", "text", "words"),
    [
        ("yml", OPENCV_YAML.replace("image_width: 640", ""), ["the key 'width' is missing"]),
        ("yml", OPENCV_YAML.replace("rows: 3", "rows: 4"), ["a matrix is", "give rows, cols and as many numbers"]),
        ("yml", OPENCV_YAML.replace("1. ]", "1."), ["opens a bracket that is not closed"]),
        ("yaml", ROS_YAML.replace("plumb_bob", "equidistant"), ["distortion model 'equidistant' is not supported"]),
        ("yaml", "[" * 500 + "]" * 500, ["nested too deeply"]), ("yaml", "- " * 500 + "a", ["levels deep"]),
        ("yml", OPENCV_YAML.replace("rows: 5", "sizes: x"), ["a matrix is"]),
        ("yaml", "words\nwithout: sense", ["line 2", "is not understood"]),
        ("yaml", "", ["none of the keys"]),
        ("xml", OPENCV_XML[:-20], ["not valid XML"]), ("xml", "<!DOCTYPE a><a>1</a>", ["has a document type"]),
        ("xml", "<a>" * 500 + "</a>" * 500, ["levels deep"]),
    ],
)  # fmt: skip
def test_calibrations_that_are_refused(tmp_path, ending, text, words):
    refused(words, read_cameras, put(tmp_path / f"lens.{ending}", text), pose_needed=False)


def test_a_field_of_view_alone_is_a_camera(tmp_path):
    """As Blender's exporters write it: no size, names of pictures without an ending."""
    frames = [{"file_path": "./train/r_0", "transform_matrix": np.eye(4).tolist()}]
    data = {"camera_angle_x": 2 * np.arctan(0.5), "frames": frames}
    path = put(tmp_path / "transforms_train.json", data)
    refused(["the size of the pictures is not known", "give w and h"], read_cameras, path)
    (tmp_path / "train").mkdir()
    Image.new("RGB", (80, 60)).save(tmp_path / "train/r_0.png")
    (camera,) = read_cameras(path)
    np.testing.assert_allclose(camera.intrinsics, (80, 80, 40, 30))
    wide = put(tmp_path / "wide.json", data | {"w": 100, "h": 50, "camera_angle_y": 2 * np.arctan(0.25), "cx": 49.0})
    np.testing.assert_allclose(read_cameras(wide)[0].intrinsics, (100, 100, 49, 25))
    degrees = put(tmp_path / "a.json", data | {"camera_angle_x": 40, "w": 9, "h": 9})
    refused(["camera_angle_x is 40", "in radians"], read_cameras, degrees)
