"""Training data of RISP: pictures, their derivatives by psi, and states, from shards or from the renderer."""

from risp_torch.dataset.batch import Batch, Source

__all__ = ["Batch", "Source"]
