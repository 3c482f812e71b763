"""Checksum of the weights of a torch module; it identifies networks without a file."""

from __future__ import annotations

from hashlib import sha256

import torch


def checksum(module: torch.nn.Module) -> str:
    """SHA-256 of the names and bytes of a module's weights and buffers, in hexadecimal."""
    digest = sha256()
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
