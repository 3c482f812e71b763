"""Small scenes for the renderer's tests, as float64 numpy arrays: generic positions, so that no pixel sits on a kink."""

from dataclasses import replace

import numpy as np

from ti_render import RasterSettings, RenderInputs, intrinsics_from_fov, look_at, pack_camera

NAMES = ("triangle", "box", "intersecting", "outside", "sphere", "batch_one", "batch_worlds", "batch_all")


def camera(width, height, *, eye=(1.9, -2.7, 1.4), target=(0.05, 0.02, 0.3), fov=0.55):
    """One camera row [1, 16]; the principal point is off the middle and fx differs from fy."""
    fx, fy, cx, cy = intrinsics_from_fov(vertical_fov=fov, width=width, height=height)
    return pack_camera((fx, 1.03 * fy, cx + 0.31, cy - 0.17), *look_at(eye, target))[None]


def quaternions(rng, *shape):
    """Random unit quaternions."""
    q = rng.normal(size=(*shape, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def box_mesh(side=0.6):
    """Vertices [8, 3] and faces [12, 3] of a box, counter-clockwise from outside."""
    vertices = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64) * side / 2
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [(q[0], q[k], q[k + 1]) for q in quads for k in (1, 2)]
    return vertices, np.array(faces, dtype=np.int32)


def sphere_mesh(radius=0.45):
    """Vertices and faces of an 80-face sphere: an icosahedron divided once."""
    g = (1 + 5**0.5) / 2
    vertices = [np.roll(p, s) for s in range(3) for p in ((0, 1, g), (0, -1, g), (0, 1, -g), (0, -1, -g))]
    vertices = [np.array(v, dtype=float) / np.linalg.norm(v) for v in vertices]
    shortest = min(np.linalg.norm(vertices[0] - v) for v in vertices[1:])
    near = lambda i, j: np.linalg.norm(vertices[i] - vertices[j]) < 1.01 * shortest  # noqa: E731
    middles, faces = {}, []

    def middle(i, j):
        key = (min(i, j), max(i, j))
        if key not in middles:
            m = vertices[i] + vertices[j]
            middles[key] = len(vertices)
            vertices.append(m / np.linalg.norm(m))
        return middles[key]

    corners = [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if near(i, j) and near(j, k) and near(i, k)]
    for i, j, k in corners:
        a, b, c = middle(i, j), middle(j, k), middle(i, k)
        faces += [(i, a, c), (a, j, b), (c, b, k), (a, b, c)]
    points = np.array(vertices)
    outward = [
        f if np.linalg.det(points[list(f)]) > 0 else (f[0], f[2], f[1])
        for f in faces
    ]
    return radius * points, np.array(outward, dtype=np.int32)


def inputs_of(vertices, faces, vertex_body, body_q, cameras, *, seed=0, rows=1):
    """RenderInputs of a mesh with random colours and lights, ``rows`` rows of each."""
    rng = np.random.default_rng(seed)
    light = np.concatenate([[-0.4, 0.5, -0.8] + 0.1 * rng.normal(size=(rows, 3)), rng.uniform(0.4, 0.9, (rows, 3))], axis=-1)
    return RenderInputs(
        vertices_rest=vertices, body_q=body_q, faces=faces, vertex_body=vertex_body, camera=cameras,
        albedo=rng.uniform(0.1, 0.9, (rows, len(faces), 3, 3)), ambient=rng.uniform(0.2, 0.4, (rows, 3)), light=light,
        background=rng.uniform(0.0, 0.4, (rows, 3)),
        ground=np.concatenate([rng.uniform(0.3, 0.7, (rows, 3)), rng.uniform(-0.05, 0.05, (rows, 1))], axis=-1),
    )  # fmt: skip


def scene(name, *, composite="alpha", sigma=4e-3, gamma=5e-3, tile=None):
    """(RenderInputs, RasterSettings) of a scene by its name."""
    rng = np.random.default_rng(abs(hash_of(name)))
    sizes = {"triangle": (23, 17, False), "outside": (15, 22, True), "sphere": (26, 26, True)}
    width, height, ground = sizes.get(name, (22, 18, True))
    settings = RasterSettings(
        width=width, height=height, sigma=sigma, gamma=gamma, near=0.4, far=9.0, background_weight=0.01,
        composite=composite, ground=ground, tile=tile,
    )  # fmt: skip
    count = {"batch_one": 4, "batch_worlds": 4, "batch_all": 4}.get(name, 1)
    rows = {"batch_worlds": 2, "batch_all": 4}.get(name, 1)
    pose = np.concatenate([[0.02, 0.03, 0.45] + 0.1 * rng.normal(size=(count, 1, 3)), quaternions(rng, count, 1)], axis=-1)
    cameras = camera(width, height)
    vertices, faces = box_mesh()
    if name == "triangle":
        vertices, faces = np.array([[-0.4, 0.1, 0.1], [0.5, -0.2, -0.1], [0.1, 0.3, 0.5]]), np.array([[0, 1, 2]], dtype=np.int32)
    elif name == "intersecting":
        vertices = np.array(
            [[-0.5, -0.2, -0.3], [0.5, 0.2, -0.2], [0.03, 0.0, 0.5], [-0.4, 0.3, 0.3], [0.45, -0.3, 0.35], [0.0, 0.05, -0.5]]
        )
        faces = np.array([[0, 1, 2], [3, 4, 5]], dtype=np.int32)
        pose[0, 0, 3:] = [0.03, -0.02, 0.05, 0.0]
        pose[0, 0, 6] = np.sqrt(1 - np.sum(pose[0, 0, 3:6] ** 2))
    elif name == "outside":
        cameras = camera(width, height, target=(0.35, 0.3, 0.65), fov=0.35)
    elif name == "sphere":
        vertices, faces = sphere_mesh()
    vertex_body = np.zeros(len(vertices), dtype=np.int32)
    if count > 1:
        # Two bodies and a static face, cameras that differ where there are rows for it.
        extra = np.array([[0.6, 0.5, 0.1], [0.9, 0.3, 0.2], [0.7, 0.6, 0.7]])
        vertices = np.concatenate([vertices, 0.5 * vertices, extra])
        faces = np.concatenate([faces, faces + 8, [[16, 17, 18]]]).astype(np.int32)
        vertex_body = np.array([0] * 8 + [1] * 8 + [-1] * 3, dtype=np.int32)
        second = np.concatenate([[-0.5, -0.3, 0.35] + 0.1 * rng.normal(size=(count, 1, 3)), quaternions(rng, count, 1)], axis=-1)
        pose = np.concatenate([pose, second], axis=1)
        cameras = np.concatenate([
            camera(width, height, eye=np.array([1.9, -2.7, 1.4]) + 0.2 * rng.normal(size=3)) for _ in range(rows)
        ])
        if rows > 1:
            vertices = vertices + 0.02 * rng.normal(size=(rows, *vertices.shape))
    return inputs_of(vertices, faces, vertex_body, pose, cameras, rows=rows, seed=abs(hash_of(name))), settings


def hash_of(name):
    """A seed from a name, the same in every process."""
    return sum((i + 1) * ord(letter) for i, letter in enumerate(name))


def convert(inputs, function):
    """RenderInputs with ``function`` applied to every array."""
    arrays = {name: function(array) for name, array in vars(inputs).items() if array is not None}
    return replace(inputs, **arrays)
