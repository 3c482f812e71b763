"""Checksum of the weights of a torch module, by which runs name a network that has no file."""

from __future__ import annotations

from hashlib import sha256

import torch


def checksum(module: torch.nn.Module) -> str:
    """Checksum of a module's weights, by name."""
    digest = sha256()
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
