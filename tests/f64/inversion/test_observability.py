"""Identifiability: error bars by a whitened Jacobian, null directions by name, priors, correlated errors."""

import numpy as np
import pytest
import torch

from risp_torch.inversion import Unknowns
from risp_torch.inversion.diagnostics.observability import Observability, observed
from risp_torch.inversion.problem.linearisation import linearise
from risp_torch.inversion.problem.priors import Prior, Priors
from tests.reference.linear_films import FRAMES, SIDE, LinearLoss, LinearScene, block_errors, compared
from ti_sim import Param

NOISE = 0.05
RANDOM = np.random.default_rng(4)
A, C = (torch.as_tensor(RANDOM.normal(size=(FRAMES, SIDE))) for _ in range(2))


def seen(
    columns: dict[str, torch.Tensor], *, sd: dict[str, float] | None = None, errors: np.ndarray | None = None
) -> Observability:
    """Observability of numbers between -2 and 2 (d between 0.1 and 10, logarithmic)."""
    d = Param(1.0, low=0.1, high=10.0, scale="log10")
    params = {name: d if name == "d" else Param(0.5, low=-2, high=2) for name in columns}
    priors = Priors.of(params, {name: Prior(np.array(0.5), np.array(size)) for name, size in (sd or {}).items()})
    unknowns, values = Unknowns(params, priors=priors), np.array([param.value for param in params.values()])
    target = sum(param.value * columns[name] for name, param in params.items())
    at = linearise(LinearScene(), compared(LinearLoss(columns, target)), unknowns, values)
    given = torch.zeros(FRAMES * SIDE, dtype=torch.float64) if errors is None else torch.as_tensor(errors).flatten()
    return observed(at, unknowns, values, NOISE, given)


def test_error_bars_are_those_of_least_squares() -> None:
    found = seen({"a": A, "c": C, "d": A + 0.2 * C})
    stack = torch.stack([A.flatten(), C.flatten(), np.log(10) * (A + 0.2 * C).flatten()], dim=1).cpu().numpy()
    stack = stack[:, :2]  # a, c and d are three columns in a plane
    two = seen({"a": A, "c": C})
    np.testing.assert_allclose(two.bars.sd, NOISE * np.sqrt(np.diag(np.linalg.inv(stack.T @ stack))), rtol=1e-6)
    np.testing.assert_allclose(two.alone, NOISE / np.linalg.norm(stack, axis=0), rtol=1e-6)
    np.testing.assert_allclose(two.singular, 4 * np.linalg.svd(stack, compute_uv=False) / NOISE, rtol=1e-6)
    assert two.bars.observable == [True, True] and two.strong_pairs == []
    assert two.verdict().startswith("the film identifies all 2 unknowns, ") and "errors of 0.05 in a pixel" in two.verdict()
    assert found.singular[-1] < 1e-4 * found.singular[0] and not any(found.bars.observable)
    assert "a, d only in combination" in found.bars.unobservable[0]
    assert found.verdict().startswith("the film does not identify a, c, d (errors of")


def test_a_number_without_effect_is_named_and_others_stay() -> None:
    found = seen({"a": A, "d": 0 * A})
    assert found.bars.observable == [True, False] and np.isinf(found.alone[1])
    assert found.bars.unobservable == ["d leaves no trace in the film at this estimate (error bar above 10 times its range)"]
    assert found.verdict() == (
        "the film does not identify d (errors of 0.05 in a pixel, to first order); of the others a to "
        f"{found.size(0, found.bars.sd[0])} at worst"
    )
    rows = found.to_json()["unknowns"]
    assert rows["d"]["observable"] is False and rows["a"]["share"] == pytest.approx(found.bars.sd[0] / 4)


def test_what_goes_together_is_a_pair() -> None:
    ((first, second, size),) = seen({"a": A, "c": A + 0.1 * C}).strong_pairs
    assert (first, second) == ("a", "c") and size == pytest.approx(-0.995, abs=2e-3)


def test_a_prior_counts_and_is_said() -> None:
    found = seen({"a": A, "c": A}, sd={"c": 0.3})
    np.testing.assert_allclose(found.bars.sd, 0.3, rtol=1e-3)
    assert found.bars.observable == [True, True] and found.bars.unobservable == ["c is known from its prior only (± 0.3)"]
    assert found.alone[1] < 0.01
    faint = seen({"a": A, "c": 0.01 * C}, sd={"c": 0.3})  # of a number that is known alone, its own prior counts, too
    assert faint.alone[1] == pytest.approx((0.3**-2 + float((0.01 * C).square().sum()) / NOISE**2) ** -0.5)


def test_bars_are_taken_apart_into_noise_and_other_unknowns() -> None:
    found = seen({"a": A, "c": A + 0.1 * C})
    parts = found.bars.components
    np.testing.assert_allclose(parts["noise"], found.alone, rtol=1e-4)
    assert (parts["other unknowns"] > 5 * parts["noise"]).all() and not parts["look"].any()
    np.testing.assert_allclose(np.sqrt(sum(size**2 for size in parts.values())), found.bars.sd, rtol=1e-9)


def test_errors_of_a_block_count_more_than_noise_of_the_same_size() -> None:
    smooth = torch.as_tensor(block_errors(np.random.default_rng(2)))
    errors = 0.05 * block_errors(np.random.default_rng(3))
    # No shift of the estimate.
    errors -= smooth.cpu().numpy() * float((torch.as_tensor(errors) * smooth).sum() / (smooth**2).sum())
    noise, blocks = seen({"a": smooth}), seen({"a": smooth}, errors=errors)
    assert blocks.bars.sd[0] > 2 * noise.bars.sd[0] and blocks.noise == pytest.approx(np.hypot(0.05, errors.std()), rel=0.02)
    shifted = seen({"a": smooth}, errors=0.2 * smooth.cpu().numpy())
    assert shifted.bars.sd[0] > 0.2
