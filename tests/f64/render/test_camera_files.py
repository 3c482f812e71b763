"""Cameras from files: known points land where each format's own formulas put them, and formats agree."""

import json

import numpy as np
import pytest

from tests.reference.camera_formats import (
    CX,
    CY,
    DISTORTION,
    FX,
    FY,
    K1,
    K2,
    K3,
    P1,
    P2,
    WRITERS,
    H,
    W,
    a_rotation,
    colmap,
    distorted,
    frame,
    lands,
    opencv_entry,
    put,
    records,
    transforms,
)
from ti_render.camera_files import (
    CameraRecord,
    read_cameras,
    write_colmap_text,
    write_opencv_json,
    write_transforms_json,
    z_up_from,
)

# -- OpenCV ----------------------------------------------------------------------------------------------------------------


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


# -- nerfstudio ------------------------------------------------------------------------------------------------------------


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


# -- COLMAP ----------------------------------------------------------------------------------------------------------------


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


# -- all of them -----------------------------------------------------------------------------------------------------------


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
