"""A task of the small scene, and functions that write a data set of it slowly. A scene file, too, with the task."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from risp_torch import Scene
from risp_torch.risp import Batch, DatasetSettings, Domains, RendererSource, RigidPoseHead, RispTask, generate
from risp_torch.risp.dataset.generate import Generated
from risp_torch.scene.rendering_parameters import RenderingParameters, default_psi
from tests.reference.small_scenes import make_scene
from ti_sim.base.runtime import start, ti

SIZE = 16
SETTINGS = DatasetSettings(11, "each", seed=3, size=SIZE, shard_images=4)
HEAD = RigidPoseHead("block", low=(-0.02, -0.02, 0.02), high=(0.02, 0.02, 0.05), yaw=(-0.5, 0.5), pitch=(-0.5, 0.5))


def make_task(scene: Scene) -> RispTask:
    """Three numbers of psi."""
    distributions = default_psi(scene).distributions
    chosen = {name: distributions[name] for name in ("light.key.direction", "light.key.intensity")}
    return RispTask(HEAD, Domains.default(scene, RenderingParameters(scene, chosen)), gamma=1.0)


class SlowRenderer(RendererSource):
    """The renderer, slowly enough to be killed while it makes a shard."""

    def batch_and_states(self, indices: Sequence[int]) -> tuple[Batch, torch.Tensor]:
        """Pictures of one shard."""
        time.sleep(0.05)
        return super().batch_and_states(indices)


def write_slowly(folder: Path | str, images: int = 40, rank: int = 0, ranks: int = 1) -> Generated:
    """A data set of shards of 4 rendered pictures."""
    module = sys.modules[generate.__module__]  # the package has a function of this name
    rendering, module.RendererSource = module.RendererSource, SlowRenderer
    try:
        scene = make_scene(size=SIZE)
        return generate(scene, make_task(scene), replace(SETTINGS, images=images), folder, rank=rank, ranks=ranks)
    finally:
        module.RendererSource = rendering


def write_in_process(folder: str, rank: int, ranks: int) -> None:
    """``write_slowly`` as the target of a separate process."""
    torch.set_num_threads(1)
    start(device="cpu", precision="f32")
    write_slowly(folder, rank=rank, ranks=ranks)
    ti.reset()  # writes the cache of kernels: such a process runs no exit handlers
