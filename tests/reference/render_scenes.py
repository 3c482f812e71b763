"""Small scenes for the renderer's tests, as float64 numpy arrays.

All numbers come from fixed seeds and are generic: no pixel lies within a difference's step of a kink. The kinks of a picture are
pixels on a bisector of two of a triangle's edges, pixels whose texture, shadow-map or background lookup lies on a texel's
centre line, surfaces on a light's terminator, faces seen exactly edge-on, and for DIB-R pixels on a covering face's edge.
At the cut-off distance of a face in front of another the colour (and the depth in a shadow map) turns so fast that differences
see a jump.
"""

from dataclasses import fields, replace

import numpy as np

from tests.reference.numpy_renderer import topology
from ti_render import (
    RasterSettings,
    RenderInputs,
    ShadowSettings,
    intrinsics_from_fov,
    look_at,
    mesh_topology,
    pack_camera,
)

TRIANGLE = np.array([[-0.4, 0.1, 0.1], [0.5, -0.2, -0.1], [0.1, 0.3, 0.5]]), [[0, 1, 2]]
TURNED = np.array([[[0.03, 0.02, 0.48, 0.12, -0.05, 0.1, 0.98]]])
EYE, TARGET = np.array([1.9, -2.7, 1.4]), np.array([0.05, 0.02, 0.3])
STILL = np.array([[[0, 0, 0, 0, 0, 0, 1.0]]])


def camera(width, height, *, eye=EYE, target=TARGET, fov=0.55):
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


def icosahedron_mesh(radius=0.4):
    """Vertices [12, 3] and faces [20, 3], counter-clockwise from outside."""
    g = (1 + 5**0.5) / 2
    vertices = np.array([np.roll(p, s) for s in range(3) for p in ((0, 1, g), (0, -1, g), (0, 1, -g), (0, -1, -g))])
    edge = 2.0

    def close(i, j):
        return abs(np.linalg.norm(vertices[i] - vertices[j]) - edge) < 1e-6

    corners = [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if close(i, j) and close(j, k) and close(i, k)]
    faces = [c if np.linalg.det(vertices[list(c)]) > 0 else (c[0], c[2], c[1]) for c in corners]
    return radius * vertices / np.linalg.norm(vertices[0]), np.array(faces, dtype=np.int32)


def sphere_mesh(radius=0.45):
    """Vertices [42, 3] and faces [80, 3] of an icosahedron divided once."""
    vertices, faces = icosahedron_mesh(1.0)
    points, middles, divided = list(vertices), {}, []

    def middle(i, j):
        key = (min(i, j), max(i, j))
        if key not in middles:
            middles[key] = len(points)
            points.append((points[i] + points[j]) / np.linalg.norm(points[i] + points[j]))
        return middles[key]

    for i, j, k in faces:
        a, b, c = middle(i, j), middle(j, k), middle(k, i)
        divided += [(i, a, c), (a, j, b), (c, b, k), (a, b, c)]
    return radius * np.array(points), np.array(divided, dtype=np.int32)


def join(*meshes):
    """(vertices, faces, vertex_body) of meshes (vertices, faces), one body each; a third item None makes a mesh static."""
    vertices, faces, bodies, count, number = [], [], [], 0, 0
    for mesh in meshes:
        static = len(mesh) == 3
        vertices.append(mesh[0])
        faces.append(np.asarray(mesh[1]) + count)
        bodies.append(np.full(len(mesh[0]), -1 if static else number))
        count, number = count + len(mesh[0]), number + (not static)
    return np.concatenate(vertices), np.concatenate(faces).astype(np.int32), np.concatenate(bodies).astype(np.int32)


def from_camera(row, points):
    """World positions [..., 3] of points that are given in the axes of a camera row [16]."""
    return (np.asarray(points, dtype=np.float64) - row[13:]) @ row[4:13].reshape(3, 3)


def poses(rng, *positions, images=1):
    """body_q [images, N, 7]: bodies near the positions, turned at random."""
    places = np.array(positions, dtype=np.float64) + 0.05 * rng.normal(size=(images, len(positions), 3))
    return np.concatenate([places, quaternions(rng, images, len(positions))], axis=-1)


def settings_of(width=15, height=13, **options):
    """Settings whose soft zones are some pixels wide."""
    soft = {"sigma": 4e-3, "gamma": 1e-2, "near": 0.4, "far": 9.0, "background_weight": 0.01, "shading": "lambert"}
    return RasterSettings(width=width, height=height, **{**soft, **options})


def directional_light(rng, rows=1):
    """Rows [rows, 1, 6]: a light from above and from the camera's side, which no side of a body faces edge-on."""
    direction = [-0.4, 0.5, -0.8] + 0.1 * rng.normal(size=(rows, 1, 3))
    return np.concatenate([direction, rng.uniform(0.4, 0.9, (rows, 1, 3))], axis=-1)


def point_light(rng, rows=1, position=(0.9, -1.1, 1.2)):
    """Rows [rows, 1, 6]."""
    return np.concatenate([position + 0.1 * rng.normal(size=(rows, 1, 3)), rng.uniform(0.4, 0.9, (rows, 1, 3))], axis=-1)


def ground_row(rng, rows=1, *, cell=0.5):
    """Rows [rows, 10]: two colours, height, cell and origin. (Far off, small texels would put a kink into every pixel.)"""
    return np.concatenate(
        [
            rng.uniform(0.4, 0.8, (rows, 3)), rng.uniform(-0.05, 0.05, (rows, 1)), rng.uniform(0.1, 0.4, (rows, 3)),
            cell * rng.uniform(1.0, 1.2, (rows, 1)), rng.uniform(-0.2, 0.2, (rows, 2)),
        ],
        axis=-1,
    )  # fmt: skip


def textures_of(rng, *sizes):
    """(textures [T, 4], texels [1, X, 3]) of random textures, each given as (width, height, wrap)."""
    table, first = [], 0
    for width, height, wrap in sizes:
        table.append((first, width, height, wrap))
        first += width * height
    return np.array(table, dtype=np.int32), rng.uniform(0.2, 1.0, (1, first, 3))


def uv_of(rng, vertices, faces):
    """uv [1, F, 3, 2] that turn and shear the texture over the rest positions, and leave [0, 1] at the ends."""
    return (vertices @ rng.normal(size=(3, 2)) * 1.4 + rng.uniform(0.3, 0.6, 2))[faces][None]


def inputs_of(rng, mesh, body_q, settings, *, cameras=None, topology=None, softness=True, **reals):
    """RenderInputs with random colours and one directional light, unless ``reals`` say otherwise.

    Args:
        rng: source of the random numbers.
        mesh: (vertices, faces, vertex_body) as of ``join``.
        body_q: [M, N, 7].
        settings: of the picture.
        cameras: [n, 16].
        topology: further arguments of ``mesh_topology``.
        softness: whether sigma and gamma are given as inputs too.
        reals: arrays of RenderInputs.
    """
    vertices, faces, vertex_body = mesh
    count = len(faces)
    arrays = {
        "albedo": rng.uniform(0.1, 0.9, (1, count, 3, 3)),
        "ambient": rng.uniform(0.2, 0.4, (1, 3)),
        "background": rng.uniform(0.0, 0.4, (1, 2, 3)),
        "directional": directional_light(rng),
        "ground": None if settings.ground is None else ground_row(rng, cell=1.5 if settings.ground == "texture" else 0.5),
        "softness": np.array([[settings.sigma, settings.gamma]]) if softness else None,
        "vertices_rest": vertices,
        **reals,
    }
    return RenderInputs(
        mesh=mesh_topology(faces, vertex_body, like=body_q, **(topology or {})),
        body_q=body_q,
        camera=camera(settings.width, settings.height) if cameras is None else cameras,
        **arrays,
    )


def one_face(rng):
    """A triangle in the air, lit from one side; softness from the settings."""
    settings = settings_of(17, 12)
    return inputs_of(rng, join(TRIANGLE), poses(rng, (0.02, 0.03, 0.35)), settings, softness=False), settings


def edge_on(rng):
    """A sliver, seen a hundredth of its length wide, before a broad triangle. (Exactly edge-on is a kink.)"""
    settings = settings_of()
    row = camera(15, 13)[0]
    sliver = from_camera(row, [[-0.5, -0.21, 2.6], [0.55, 0.2, 3.1], [0.11, 0.055, 3.5]]), [[0, 1, 2]]
    broad = np.array([[-0.6, 0.1, -0.3], [0.6, 0.3, -0.2], [0.1, 0.2, 0.5]]), [[0, 1, 2]]
    mesh = join((*sliver, None), broad)
    return inputs_of(rng, mesh, np.array([[[0.1, 0.2, 0.4, 0.03, -0.02, 0.05, 0.998]]]), settings), settings


def intersecting(rng):
    """Two triangles through each other."""
    first = np.array([[-0.5, -0.2, -0.3], [0.5, 0.2, -0.2], [0.03, 0.0, 0.5]]), [[0, 1, 2]]
    second = np.array([[-0.4, 0.3, 0.3], [0.45, -0.3, 0.35], [0.0, 0.05, -0.5]]), [[0, 1, 2]]
    body_q = np.array([[[0.0, 0.05, 0.4, 0.03, -0.02, 0.05, 0.998], [0.03, 0.0, 0.38, -0.04, 0.01, 0.02, 0.999]]])
    settings = settings_of(ground="plain")
    return inputs_of(rng, join(first, second), body_q, settings), settings


def behind_camera(rng):
    """Faces in front of the camera, in the fade before the near plane, across it and behind the camera."""
    settings = settings_of()
    row = camera(15, 13)[0]
    points = [
        [[-0.5, -0.4, 2.5], [0.6, -0.2, 2.9], [0.1, 0.5, 3.2]],
        [[-0.06, 0.09, 0.46], [0.3, 0.25, 1.4], [-0.5, 0.4, 2.2]],  # near is 0.4, the fade ends at 0.5
        [[0.02, -0.3, 0.44], [0.13, -0.05, 0.47], [0.5, -0.4, 1.1]],
        [[0.1, 0.1, 0.3], [0.4, 0.2, 1.4], [-0.3, 0.5, 2.0]],
        [[0.1, 0.1, -0.3], [0.4, 0.2, 1.4], [-0.3, 0.5, 2.0]],
        [[0.1, 0.1, -1.0], [0.4, 0.2, -2.0], [-0.3, 0.5, -1.5]],
    ]
    vertices = from_camera(row, np.reshape(points, (-1, 3)))
    mesh = vertices - [0.2, 0.1, 0.3], np.arange(18).reshape(6, 3), np.zeros(18, dtype=np.int32)
    return inputs_of(rng, mesh, np.array([[[0.2, 0.1, 0.3, 0.0, 0.0, 0.0, 1.0]]]), settings), settings


def partly_outside(rng):
    """A box that a narrow, tall picture shows in part."""
    settings = settings_of(11, 17, ground="plain")
    cameras = camera(11, 17, target=(0.35, 0.3, 0.65), fov=0.35)
    return inputs_of(rng, join(box_mesh()), poses(rng, (0.1, 0.1, 0.45)), settings, cameras=cameras), settings


def textured(rng, **options):
    """A box with a texture that ends at its edges, one that repeats, and two plain faces."""
    settings = settings_of(18, 16, **options)
    mesh = join(box_mesh(0.9))
    textures, texels = textures_of(rng, (5, 4, 0), (3, 4, 1))
    topology = {"face_texture": np.array([0, 0, 1, 1, 0, 1, 1, 0, -1, 0, 1, -1]), "textures": textures}
    return inputs_of(
        rng, mesh, poses(rng, (0.02, 0.03, 0.4)), settings, topology=topology, uv=uv_of(rng, *mesh[:2]), texels=texels
    ), settings


def material_rows(rng, count, rows=1):
    """Rows [rows, count, 4]: specular rgb and shininess."""
    return np.concatenate([rng.uniform(0.3, 0.8, (rows, count, 3)), rng.uniform(3.0, 9.0, (rows, count, 1))], axis=-1)


def specular(rng, **options):
    """A smooth shiny body under a directional and a point light."""
    settings = settings_of(16, 15, **{"shading": "phong", **options})
    vertices, faces, body = join(icosahedron_mesh(0.5))
    topology = {"face_material": np.arange(20) % 2, "corner_normal": faces}
    return inputs_of(
        rng, (vertices, faces, body), poses(rng, (0.02, 0.03, 0.35)), settings, topology=topology,
        directional=np.array([[[-0.45, 0.75, -0.9, 0.7, 0.6, 0.5]]]), point=point_light(rng), material=material_rows(rng, 2),
    ), settings  # fmt: skip


def shadow_settings(**options):
    """Shadows coarse enough for small pictures."""
    defaults = {"center": (0.1, 0.05, 0.3), "radius": 1.3, "resolution": 20, "sigma": 6e-3, "bias": 0.05, "width": 0.04}
    return ShadowSettings(**{**defaults, **options})


def shadowed(rng, **options):
    """A tetrahedron over a slab over the ground: shadows on both."""
    settings = settings_of(18, 16, **{"ground": "plain", "shadows": shadow_settings(), **options})
    slab = box_mesh(0.8)[0] * [1, 1, 0.3], box_mesh()[1]
    top = np.array([[-0.2, -0.15, -0.1], [0.24, -0.12, -0.14], [0.03, 0.27, -0.12], [0.05, 0.02, 0.26]])
    top = top, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]
    body_q = np.array([[[-0.1, 0.1, 0.16, 0.02, 0.03, 0.2, 0.97], [-0.22, 0.04, 0.66, 0.1, -0.2, 0.3, 0.9]]])
    lights = np.array([[[0.6, 0.15, -0.75, 0.8, 0.7, 0.9]]])
    return inputs_of(rng, join(slab, top), body_q, settings, directional=lights), settings


def shadowed_phong(rng):
    """Two lights with shadows and one without, on shiny bodies, with DIB-R."""
    inputs, settings = shadowed(rng, shading="phong", aggregation="dibr", ground="checker")
    mesh = mesh_with(inputs.mesh, face_material=np.arange(16) % 2, like=inputs.body_q)
    directional = np.array([[[0.6, 0.15, -0.75, 0.6, 0.5, 0.4], [-0.35, 0.6, -0.8, 0.3, 0.5, 0.6]]])
    return replace(
        inputs, mesh=mesh, directional=directional, point=point_light(rng), material=material_rows(rng, 2)
    ), settings


def environment_row(rng, rows=1):
    """Rows [rows, 9, 3] of an environment."""
    return rng.normal(size=(rows, 9, 3)) * 0.15 + np.array([0.6] + [0.0] * 8)[:, None]


def several_lights(rng):
    """Ambient light, two directional ones, two points and an environment on a box over the ground."""
    settings = settings_of(ground="plain")
    directional = np.concatenate([directional_light(rng), np.array([[[0.7, 0.2, -0.5, 0.3, 0.5, 0.2]]])], axis=1)
    points = np.concatenate([point_light(rng), point_light(rng, position=(-1.0, -0.8, 0.9))], axis=1)
    return inputs_of(
        rng, join(box_mesh()), poses(rng, (0.02, 0.03, 0.5)), settings,
        directional=directional, point=points, environment=environment_row(rng),
    ), settings  # fmt: skip


def only_environment(rng):
    """No light but the environment, on a smooth body."""
    settings = settings_of(13, 12)
    vertices, faces, body = join(icosahedron_mesh(0.5))
    return inputs_of(
        rng, (vertices, faces, body), poses(rng, (0.02, 0.03, 0.35)), settings, topology={"corner_normal": faces},
        directional=None, environment=environment_row(rng),
    ), settings  # fmt: skip


def many_overlapping(rng):
    """Thirty triangles in one heap."""
    centres = 0.25 * rng.normal(size=(30, 1, 3))
    vertices = (centres + 0.3 * rng.normal(size=(30, 3, 3))).reshape(-1, 3)
    settings = settings_of(ground="plain")
    return inputs_of(
        rng, join((vertices, np.arange(90).reshape(30, 3))), poses(rng, (0.02, 0.03, 0.5)), settings
    ), settings


LENS = np.array([[-0.63, 0.5, 0.035, -0.03, -0.2]])  # bends these narrow pictures by up to two pixels, and folds nowhere


def distorted_camera(rng, **options):
    """A box on a checker ground through a bad lens."""
    settings = settings_of(**{"ground": "checker", **options})
    return inputs_of(rng, join(box_mesh()), poses(rng, (0.1, 0.1, 0.45)), settings, distortion=LENS), settings


def checker_ground(rng):
    """A triangle over a checker ground under a directional and a point light."""
    settings = settings_of(ground="checker")
    return inputs_of(rng, join(TRIANGLE), TURNED, settings, point=point_light(rng)), settings


def textured_ground(rng, *, wrap=1, **options):
    """A triangle over a textured ground."""
    settings = settings_of(**{"ground": "texture", "ground_texture": 1, **options})
    textures, texels = textures_of(rng, (2, 2, 1 - wrap), (4, 3, wrap))
    inputs = inputs_of(
        rng, join(TRIANGLE), TURNED, settings, topology={"textures": textures}, texels=texels
    )
    return inputs, settings


def textured_ground_clamped(rng):
    """The same with a texture that ends, and DIB-R."""
    return textured_ground(rng, wrap=0, aggregation="dibr")


def background_image(rng):
    """A box before an image."""
    settings = settings_of()
    image = rng.uniform(0.0, 0.6, (1, 5, 7, 3))
    return inputs_of(rng, join(box_mesh()), poses(rng, (0.02, 0.03, 0.35)), settings, background_image=image), settings


def dibr(rng, **options):
    """Two boxes that hide each other, half below the ground."""
    settings = settings_of(**{"aggregation": "dibr", "ground": "plain", **options})
    body_q = poses(rng, (0.1, 0.1, 0.2), (-0.3, 0.3, 0.35))
    return inputs_of(rng, join(box_mesh(), box_mesh(0.4)), body_q, settings), settings


def dibr_textured_phong(rng):
    """Textures, highlights and a point light with DIB-R."""
    inputs, settings = textured(rng, aggregation="dibr", shading="phong", ground="checker")
    mesh = mesh_with(inputs.mesh, corner_normal=topology(inputs.mesh).faces, like=inputs.body_q)
    return replace(inputs, mesh=mesh, material=material_rows(rng, 1), point=point_light(rng)), settings


def softmax_composite(rng):
    """Strict SoftRas."""
    settings = settings_of(composite="softmax", ground="plain", gamma=5e-2)
    return inputs_of(rng, join(box_mesh()), poses(rng, (0.02, 0.03, 0.45)), settings), settings


def antialiased(rng, **options):
    """Nine samples in a pixel, with a lens."""
    settings = settings_of(**{"width": 9, "height": 7, "antialias": 3, "ground": "checker", **options})
    return inputs_of(rng, join(box_mesh()), poses(rng, (0.02, 0.03, 0.45)), settings, distortion=LENS), settings


def antialiased_dibr(rng):
    """Four samples in a pixel, with DIB-R before an image."""
    settings = settings_of(9, 7, antialias=2, aggregation="dibr")
    image = rng.uniform(0.0, 0.6, (1, 3, 4, 3))
    return inputs_of(rng, join(box_mesh()), poses(rng, (0.02, 0.03, 0.35)), settings, background_image=image), settings


def bare(inputs):
    """Without what a picture of depths or normals does not look at."""
    return replace(inputs, directional=None)


def depth(rng, **options):
    """Depths of a box and the ground."""
    settings = settings_of(**{"quantity": "depth", "ground": "plain", **options})
    return bare(inputs_of(rng, join(box_mesh()), poses(rng, (0.02, 0.03, 0.45)), settings)), settings


def depth_dibr(rng):
    """Depths with DIB-R and a lens."""
    inputs, settings = depth(rng, aggregation="dibr")
    return replace(inputs, distortion=LENS), settings


def normal_map(rng):
    """Normals of a body that is smooth on one side, over the ground."""
    settings = settings_of(quantity="normal", ground="plain")
    vertices, faces, body = join(icosahedron_mesh(0.5))
    groups = np.where(np.arange(20)[:, None] % 3 == 0, -1, faces)
    topology = {"corner_normal": groups}
    return bare(inputs_of(rng, (vertices, faces, body), poses(rng, (0.02, 0.03, 0.6)), settings, topology=topology)), settings


def two_sided(rng):
    """Shiny open faces of which some are seen from behind."""
    settings = settings_of(two_sided=True, shading="phong", gamma=3e-2)
    vertices = (0.15 * rng.normal(size=(6, 1, 3)) + 0.4 * rng.normal(size=(6, 3, 3))).reshape(-1, 3)
    faces = np.arange(18).reshape(6, 3)
    return inputs_of(
        rng, join((vertices, faces)), poses(rng, (0.02, 0.03, 0.35)), settings,
        topology={"corner_normal": np.where(np.arange(6)[:, None] < 2, faces // 3, -1)},
        material=material_rows(rng, 1), point=point_light(rng),
    ), settings  # fmt: skip


def unlit(rng):
    """Colours only, without lights, over a checker."""
    settings = settings_of(shading="none", ground="checker")
    return inputs_of(rng, join(box_mesh()), poses(rng, (0.02, 0.03, 0.45)), settings, directional=None), settings


def batch(rng):
    """Four images of two bodies and a static face; rows for all, for every second and for each image."""
    settings = settings_of(14, 12, shading="phong", ground="texture")
    extra = np.array([[0.6, 0.5, 0.1], [0.9, 0.3, 0.2], [0.7, 0.6, 0.7]]), [[0, 1, 2]], None
    vertices, faces, vertex_body = join(box_mesh(0.5), box_mesh(0.3), extra)
    textures, texels = textures_of(rng, (4, 3, 1), (3, 3, 0))
    topology = {
        "face_material": np.arange(25) % 2, "face_texture": np.arange(25) % 3 - 1, "textures": textures,
        "corner_normal": np.where(np.arange(25)[:, None] < 12, faces, -1),
    }  # fmt: skip
    cameras = [camera(14, 12, eye=EYE + 0.2 * rng.normal(size=3)) for _ in range(4)]
    return inputs_of(
        rng, (vertices, faces, vertex_body), poses(rng, (0.05, 0.05, 0.4), (-0.5, -0.3, 0.35), images=4), settings,
        cameras=np.concatenate(cameras), topology=topology,
        vertices_rest=vertices + 0.02 * rng.normal(size=(2, *vertices.shape)),
        albedo=rng.uniform(0.1, 0.9, (2, 25, 3, 3)), ambient=rng.uniform(0.2, 0.4, (4, 3)),
        background=rng.uniform(0.0, 0.4, (2, 2, 3)), directional=directional_light(rng, 4), point=point_light(rng, 2),
        environment=environment_row(rng, 2), material=material_rows(rng, 2, 2),
        uv=uv_of(rng, vertices, faces) + 0.1 * rng.normal(size=(2, 1, 1, 2)),
        texels=rng.uniform(0.2, 1.0, (4, texels.shape[1], 3)), ground=ground_row(rng, 2, cell=1.5),
        distortion=LENS * rng.uniform(0.3, 0.8, (4, 1)),
    ), settings  # fmt: skip


def batch_shadowed(rng):
    """Two pictures with two lights' shadows each, whose background images differ."""
    inputs, settings = shadowed(rng)
    first = inputs.body_q
    directional = np.concatenate([directional_light(rng, 2), np.array([[[0.6, 0.15, -0.75, 0.4, 0.5, 0.6]]] * 2)], axis=1)
    return replace(
        inputs, body_q=np.concatenate([first, first + 0.03 * rng.normal(size=first.shape)]), directional=directional,
        background_image=rng.uniform(0.0, 0.6, (2, 3, 4, 3)),
    ), settings  # fmt: skip


SCENES = (
    one_face, edge_on, intersecting, behind_camera, partly_outside, textured, specular, shadowed, shadowed_phong, several_lights,
    only_environment, many_overlapping, distorted_camera, checker_ground, textured_ground, textured_ground_clamped,
    background_image, dibr, dibr_textured_phong, softmax_composite, antialiased, antialiased_dibr, depth, depth_dibr, normal_map,
    two_sided, unlit, batch, batch_shadowed,
)  # fmt: skip
NAMES = tuple(function.__name__ for function in SCENES)
_UNLIT = {"ambient"}
_SHAPE = {"albedo", "ambient", "background"}
# The required inputs that a scene's picture does not depend on.
UNSEEN = {
    "unlit": _UNLIT, "depth": _SHAPE, "depth_dibr": _SHAPE, "normal_map": _SHAPE, "background_image": {"background"},
    "antialiased_dibr": {"background"}, "batch_shadowed": {"background"},
}  # fmt: skip


def scene(name, **changes):
    """(RenderInputs, RasterSettings) of a scene by its name, with ``changes`` of the settings.

    A changed sigma or gamma takes the place of the softness of the inputs.
    """
    function = SCENES[NAMES.index(name)]
    inputs, settings = function(np.random.default_rng(sum((i + 1) * ord(letter) for i, letter in enumerate(name))))
    if {"sigma", "gamma"} & set(changes):
        inputs = replace(inputs, softness=None)
    return inputs, replace(settings, **changes) if changes else settings


def reals(inputs):
    """The real arrays that a RenderInputs has, by name."""
    arrays = {field.name: getattr(inputs, field.name) for field in fields(inputs) if field.name != "mesh"}
    return {name: array for name, array in arrays.items() if array is not None}


def side_by_side(inputs, moved):
    """Inputs of the pictures at K points in one batch, point by point: ``moved`` has K arrays of each input that changes."""
    count, arrays = len(next(iter(moved.values()))), {}
    for name, array in reals(inputs).items():
        if name in moved:
            arrays[name] = np.stack(moved[name]) if name == "vertices_rest" and array.ndim == 2 else np.concatenate(moved[name])
        elif name == "body_q" or (len(array) > 1 and (name != "vertices_rest" or array.ndim == 3)):
            arrays[name] = np.concatenate([array] * count)
    return replace(inputs, **arrays)


def random_tangents(inputs, columns=2):
    """Tangents of every real input."""
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=(columns, *array.shape)) for name, array in reals(inputs).items()}


def convert(inputs, function):
    """RenderInputs with ``function`` applied to every real array, and a mesh in the container of the result."""
    arrays = {name: function(array) for name, array in reals(inputs).items()}
    return replace(inputs, mesh=mesh_with(inputs.mesh, like=arrays["body_q"]), **arrays)


def mesh_with(mesh, *, like, **changes):
    """A MeshTopology of numpy arrays again, with ``changes`` of the arguments of ``mesh_topology``."""
    return mesh_topology(**{**vars(topology(mesh)), **changes}, like=like)
