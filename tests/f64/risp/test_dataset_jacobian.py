"""Derivatives in the shards of a data set against central differences of rendered pictures."""

import torch

from risp_torch.risp import DatasetSettings, ShardSource, generate, load_task
from risp_torch.risp.task import training_scene

STEP = 1e-6
HALF = 2.0**-11  # relative rounding of half precision
MIN_VALUE = 2.0**-24  # its smallest number
CLEAR = 1e-4  # a picture this close to white may stop at it within a step


def test_columns_of_a_shard_are_central_differences(tmp_path):
    scene = training_scene("cube", 24)
    task = load_task("cube", scene)
    generate(scene, task, DatasetSettings(4, seed=1, size=24), tmp_path)
    source = ShardSource(tmp_path, scene, task)
    batch = source.batch(range(4))
    parameters = task.domains.training.parameters
    poses, psi = source.states(range(4)).double()[:, None], batch.psi.double()

    def pictures(psi):
        return scene.render(poses, parameters.values(psi))[:, 0]

    plain = pictures(psi)
    torch.testing.assert_close(batch.images, plain.clamp(0, 1).float(), rtol=0, atol=1e-7)
    largest = 0.0
    for column, step in enumerate(STEP * torch.eye(parameters.size, dtype=torch.float64)):
        difference = (pictures(psi + step).clamp(0, 1) - pictures(psi - step).clamp(0, 1)) / (2 * STEP)
        clear = (plain - 1).abs() > CLEAR
        error = (batch.jacobian[:, column].double() - difference).abs()[clear]
        allowed = (HALF * difference.abs() + MIN_VALUE + 1e-7)[clear]
        assert (error <= allowed).all(), (parameters.labels[column], (error / allowed).max())
        largest = max(largest, float(difference.abs().max()))
    assert largest > 0.1
