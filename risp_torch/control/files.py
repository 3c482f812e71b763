"""Files of policies: weights as safetensors with their origin as JSON in the header. Files are never unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.nn import Module

from risp_torch.files.atomic import write_tensors
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

_METADATA_KEY = "risp_policy"


@checked
def save_policy(path: Path | str, policy: Module, record: Mapping[str, Any]) -> None:
    """Write the weights of a policy.

    Args:
        path: file to write, ending in .safetensors.
        policy: whose weights are written, in their precision.
        record: its origin, as JSON values.

    Raises:
        UserError: the file cannot be written.
    """
    weights = {name: value.detach().cpu().clone().contiguous() for name, value in policy.state_dict().items()}
    write_tensors(path, weights, {_METADATA_KEY: json.dumps(dict(record))})


@checked
def load_policy(path: Path | str, policy: Module) -> None:
    """Load the weights of a policy.

    Args:
        path: file written by ``save_policy``.
        policy: policy with the same shapes, such as a new one of the task; it is changed in place.

    Raises:
        UserError: the file does not exist, has no policy, or one with other shapes.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise UserError(f"the policy {path} does not exist: give the policy.safetensors that 'risp control' has written")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            if _METADATA_KEY not in (file.metadata() or {}):
                raise UserError(f"{path} holds no policy: give the policy.safetensors of a run of control")
            weights = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a policy ({error}): give the policy.safetensors of a run of control") from error
    policy_shapes = {name: tuple(value.shape) for name, value in policy.state_dict().items()}
    file_shapes = {name: tuple(value.shape) for name, value in weights.items()}
    if policy_shapes != file_shapes:
        raise UserError(f"the policy in {path} has weights {file_shapes}, but {policy_shapes} are needed: give one of this scene")
    policy.load_state_dict(weights)
