"""The renderer's equations in plain numpy, written for clearness: one image, one face at a time, all pixels at once.

Shares no code with ``ti_render`` (its settings and inputs are only read). Always computes in float64.
"""

from types import SimpleNamespace

import numpy as np

CUT_OFF, FADE_START = 9.21, 6.0  # of the squared distance over sigma
FADE = 20.0  # strength of SoftRas's fade in between
NEAR_FADE = 0.25  # of the near distance
STEEPEST, SHADOW_STEEPEST = 8.0, 0.35  # slope of the depth from which on a face counts as nearly edge-on
SHADOW_FAR, SHADOW_EYE, SHADOW_SOFTNESS = 70.0, 64.0, 0.02  # in radii of the ball of the shadows
HIGHLIGHT_FADE = 0.1  # cosine over which a highlight fades out towards the terminator
CHECKER_SOFTNESS = 0.05
REALS = (
    "vertices_rest", "body_q", "camera", "albedo", "ambient", "background", "directional", "point", "environment",
    "material", "uv", "texels", "background_image", "ground", "distortion", "softness",
)  # fmt: skip


def render(inputs, settings):
    """Images [M, H, W, 4] of ``RenderInputs`` of numpy arrays under ``RasterSettings``."""
    count = inputs.body_q.shape[0]
    arrays = {}
    for name in REALS:
        array = getattr(inputs, name)
        if array is not None:
            array = np.asarray(array, dtype=np.float64)
            arrays[name] = array[None] if name == "vertices_rest" and array.ndim == 2 else array
    mesh = topology(inputs.mesh)
    images = []
    for m in range(count):
        row = SimpleNamespace(**dict.fromkeys(REALS))
        for name, array in arrays.items():
            setattr(row, name, array[m * len(array) // count])
        images.append(_image(row, mesh, settings))
    return np.stack(images)


def topology(mesh):
    """The arrays that a MeshTopology was made of, by the names of the arguments of ``mesh_topology``."""
    corners = np.asarray(mesh.corners)
    groups = len(mesh.group_start) - 1
    return SimpleNamespace(
        faces=corners[:, :3], vertex_body=np.asarray(mesh.vertex_body), face_material=corners[:, 3],
        face_texture=corners[:, 4], corner_normal=np.where(corners[:, 5:8] < groups, corners[:, 5:8], -1),
        textures=np.asarray(mesh.textures) if mesh.texel_count else None,
    )  # fmt: skip


def rotate(quaternion, points):
    """Rotation matrix polynomial of (x, y, z, w) applied to points [..., 3]."""
    v, w = quaternion[:3], quaternion[3]
    return points + 2 * w * np.cross(v, points) + 2 * np.cross(v, np.cross(v, points))


def world_vertices(vertices_rest, vertex_body, body_q):
    """Vertices [V, 3] in the world; those of body -1 stay where they are."""
    world = vertices_rest.copy()
    for body in range(len(body_q)):
        mine = vertex_body == body
        world[mine] = rotate(body_q[body, 3:], world[mine]) + body_q[body, :3]
    return world


def undistort(x_d, y_d, coefficients):
    """Where OpenCV's lens model takes its (x_d, y_d) from, by Newton's method on both coordinates."""
    k1, k2, p1, p2, k3 = coefficients
    x, y = x_d.copy(), y_d.copy()
    for _ in range(50):
        r2 = x**2 + y**2
        radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
        slope = k1 + 2 * k2 * r2 + 3 * k3 * r2**2  # d radial / d r2
        f = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x**2) - x_d
        g = y * radial + p1 * (r2 + 2 * y**2) + 2 * p2 * x * y - y_d
        f_x = radial + 2 * x**2 * slope + 2 * p1 * y + 6 * p2 * x
        f_y = 2 * x * y * slope + 2 * p1 * x + 2 * p2 * y
        g_x = 2 * x * y * slope + 2 * p1 * x + 2 * p2 * y
        g_y = radial + 2 * y**2 * slope + 6 * p1 * y + 2 * p2 * x
        determinant = f_x * g_y - f_y * g_x
        x, y = x - (g_y * f - f_y * g) / determinant, y - (f_x * g - g_x * f) / determinant
    return x, y


def spherical_harmonics(n):
    """The nine real functions of degree 0 to 2 at directions [..., 3], as [..., 9]."""
    x, y, z = n[..., 0], n[..., 1], n[..., 2]
    one, two = np.sqrt(3 / (4 * np.pi)), np.sqrt(15 / (4 * np.pi))
    return np.stack(
        [
            np.full_like(x, np.sqrt(1 / (4 * np.pi))), one * y, one * z, one * x, two * x * y, two * y * z,
            np.sqrt(5 / (16 * np.pi)) * (3 * z**2 - 1), two * x * z, two / 2 * (x**2 - y**2),
        ],
        axis=-1,
    )  # fmt: skip


def bilinear(texels, x, y, *, repeat):
    """Mix of the four texels of [h, w, 3] around column x, row y (0 = centre of the first)."""
    height, width = texels.shape[:2]
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    total = 0.0
    for down in (0, 1):
        for right in (0, 1):
            column, line = left + right, top + down
            column = column % width if repeat else np.clip(column, 0, width - 1)
            line = line % height if repeat else np.clip(line, 0, height - 1)
            weight = (1 - abs(x - left - right)) * (1 - abs(y - top - down))
            total = total + weight[..., None] * texels[line, column]
    return total


def coverage(pixels, corners, sigma):
    """Of a screen triangle [3, 2] at pixels [H, W, 2]: log D0, inside (bool) [H, W], barycentrics [H, W, 3]."""
    best = np.full(pixels.shape[:2], np.inf)
    barycentrics = np.zeros((*pixels.shape[:2], 3))
    areas = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        a, edge = corners[i], corners[j] - corners[i]
        squared = edge @ edge
        t = np.clip((pixels - a) @ edge / squared, 0, 1) if squared > 0 else np.zeros(pixels.shape[:2])
        distance = ((pixels - a - t[..., None] * edge) ** 2).sum(-1)
        nearer = distance < best
        best = np.where(nearer, distance, best)
        here = np.zeros_like(barycentrics)
        here[..., i], here[..., j] = 1 - t, t
        barycentrics = np.where(nearer[..., None], here, barycentrics)
        to_i, to_j = corners[i] - pixels, corners[j] - pixels
        areas.append(to_i[..., 0] * to_j[..., 1] - to_i[..., 1] * to_j[..., 0])
    areas = np.stack(areas, axis=-1)
    area = areas.sum(-1)
    longest = max(((corners[k] - corners[k - 1]) ** 2).sum() for k in range(3))
    inside = (np.all(areas >= 0, -1) | np.all(areas <= 0, -1)) & (area**2 > 1e-12 * longest**2)
    barycentrics = np.where(inside[..., None], areas / np.where(area == 0, 1, area)[..., None], barycentrics)
    y = best / sigma
    t = np.clip((y - FADE_START) / (CUT_OFF - FADE_START), 0, 1)
    capped = np.minimum(y, 500)
    with np.errstate(divide="ignore"):
        tail = np.where(t < 1 - 1e-3, FADE * t**2 / (1 - t), np.inf)
    log_d0 = np.where(inside, np.where(y >= 40, 0, -np.log1p(np.exp(-capped))), -np.log1p(np.exp(capped)) - tail)
    return log_d0, inside, barycentrics


def share_of_disc(pixels, corners, sigma):
    """UnitInterval [H, W] that a screen triangle [3, 2] has of the weighted disc around each pixel [H, W, 2].

    The weight 3 (1 - r^2)^2 / (pi R^2) of a point at r R from the pixel has the mass M = 1 - (1 - r^2)^3 within r, and one
    beyond the disc.
    By the divergence theorem the share is the integral of M over the angle at which the boundary is seen, over 2 pi: along an
    edge at h, d angle = h dt / r^2, in closed form where it is within the disc, and the angle itself elsewhere.
    """
    radius = np.sqrt(CUT_OFF * sigma)
    u = (corners[None, None] - pixels[:, :, None]) / radius  # [H, W, 3, 2]
    first, second = u, np.roll(u, -1, axis=2)
    along = second - first
    length = np.maximum(np.linalg.norm(along, axis=-1), 1e-300)
    along = along / length[..., None]
    h = first[..., 0] * along[..., 1] - first[..., 1] * along[..., 0]
    start = (first * along).sum(-1)
    half = np.sqrt(np.maximum(1 - h**2, 0))
    a, b = np.clip(start, -half, half), np.clip(start + length, -half, half)

    def angle(s, t):
        return np.arctan2(h * (t - s), h**2 + s * t)

    # M / r^2 = 3 - 3 r^2 + r^4 with r^2 = h^2 + t^2
    within = [(3 - 3 * h**2 + h**4) * t + (2 * h**2 - 3) * t**3 / 3 + t**5 / 5 for t in (a, b)]
    within = h * (within[1] - within[0])
    crosses = abs(h) < 1
    beyond = np.where(crosses, angle(start, a) + angle(b, start + length), angle(start, start + length))
    return abs((beyond + np.where(crosses, within, 0)).sum(-1)) / (2 * np.pi)


def seen_point(pixels, corners, depths, barycentrics, sigma, steepest):
    """Barycentrics [H, W, 3] at which a face shows its depth and colour: mixed among its edges where it is nearly edge-on."""
    plane = np.column_stack([corners, np.ones(3)])
    with np.errstate(divide="ignore", invalid="ignore"):
        try:
            gradient = np.linalg.solve(plane, 1 / depths)[:2]  # of the inverse depth over the screen
        except np.linalg.LinAlgError:
            gradient = np.full(2, np.inf)
        slope = np.linalg.norm(gradient) / np.mean(1 / depths)
        steep = 1 - smoothstep((steepest / slope) ** 2)
    if not steep > 0:
        return barycentrics
    squares, places = [], []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        edge = corners[j] - corners[i]
        t = np.clip((pixels - corners[i]) @ edge / max(edge @ edge, 1e-300), 0, 1)
        place = np.zeros((*pixels.shape[:2], 3))
        place[..., i], place[..., j] = 1 - t, t
        squares.append(((pixels - place @ corners) ** 2).sum(-1))
        places.append(place)
    weights = np.exp((np.min(squares, axis=0) - squares) / sigma)
    even = (weights[..., None] * places).sum(0) / weights.sum(0)[..., None]
    return barycentrics + steep * (even - barycentrics)


def shadow_map(world, faces, towards, shadows):
    """Alpha and depth [R, R] of the soft picture that a directional light sees."""
    coordinates = light_coordinates(world, towards, shadows)
    size = shadows.resolution
    centres = (np.arange(size) + 0.5) * 2 / size - 1
    texels = np.stack(np.meshgrid(centres, centres), axis=-1)
    layers, shares = [], []
    for face in faces:
        corners = coordinates[face]
        if np.all(np.isfinite(corners)):
            log_d0, _, barycentrics = coverage(texels, corners[:, :2], shadows.sigma)
            barycentrics = seen_point(texels, corners[:, :2], corners[:, 2], barycentrics, shadows.sigma, SHADOW_STEEPEST)
            layers.append((log_d0, 1 / (barycentrics / corners[:, 2]).sum(-1)))
            shares.append((front(corners), share_of_disc(texels, corners[:, :2], shadows.sigma)))
    far = np.full((size, size), SHADOW_FAR)
    # "colour" is the depth itself
    depth = softmax([(d, z, z[..., None]) for d, z in layers] + [(np.zeros_like(far), far, far[..., None])], SHADOW_SOFTNESS)
    return union(shares, far.shape), depth[..., 0]


def light_coordinates(points, towards, shadows):
    """Map coordinates and depth [..., 3] of points, in radii, for a light in the unit direction ``towards``."""
    x, y, z = towards
    s = -1.0 if z < 0 else 1.0
    k = -1 / (s + z)
    c = x * y * k
    frame = np.array([[1 + s * x**2 * k, s * c, -s * x], [c, s + y**2 * k, -y], towards])
    scaled = (points - np.asarray(shadows.center)) @ frame.T / shadows.radius
    return np.concatenate([scaled[..., :2], SHADOW_EYE - scaled[..., 2:]], axis=-1)


def visibility(points, towards, maps, shadows):
    """Part [...] of a directional light that reaches the points."""
    alpha, depth = maps
    size = shadows.resolution
    coordinates = light_coordinates(points, towards, shadows)
    x, y = ((coordinates[..., k] + 1) * size / 2 - 0.5 for k in (0, 1))
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    hidden = 0.0
    for down in (0, 1):
        for right in (0, 1):
            column, line = left + right, top + down
            there = (column >= 0) & (column < size) & (line >= 0) & (line < size)
            column, line = np.clip(column, 0, size - 1), np.clip(line, 0, size - 1)
            weight = (1 - abs(x - left - right)) * (1 - abs(y - top - down))
            behind = (coordinates[..., 2] - depth[line, column] - shadows.bias) / shadows.width
            behind = 1 / (1 + np.exp(np.clip(-behind, -500, 500)))
            hidden = hidden + np.where(there, weight * alpha[line, column] * behind, 0)
    return np.where((np.abs(coordinates[..., :2]) <= 1).all(-1), 1 - hidden, 1.0)


def front(corners):
    """Whether the corners [3, 2 or 3] of a face run one way round on the screen."""
    (x1, y1), (x2, y2) = corners[1, :2] - corners[0, :2], corners[2, :2] - corners[0, :2]
    return x1 * y2 - x2 * y1 < 0


def union(parts, shape):
    """Coverage [...] of all parts (front, share) together: the larger sum, of front parts or of the others, at most one."""
    sums = [sum((share for side, share in parts if side == which), np.zeros(shape)) for which in (True, False)]
    return np.minimum(np.maximum(*sums), 1)


def softmax(layers, softness):
    """Colour [..., C] of layers (log weight, depth, colour): mix with weight times exp(-depth / softness)."""
    logarithm = np.stack([layer[0] - layer[1] / softness for layer in layers])
    colour = np.stack([layer[2] for layer in layers])
    weight = np.exp(logarithm - logarithm.max(0))
    return (weight[..., None] * colour).sum(0) / weight.sum(0)[..., None]


def smoothstep(t):
    """Rises from 0 to 1 over [0, 1]."""
    t = np.clip(t, 0, 1)
    return 3 * t**2 - 2 * t**3


class _View:
    """One picture's samples: their screen positions, lines of sight and place in the picture."""

    def __init__(self, row, settings):
        s = settings.antialias
        self.width, self.height = s * settings.width, s * settings.height
        self.fx, self.fy, self.cx, self.cy = s * row.camera[:4]
        self.rotation, self.translation = row.camera[4:13].reshape(3, 3), row.camera[13:]
        self.eye = -self.rotation.T @ self.translation
        self.u, self.v = np.meshgrid(np.arange(self.width) + 0.5, np.arange(self.height) + 0.5)
        x, y = (self.u - self.cx) / self.fx, (self.v - self.cy) / self.fy
        if row.distortion is not None:
            x, y = undistort(x, y, row.distortion)
        self.rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ self.rotation
        self.pixels = self.screen(x, y)

    def screen(self, x, y):
        """Screen positions [..., 2] of undistorted image-plane positions X/Z, Y/Z."""
        shorter = min(self.width, self.height)
        u, v = self.fx * x + self.cx, self.fy * y + self.cy
        return np.stack([(u - self.width / 2) * 2 / shorter, (v - self.height / 2) * 2 / shorter], axis=-1)


class _Lights:
    """All lights of one picture, with the shadow maps of the directional ones."""

    def __init__(self, row, world, mesh, settings):
        self.row, self.settings = row, settings
        self.directional = []  # (towards, intensity, maps)
        for light in [] if row.directional is None else row.directional:
            towards = -light[:3] / np.linalg.norm(light[:3])
            maps = None if settings.shadows is None else shadow_map(world, mesh.faces, towards, settings.shadows)
            self.directional.append((towards, light[3:], maps))
        self.points = [] if row.point is None else [(light[:3], light[3:]) for light in row.point]

    def arriving(self, points):
        """(unit direction to the light, rgb before the cosine) of every light, both [..., 3] at the points."""
        for towards, intensity, maps in self.directional:
            seen = 1.0 if maps is None else visibility(points, towards, maps, self.settings.shadows)[..., None]
            yield np.broadcast_to(towards, points.shape), seen * np.broadcast_to(intensity, points.shape)
        for position, intensity in self.points:
            path = position - points
            squared = (path**2).sum(-1, keepdims=True)
            yield path / np.sqrt(squared), intensity / squared

    def received(self, points, normals):
        """What a white Lambert surface shows [..., 3]."""
        total = np.broadcast_to(self.row.ambient, points.shape)
        if self.row.environment is not None:
            degree = np.array([1] + [2 / 3] * 3 + [1 / 4] * 5)  # Ramamoorthi & Hanrahan 2001, over pi
            total = total + (degree * spherical_harmonics(normals)) @ self.row.environment
        for towards, colour in self.arriving(points):
            total = total + colour * np.maximum(0, (normals * towards).sum(-1, keepdims=True))
        return total

    def specular(self, points, normals, eye, material):
        """Phong's highlights [..., 3]."""
        view = eye - points
        view = view / np.linalg.norm(view, axis=-1, keepdims=True)
        total = 0.0
        for towards, colour in self.arriving(points):
            cosine = (normals * towards).sum(-1, keepdims=True)
            rv = ((2 * cosine * normals - towards) * view).sum(-1, keepdims=True)
            shine = np.where(rv > 0, np.maximum(rv, 1e-300) ** material[3], 0)
            total = total + colour * smoothstep(cosine / HIGHLIGHT_FADE) * shine
        return material[:3] * total


def _corner_normals(world, mesh):
    """Unit normals [F, 3, 3] of the faces' corners; zero where a face has no area."""
    first, second, third = (world[mesh.faces[:, k]] for k in range(3))
    weighted = np.cross(second - first, third - first)
    normals = np.repeat(weighted[:, None], 3, axis=1)
    for group in np.unique(mesh.corner_normal[mesh.corner_normal >= 0]):
        members = mesh.corner_normal == group
        normals[members] = weighted[members.any(axis=1)].sum(axis=0)
    return _unit(normals)


def _unit(vectors):
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(length > 1e-16, vectors / np.where(length > 1e-16, length, 1), 0)


def _texture(row, mesh, number, u, v):
    first, width, height, wrap = mesh.textures[number]
    texels = row.texels[first : first + width * height].reshape(height, width, 3)
    return bilinear(texels, u * width - 0.5, (1 - v) * height - 0.5, repeat=bool(wrap))


def _image(row, mesh, settings):
    view = _View(row, settings)
    world = world_vertices(row.vertices_rest, mesh.vertex_body, row.body_q)
    lit = settings.quantity == "color" and settings.shading != "none"
    lights = _Lights(row, world, mesh, settings) if lit else None
    faces = _faces(row, mesh, settings, view, world, lights)
    ground = None if settings.ground is None else _ground(row, mesh, settings, view, lights)
    background = _background(row, settings, view)
    if settings.aggregation == "softras":
        picture = _softras(faces, ground, background, settings, _softness(row, settings)[1])
    else:
        picture = _dibr(faces, ground, background, settings)
    s = settings.antialias
    return picture.reshape(settings.height, s, settings.width, s, 4).mean(axis=(1, 3))


def _softness(row, settings):
    return (settings.sigma, settings.gamma) if row.softness is None else row.softness


def _faces(row, mesh, settings, view, world, lights):
    """Quantities of every drawn face: log D, side and share of the disc, inside, depth, colour."""
    camera_points = world @ view.rotation.T + view.translation
    normals = _corner_normals(world, mesh)
    drawn = []
    for f, face in enumerate(mesh.faces):
        points = camera_points[face]
        if not np.all(np.isfinite(points)) or np.any(points[:, 2] <= settings.near):
            continue
        corners = view.screen(points[:, 0] / points[:, 2], points[:, 1] / points[:, 2])
        log_d0, inside, barycentrics = coverage(view.pixels, corners, _softness(row, settings)[0])
        phi = np.prod(smoothstep((points[:, 2] / settings.near - 1) / NEAR_FADE))
        if settings.aggregation == "softras":
            sigma = _softness(row, settings)[0]
            barycentrics = seen_point(view.pixels, corners, points[:, 2], barycentrics, sigma, STEEPEST)
        inverse = barycentrics / points[:, 2]
        z = 1 / inverse.sum(-1)
        r = inverse * z[..., None]
        colour = _surface(row, mesh, settings, view, lights, f, r, z, r @ world[face], r @ normals[f])
        log_d = log_d0 + np.log(phi) if phi > 0 else np.full_like(log_d0, -np.inf)
        part = front(corners), phi * share_of_disc(view.pixels, corners, _softness(row, settings)[0])
        drawn.append(SimpleNamespace(log_d=log_d, part=part, inside=inside, z=z, colour=colour))
    return drawn


def _surface(row, mesh, settings, view, lights, f, r, z, points, normals):
    """Colour [H, W, 3] of face f, from the perspective-correct weights r of its corners."""
    if settings.quantity == "depth":
        return np.repeat(z[..., None], 3, axis=-1)
    normals = _unit(normals)
    if settings.two_sided:
        away = (normals * (view.eye - points)).sum(-1, keepdims=True) < 0
        normals = np.where(away, -normals, normals)
    if settings.quantity == "normal":
        return normals
    albedo = r @ row.albedo[f]
    if mesh.face_texture[f] >= 0:
        uv = r @ row.uv[f]
        albedo = albedo * _texture(row, mesh, mesh.face_texture[f], uv[..., 0], uv[..., 1])
    if settings.shading == "none":
        return albedo
    colour = albedo * lights.received(points, normals)
    if settings.shading == "phong":
        colour = colour + lights.specular(points, normals, view.eye, row.material[mesh.face_material[f]])
    return colour


def _ground(row, mesh, settings, view, lights):
    """Whether the ground is there, its depth and its colour."""
    rgb_a, height, rgb_b, cell, origin = row.ground[:3], row.ground[3], row.ground[4:7], row.ground[7], row.ground[8:]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (height - view.eye[2]) / view.rays[..., 2]
        there = np.isfinite(z) & (z > settings.near)
    z = np.where(there, z, 1.0)
    points = view.eye + z[..., None] * view.rays
    up = np.broadcast_to([0.0, 0.0, 1.0], points.shape)
    if settings.quantity == "depth":
        return there, z, np.repeat(z[..., None], 3, axis=-1)
    if settings.quantity == "normal":
        return there, z, up
    a, b = (points[..., k] - origin[k] for k in (0, 1))
    albedo = np.broadcast_to(rgb_a, points.shape)
    if settings.ground == "checker":
        waves = [q / np.sqrt(q**2 + CHECKER_SOFTNESS**2) for q in (np.sin(np.pi * a / cell), np.sin(np.pi * b / cell))]
        albedo = rgb_b + (rgb_a - rgb_b) * ((1 + waves[0] * waves[1]) / 2)[..., None]
    elif settings.ground == "texture":
        albedo = rgb_a * _texture(row, mesh, settings.ground_texture, a / cell, b / cell)
    return there, z, albedo if settings.shading == "none" else albedo * lights.received(points, up)


def _background(row, settings, view):
    """Depth and colour of what is behind everything."""
    z = settings.far - settings.background_weight * (settings.far - settings.near)
    shape = (*view.u.shape, 3)
    if settings.quantity == "depth":
        return z, np.full(shape, z)
    if settings.quantity == "normal":
        return z, np.zeros(shape)
    if row.background_image is not None:
        height, width = row.background_image.shape[:2]
        x, y = view.u / view.width * width - 0.5, view.v / view.height * height - 0.5
        return z, bilinear(row.background_image, x, y, repeat=False)
    fraction = (view.v / view.height)[..., None]
    return z, row.background[0] * (1 - fraction) + row.background[1] * fraction


def _softras(faces, ground, background, settings, gamma):
    softness = gamma * (settings.far - settings.near)
    z, colour = background
    shape = colour.shape[:2]
    behind = [(np.zeros(shape), np.full(shape, z), colour)]
    if ground is not None:
        there, z, colour = ground
        behind.append((np.where(there, 0.0, -np.inf), z, colour))
    c_in = softmax([(face.log_d, face.z, face.colour) for face in faces] + behind, softness)
    alpha = union([face.part for face in faces], shape)
    mix = alpha[..., None] if settings.composite == "alpha" else 1.0
    return np.concatenate([mix * c_in + (1 - mix) * softmax(behind, softness), alpha[..., None]], axis=-1)


def _dibr(faces, ground, background, settings):
    z_b, colour = background
    shape = colour.shape[:2]
    hidden_from = np.full(shape, np.inf)  # depth of the ground
    if ground is not None:
        there, z, ground_colour = ground
        hidden_from = np.where(there, z, np.inf)
        colour = np.where((there & (z < z_b))[..., None], ground_colour, colour)
    nearest = hidden_from
    for face in faces:
        wins = face.inside & (face.z < nearest)
        nearest = np.where(wins, face.z, nearest)
        colour = np.where(wins[..., None], face.colour, colour)
    alpha = union([face.part for face in faces], shape)
    return np.concatenate([colour, alpha[..., None]], axis=-1)
