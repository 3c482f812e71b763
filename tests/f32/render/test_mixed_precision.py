"""Scenes under ``torch.autocast``: the same pictures and gradients as without it."""

import pytest
import torch

from risp_torch import load_scene
from risp_torch.scene.bridge import bridge_device


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("name", "parameter"), [("toss", "body.density"), ("pendulum", "pendulum.length"), ("springs", "net.rotation")]
)
def test_pictures_and_gradients_are_those_of_the_working_precision(name: str, parameter: str, dtype: torch.dtype) -> None:
    scene = load_scene(name)
    scene.resize_camera(24, 24)

    def run(lower: bool) -> tuple[torch.Tensor, torch.Tensor]:
        value = torch.as_tensor(scene.parameters[parameter].value, dtype=torch.float32).requires_grad_()
        with torch.autocast(bridge_device().type, dtype=dtype, enabled=lower):
            pictures = scene.render(scene.rollout({parameter: value}, frames=3), {parameter: value})
            ((pictures - 0.5) ** 2).mean().backward()
        return pictures.detach(), value.grad

    (pictures, gradient), (again, gradient_again) = run(False), run(True)
    assert again.dtype == torch.float32 and gradient_again.dtype == torch.float32
    assert (again == pictures).all()
    torch.testing.assert_close(gradient_again, gradient, rtol=1e-4, atol=1e-6 * float(gradient.abs().max()))
