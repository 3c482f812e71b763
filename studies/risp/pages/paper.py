"""The paper's numbers (RISP, ICLR 2022): mean and standard deviation of every cell of its tables 1 to 4."""

from __future__ import annotations

# Table 1: mean L1 error of an output over 800 pictures.
_STATE = {
    "quadrotor": {"average": (0.5994, 0.0), "random": (0.9661, 0.7548), "no-grad": (0.3114, 0.3191), "full": (0.1505, 0.1163)},
    "cube": {"average": (0.5920, 0.0), "random": (0.9655, 0.8119), "no-grad": (0.2805, 0.3199), "full": (0.1642, 0.1887)},
    "hand": {"average": (0.2605, 0.0), "random": (0.8323, 0.5705), "no-grad": (0.1155, 0.0505), "full": (0.0974, 0.0255)},
    "rod": {"average": (0.9792, 0.0), "random": (1.2730, 0.7197), "no-grad": (0.0201, 0.0087), "full": (0.0194, 0.0048)},
}
# Table 2: error of the parameter in kg, decades, the paper's units of joint stiffness, and Pa.
_IDENTIFY = {
    "quadrotor": {
        "random": (9.22e-2, 3.83e-2), "pixel": (7.22e-2, 5.26e-2), "perceptual": (6.45e-2, 5.23e-2),
        "no-grad": (6.07e-2, 4.34e-2), "full": (1.18e-2, 1.93e-2), "state": (2.36e-5, 2.41e-5),
    },
    "cube": {
        "random": (2.31e-1, 9.57e-2), "pixel": (2.24e-3, 1.74e-3), "perceptual": (1.16e-1, 5.83e-2),
        "no-grad": (1.16e-1, 6.20e-2), "full": (6.76e-3, 7.23e-3), "state": (1.15e-3, 8.60e-4),
    },
    "hand": {
        "random": (5.70e-1, 1.62e-1), "pixel": (1.04e-1, 9.62e-2), "perceptual": (1.10e-1, 1.18e-1),
        "no-grad": (4.85e-2, 2.16e-2), "full": (3.96e-2, 2.73e-2), "state": (3.92e-3, 4.40e-4),
    },
    "rod": {
        "random": (1.30e6, 1.35e6), "pixel": (8.50e5, 1.42e6), "perceptual": (8.32e5, 1.43e6), "no-grad": (8.78e4, 1.52e5),
        "full": (9.31e1, 4.21e1), "state": (4.36, 3.57),
    },
}  # fmt: skip
# Table 3: error of the motion, a sum over its frames. The perceptual loss did not converge on the quadrotor.
_IMITATE = {
    "quadrotor": {
        "average": (28.40, 0.0), "random": (1120.0, 113.0), "pixel": (12.65, 0.13), "no-grad": (25.07, 5.76),
        "full": (2.63, 1.86), "state": (0.79, 0.44),
    },
    "hand": {
        "average": (7.62, 0.0), "random": (10.27, 0.91), "pixel": (6.71, 0.07), "perceptual": (5.10, 1.80),
        "no-grad": (7.12, 0.71), "full": (1.52, 0.18), "state": (0.02, 0.02),
    },
    "rod": {
        "average": (30.20, 0.0), "random": (29.89, 0.61), "pixel": (29.57, 0.85), "perceptual": (14.61, 5.13),
        "no-grad": (0.83, 0.35), "full": (1.05, 0.27), "state": (0.28, 0.16),
    },
}  # fmt: skip
# Table 4: error of the last state.
_REACH = {
    "quadrotor": {
        "average": (1.38, 0.0), "random": (63.93, 9.44), "pixel": (3.02, 1.35), "perceptual": (1.59, 0.26),
        "no-grad": (1.30, 0.15), "full": (0.54, 0.25), "state": (0.15, 0.09),
    },
    "hand": {
        "average": (0.23, 0.0), "random": (0.32, 0.06), "pixel": (0.25, 0.05), "perceptual": (0.28, 0.05),
        "no-grad": (0.23, 0.06), "full": (0.11, 0.02), "state": (0.002, 0.0),
    },
    "rod": {
        "average": (0.89, 0.0), "random": (0.87, 0.06), "pixel": (0.05, 0.01), "perceptual": (0.11, 0.06),
        "no-grad": (0.04, 0.0002), "full": (0.04, 0.0006), "state": (0.01, 0.02),
    },
}  # fmt: skip
PAPER = {"1": _STATE, "2": _IDENTIFY, "3": _IMITATE, "4": _REACH}


def paper_cell(table: str, scene: str, method: str) -> tuple[float, float] | None:
    """Mean and standard deviation that the paper reports for a cell; None where it has none."""
    return PAPER.get(table, {}).get(scene, {}).get(method)
