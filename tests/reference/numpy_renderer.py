"""The renderer's formulas in plain numpy, written for clearness: one image, one face at a time, all pixels at once.

Shares no code with ``ti_render`` (its settings and inputs are only read). Always computes in float64.
"""

import numpy as np

CUT_OFF, FADE_START = 9.21, 6.0


def render(inputs, settings):
    """Images [M, H, W, 4] of ``RenderInputs`` of numpy arrays under ``RasterSettings``."""
    count = inputs.body_q.shape[0]
    rows = {}
    for name in ("vertices_rest", "camera", "albedo", "ambient", "light", "background", "ground"):
        array = getattr(inputs, name)
        if array is not None:
            array = np.asarray(array, dtype=np.float64)
            rows[name] = array[None] if name == "vertices_rest" and array.ndim == 2 else array
    images = []
    for m in range(count):
        mine = {name: array[m * len(array) // count] for name, array in rows.items()}
        images.append(_image(mine, np.asarray(inputs.body_q[m], dtype=np.float64), inputs.faces, inputs.vertex_body, settings))
    return np.stack(images)


def rotate(quaternion, points):
    """Rotation matrix polynomial of (x, y, z, w) applied to points [..., 3]."""
    v, w = quaternion[:3], quaternion[3]
    return points + 2 * w * np.cross(v, points) + 2 * np.cross(v, np.cross(v, points))


def _image(row, body_q, faces, vertex_body, settings):
    world = row["vertices_rest"].copy()
    for body in range(len(body_q)):
        mine = vertex_body == body
        world[mine] = rotate(body_q[body, 3:], world[mine]) + body_q[body, :3]
    fx, fy, cx, cy = row["camera"][:4]
    rotation, translation = row["camera"][4:13].reshape(3, 3), row["camera"][13:]
    width, height = settings.width, settings.height
    shorter = min(width, height)
    camera_points = world @ rotation.T + translation
    direction = row["light"][:3]
    towards = -direction / np.linalg.norm(direction)
    intensity = row["light"][3:]
    u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    pixels = np.stack([(u - width / 2) * 2 / shorter, (v - height / 2) * 2 / shorter], axis=-1)

    layers = []  # (coverage, normalised depth, colour) of everything, ground and background last
    for f, face in enumerate(faces):
        points = camera_points[face]
        if not np.all(np.isfinite(points)) or np.any(points[:, 2] < settings.near):
            continue
        corners = np.stack(
            [
                (fx * points[:, 0] / points[:, 2] + cx - width / 2) * 2 / shorter,
                (fy * points[:, 1] / points[:, 2] + cy - height / 2) * 2 / shorter,
            ],
            axis=-1,
        )
        normal = np.cross(world[face[1]] - world[face[0]], world[face[2]] - world[face[0]])
        length = np.linalg.norm(normal)
        cosine = max(0.0, float(normal @ towards) / length) if length > 1e-16 else 0.0
        lit = row["albedo"][f] * (row["ambient"] + intensity * cosine)
        coverage, barycentrics = _coverage(pixels, corners, settings.sigma)
        inverse = barycentrics / points[:, 2]
        z = 1 / inverse.sum(-1)
        colour = (inverse * z[..., None]) @ lit
        layers.append((coverage, (settings.far - z) / (settings.far - settings.near), colour))

    background = np.broadcast_to(row["background"], (*u.shape, 3))
    backdrop = [(np.ones(u.shape), np.full(u.shape, settings.background_weight), background)]
    if settings.ground:
        rays = np.stack([(u - cx) / fx, (v - cy) / fy, np.ones_like(u)], axis=-1) @ rotation
        origin = -rotation.T @ translation
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (row["ground"][3] - origin[2]) / rays[..., 2]
            there = np.isfinite(z) & (z > settings.near)
        colour = row["ground"][:3] * (row["ambient"] + intensity * max(0.0, towards[2]))
        depth = np.where(there, (settings.far - np.where(there, z, 0)) / (settings.far - settings.near), -1e9)
        backdrop.append((there.astype(float), depth, np.broadcast_to(colour, (*u.shape, 3))))
    c_in, c_back = _softmax(layers + backdrop, settings.gamma), _softmax(backdrop, settings.gamma)
    alpha = 1 - np.prod([1 - layer[0] for layer in layers], axis=0) if layers else np.zeros(u.shape)
    mix = alpha[..., None] if settings.composite == "alpha" else 1.0
    return np.concatenate([mix * c_in + (1 - mix) * c_back, alpha[..., None]], axis=-1)


def _softmax(layers, gamma):
    coverage = np.stack([layer[0] for layer in layers])
    depth = np.stack([layer[1] for layer in layers])
    colour = np.stack([layer[2] for layer in layers])
    highest = np.where(coverage > 0, depth, -np.inf).max(0)
    weight = coverage * np.exp(np.minimum((depth - highest) / gamma, 0))
    return (weight[..., None] * colour).sum(0) / weight.sum(0)[..., None]


def _coverage(pixels, corners, sigma):
    """Coverage [H, W] and barycentrics [H, W, 3] of a screen triangle [3, 2]."""
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
    x = np.clip(np.where(inside, y, -y), -500, 500)
    coverage = 1 / (1 + np.exp(-x))
    t = np.clip((y - FADE_START) / (CUT_OFF - FADE_START), 0, 1)
    fade = 1 - (3 * t**2 - 2 * t**3)
    return np.where(inside, coverage, coverage * fade), barycentrics
