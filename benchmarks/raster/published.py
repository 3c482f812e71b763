"""Figures of other renderers from earlier measurements and publications."""

from __future__ import annotations

# PyTorch3D 0.7.9, its C++ rasteriser for the CPU with SoftPhongShader, sigma = gamma = 1e-4, 38 % coverage, two cores of the
# same kind, measured earlier, not in this run: seconds by (pixels, faces), for 10 and for 50 faces a pixel.
PYTORCH3D_FORWARD = {
    (64, 80): (0.011, 0.030), (64, 1008): (0.026, 0.046), (64, 5120): (0.278, 0.213),
    (128, 80): (0.173, 0.752), (128, 1008): (0.964, 0.145), (128, 5120): (0.252, 0.357),
    (256, 80): (0.156,), (256, 1008): (0.248, 1.885), (256, 5120): (0.906,),
}  # fmt: skip
PYTORCH3D_BACKWARD = {
    (64, 80): (0.162, 0.203), (64, 1008): (0.374, 0.483), (64, 5120): (0.566, 1.251),
    (128, 80): (0.866, 1.601), (128, 1008): (2.360, 2.068), (128, 5120): (1.875, 4.398),
    (256, 80): (2.604,), (256, 1008): (5.862, 8.332), (256, 5120): (7.428,),
}  # fmt: skip
PYTORCH3D_BATCH = ((128, 1008), 0.661, 12.334)  # 8 images at once, 10 faces a pixel

# gradSim, Table 4 (right) of its paper: tetrahedra -> forward of the rendering, backward of the physics, backward of physics and
# rendering [pictures or steps a second].
GRADSIM_RATES = {
    100: (3504.0, 3721.0, 3057.0), 200: (3478.0, 3780.0, 2963.0), 400: (3357.0, 3750.0, 1360.0),
    1000: (1690.0, 1644.0, 1041.0), 2000: (1584.0, 1655.0, 698.0), 5000: (1529.0, 1553.0, 424.0),
    10000: (1500.0, 1429.0, 248.0),
}  # fmt: skip
