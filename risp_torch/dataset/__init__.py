"""Training data of RISP: pictures, their derivatives by psi, and states, from shards or from the renderer."""

from risp_torch.dataset.batch import Batch, Source
from risp_torch.dataset.generate import Generated, generate, ranks_from_environment
from risp_torch.dataset.manifest import problems
from risp_torch.dataset.renderer import RendererSource
from risp_torch.dataset.settings import DatasetSettings
from risp_torch.dataset.source import ShardSource

__all__ = [
    "Batch", "DatasetSettings", "Generated", "RendererSource", "ShardSource", "Source", "generate", "problems",
    "ranks_from_environment",
]  # fmt: skip
