"""Training data of RISP: pictures, their derivatives by psi, and states, from shards or from the renderer."""

from risp_torch.risp.dataset.batch import Batch, Source
from risp_torch.risp.dataset.generate import Generated, generate, ranks_from_environment
from risp_torch.risp.dataset.manifest import problems
from risp_torch.risp.dataset.renderer import RendererSource
from risp_torch.risp.dataset.settings import DatasetSettings
from risp_torch.risp.dataset.source import ShardSource

__all__ = [
    "Batch", "DatasetSettings", "Generated", "RendererSource", "ShardSource", "Source", "generate", "problems",
    "ranks_from_environment",
]  # fmt: skip
