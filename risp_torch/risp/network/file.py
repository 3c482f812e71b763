"""Files of networks: weights as safetensors, settings and origin as JSON in their header. Files are never unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from risp_torch.files.atomic import write_tensors
from risp_torch.risp.network.resnet import NetworkSettings, RispNetwork
from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json
from ti_sim.base.rules import checked

SCHEMA = 1
_METADATA_KEY = "risp_network"


@checked
def save_network(path: Path | str, network: RispNetwork, record: Mapping[str, Any]) -> None:
    """Write a network.

    Args:
        path: file to write, ending in .safetensors.
        network: network, whose weights are written as float32.
        record: its origin, as JSON values: "scene", "task" (``RispTask.to_json``), "training".

    Raises:
        UserError: the file cannot be written.
    """
    content = {"schema": SCHEMA, "network": asdict(network.settings), **record}
    weights = {name: w.detach().float().cpu().clone().contiguous() for name, w in network.state_dict().items()}
    write_tensors(path, weights, {_METADATA_KEY: json.dumps(content)})


def check_device(device: torch.device | str) -> None:
    """Raise a UserError for a device on which torch can make no tensors."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"device {str(device)!r} cannot be used ({reason}): give 'cpu', or 'cuda' where there is a GPU") from None


@checked
def load_network(path: Path | str, *, device: torch.device | str = "cpu") -> tuple[RispNetwork, dict[str, Any]]:
    """Load a network with frozen weights.

    Args:
        path: file written by ``save_network``.
        device: device of the network.

    Returns:
        The network, and its record with "network", "scene", "task" and "training".

    Raises:
        UserError: there is no such device; the file does not exist or has no network of this schema, or the weights do not fit
            the settings.
    """
    from safetensors import SafetensorError, safe_open

    check_device(device)
    path = Path(path)
    if not path.is_file():
        raise UserError(f"the network {path} does not exist: give the network.safetensors that 'risp train' has written")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            content = parse_json((file.metadata() or {}).get(_METADATA_KEY, "null"))
            weights = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is not a network ({error}): give the network.safetensors of a training run") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UserError(f"{path} holds no RISP network of schema {SCHEMA}: give the network.safetensors of a training run")
    try:
        network = RispNetwork(NetworkSettings(**content["network"]))
        network.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError, UserError) as error:
        raise UserError(f"the weights in {path} do not fit its settings: the file is damaged, train the network again") from error
    network.eval().requires_grad_(False)
    return network.to(device), content


@checked
def check_network(
    network: RispNetwork, record: Mapping[str, Any], *, scene: str, outputs: int, size: int, path: str = ""
) -> None:
    """Raise a UserError unless a network fits this scene's head and picture size.

    Args:
        network, record: result of ``load_network``.
        scene: name of the scene.
        outputs: S of its state head.
        size: side of the pictures [pixels].
        path: name of the network in errors.
    """
    label = f"the network {path}".strip()
    if network.settings.outputs != outputs:
        network_outputs = network.settings.outputs
        raise UserError(
            f"{label} has {network_outputs} outputs and the state head of {scene} has {outputs}: train one for this scene"
        )
    if record.get("scene") != scene:
        raise UserError(f"{label} was trained for the scene {record.get('scene')!r}, not {scene!r}: give a network of this scene")
    if network.settings.size != size:
        network_size = network.settings.size
        raise UserError(
            f"{label} takes images of {network_size} x {network_size} pixels, not {size} x {size}: use --size {network_size}"
        )
