"""The study of the rod's steps, on a coarse rod: what it reads, and how the error of BDF2 grows with the step."""

import numpy as np
import pytest
import torch

from risp_torch import load_scene
from studies.engine.implicit_rod import height, positions, read, row

OPTIONS = {"cells": (8, 1, 1), "frames": 20}


def test_the_modulus_is_read_back_from_its_own_motion_and_from_that_of_another():
    scene = load_scene("rod", integrator="sdirk2", substeps=1, **OPTIONS)
    own = read(scene, positions(scene))
    assert own.away == 0 and abs(own.error) < 2e-5
    other = read(scene, positions(scene, 1.05e5))
    assert other.error == pytest.approx(0.05, abs=1e-4) and other.away > 1e-3
    assert row(other)[0] == "`sdirk2`" and row(other)[-1] == "+5 %"


def test_errors_of_the_modulus_shrink_with_the_square_of_the_step():
    """A swing of frequency omega has the modulus 1 - 2 c (omega h)^2 in its steps, by the terms of third order of their growth.

    These are c = 1/3 for BDF2, and 3 g^2 - 2 g^3 - 1/6 for SDIRK2 with g = 1 - 1/sqrt(2).
    """
    true = positions(load_scene("rod", integrator="sdirk2", substeps=16, **OPTIONS))
    errors = {
        (name, steps): read(load_scene("rod", integrator=name, substeps=steps, **OPTIONS), true).error
        for name, steps in (("bdf2", 4), ("bdf2", 8), ("sdirk2", 1), ("sdirk2", 2))
    }
    for name, steps in (("bdf2", 8), ("sdirk2", 2)):
        assert 2.5 < errors[name, steps // 2] / errors[name, steps] < 6, errors
    frame_dt, heights, g = load_scene("rod", **OPTIONS).stepping.frame_dt, height(true), 1 - 0.5**0.5
    omega = np.pi / (frame_dt * (heights.argmax() - heights.argmin()))
    for (name, steps), error in errors.items():
        third = 1 / 3 if name == "bdf2" else 3 * g**2 - 2 * g**3 - 1 / 6
        assert 0 < error < 2 * third * (omega * frame_dt / steps) ** 2, (name, steps, error)


def test_heights_are_those_of_the_particle_that_moves_farthest():
    moved = np.zeros((3, 2, 3))
    moved[:, 0, 2], moved[:, 1, 2] = (1.0, 1.1, 1.0), (2.0, 1.5, 1.8)
    assert height(torch.as_tensor(moved)).tolist() == [2.0, 1.5, 1.8]
