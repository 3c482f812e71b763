"""Checks of tensors before they are passed to kernels."""

from __future__ import annotations

import torch

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.base.runtime import require


@checked
def bridge_dtype() -> torch.dtype:
    """The torch type of the runtime's working precision."""
    return torch.float64 if require().precision == "f64" else torch.float32


def bridge_device() -> torch.device:
    """The torch device of the kernels' tensors: "cuda", or "cpu", also on Vulkan, which copies host tensors for each launch."""
    return torch.device("cuda" if require().device == "cuda" else "cpu")


def kernel_tensor(tensor: torch.Tensor, name: str, *, double: bool = False) -> torch.Tensor:
    """The tensor, detached and contiguous, for a kernel.

    Args:
        tensor: real input of a bridge function.
        name: its name in error messages.
        double: whether it has double precision, whatever the runtime's.

    Raises:
        UserError: the tensor has another device or precision than the runtime.
    """
    precision = torch.float64 if double else bridge_dtype()
    if tensor.device.type != bridge_device().type:
        raise UserError(
            f"{name} is on {tensor.device} and the kernels run on {bridge_device()}: "
            f"move it with .to({bridge_device().type!r}), or start the runtime on that device"
        )
    if tensor.dtype != precision:
        remedy = "" if double else ", or start the runtime in its precision"
        raise UserError(f"{name} is {tensor.dtype} and the kernels work in {precision}: convert it with .to({precision}){remedy}")
    return tensor.detach().contiguous()


def check_worlds(tensor: torch.Tensor, name: str) -> None:
    """Raise a UserError for a tensor of no worlds, or of a batch of ``torch.func.vmap``: worlds are the first axis of tensors."""
    layer = tensor
    while torch._C._functorch.is_functorch_wrapped_tensor(layer):
        if torch._C._functorch.is_batchedtensor(layer):
            raise UserError(
                f"{name} is batched by torch.func.vmap: scenes run batches themselves, so pass all rows in one call, as worlds "
                "along the first axis"
            )
        layer = torch._C._functorch.get_unwrapped(layer)
    if tensor.numel() == 0:
        raise UserError(f"{name} has shape {tuple(tensor.shape)}, and at least one world is needed")


def kernel_gradient(gradient: torch.Tensor | None, shape: torch.Size, like: torch.Tensor) -> torch.Tensor:
    """An upstream gradient for a kernel, which does not modify it: contiguous; zeros for None."""
    if gradient is None:
        return like.new_zeros(shape)
    return gradient.detach().to(like.dtype).contiguous()
