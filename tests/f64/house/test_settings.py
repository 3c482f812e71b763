"""Every number of every settings class, and of the functions that users call, has a rule; found by introspection, no kernels run.

The authoring surface has a test of its own (``test_arguments.py``).
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import risp_torch
import ti_render
import ti_sim
from risp_torch import OptimiseSettings, Scene, SmoothnessPrior, WideSteps, invert
from risp_torch.control import ControlTask, DirectPolicy, FeedbackPolicy, SinePolicy
from risp_torch.inversion import Unknowns
from risp_torch.scene.rendering_parameters import RenderingParameters
from tests.reference.malformed import check_refused, numbers_of
from ti_sim import UserError
from ti_sim.base.bundles import is_bundle
from ti_sim.base.rules import arguments_of

# Results, records of files, and what the library itself puts together: users give none of their numbers.
NO_SETTINGS = {
    "Acceptance", "ActuationRows", "Appearance", "AppliedForce", "ArticulatedRollout", "Assessment", "BlockOrder",
    "CameraRecord", "Chunk",
    "CollisionShape", "ColorFit", "Comparison", "CompressedFilm", "ConjugateGradients", "Control", "CoupledModel",
    "CovarianceEstimate", "DataFile", "DataSet", "DataSource", "Deformable", "DeformableRollout", "Derived", "Diagnosis",
    "DistanceField", "Distribution", "Edges", "ElementRule", "Encoder", "Encoding", "ErrorBars", "ErrorRow", "Evaluation",
    "Factors", "Family", "FamilyScores", "Features", "FetchResult", "Film", "FilmErrors", "FilmFacts", "FilmGradient",
    "FixedSteps", "FrameSteps", "Generated", "GradcheckEntry", "GradcheckReport", "Ground", "GrowingHorizon", "History",
    "ImplicitMotion", "Inversion",
    "Lattice", "Layer", "Linearisation", "Link", "LinkFrame", "Load", "Look", "MarquardtDamping", "MassProperties",
    "MeanDiagonalDamping", "MeasuredFilm", "MeshTopology", "Misspecification", "Moments", "MotionFit", "Motors",
    "NormalEquations", "Numbers", "Observability", "Palette", "Particles", "Pattern", "PictureArrays", "PictureOptions",
    "Placement", "PlannedLoss", "PlateFit", "Point", "Policy", "PolicySearchResult", "PoseNormalEquations", "Problem", "Ranks",
    "Reference",
    "RegionSchedule", "RelativeDampings", "ReplanResult", "Residual", "RigidRollout", "RisingDamping", "RobotDescription",
    "RobotJoint", "RobotLink", "RobotShape", "Rotors", "Rule", "SceneSpec", "ScoreTest", "SearchResult", "Secants",
    "SelfContact", "ShapeOnly", "Shard", "Sheet", "SmokeRollout", "Smoothness", "Stage", "StageResult", "Starts", "Stiffness",
    "Submesh", "SubtreeInertia", "Tangent", "Termination", "Tiles", "Track", "TrustRegion", "UnlitRenderInputs",
    "ValleySearch", "View", "Whitening",
}  # fmt: skip
NO_SETTINGS |= {"InverseReuse", "KeptInverse"}
# Its initialiser, and not its fields: ``test_arguments``.
NO_SETTINGS |= {"Scene"}
# Public functions that only the library calls with numbers, and those that read numbers of files or of models.
NOT_CALLED_BY_USERS = {
    "average_cells", "check_mass", "check_memory", "check_network", "colours_of", "inversion_result", "process_exists",
    "similar_names", "pack_camera", "plot_curves", "plot_landscape_1d", "plot_landscape_2d", "plot_parameters", "readable_bytes",
    "rgb_of_luma_chroma", "write_photoreal_frames",
}  # fmt: skip
# Their numbers are checked by what they are handed to, or are results.
NOT_CALLED_BY_USERS |= {
    "edge_stiffness", "estimate_rows", "forward_dynamics", "inverse_dynamics", "mesh_shape", "point_jacobian",
    "print_inversion",
}  # fmt: skip
# Arguments whose annotation speaks of numbers, and which hold functions, films or guesses.
READ_ELSEWHERE = {"policy", "goal", "make_policy", "loss_and_gradient", "loss", "target", "guess", "random", "work"}
# Tables of models, which are checked together.
READ_ELSEWHERE |= {"parts", "link_parent", "collision_pairs", "joint_coupling", "force_body", "force_steps"}
NUMBER = re.compile(r"\b(int|float)\b")
POLICIES = (SinePolicy, FeedbackPolicy, DirectPolicy)


def modules() -> Iterator[Any]:
    for root in (risp_torch, ti_sim, ti_render):
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def settings_classes() -> Iterator[tuple[str, type]]:
    for module in modules():
        for name, item in vars(module).items():
            own = getattr(item, "__module__", None) == module.__name__ and not name.startswith("_")
            own = own and not is_bundle(item)  # what kernels read
            if own and isinstance(item, type) and dataclasses.is_dataclass(item) and name not in NO_SETTINGS:
                yield name, item


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, policies, and the methods that users hand numbers to."""
    for module in modules():
        for name in getattr(module, "__all__", ()):
            if inspect.isfunction(getattr(module, name)) and name not in NOT_CALLED_BY_USERS:
                yield name, getattr(module, name)
    yield from ((policy.__name__, policy.__init__) for policy in POLICIES)
    yield from (("Unknowns.starts", Unknowns.starts), ("RenderingParameters.sample", RenderingParameters.sample))
    for solver in (ti_sim.RigidSolver, ti_sim.DeformableSolver):
        yield f"{solver.__name__}.rollout", solver.rollout


CLASSES, FUNCTIONS = dict(settings_classes()), dict(functions())
TARGETS = CLASSES | FUNCTIONS


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if numbers_of(target)])
def test_malformed_numbers_are_refused_by_name(name: str) -> None:
    target = TARGETS[name]
    for argument in numbers_of(target):
        check_refused(target, arguments_of(target), argument, instance=object())


@pytest.mark.parametrize("name", TARGETS)
def test_every_number_has_a_rule(name: str) -> None:
    """A new setting without a rule fails here, and so does a new class or function that is named nowhere above."""
    target = TARGETS[name]
    ruled = numbers_of(target)
    owners = target.__mro__ if isinstance(target, type) else [inspect.unwrap(target)]
    hints = {argument: hint for owner in reversed(owners) for argument, hint in inspect.get_annotations(owner).items()}
    for argument in inspect.signature(target).parameters:
        hint = str(hints.get(argument, ""))
        assert argument in ruled or argument in READ_ELSEWHERE or not NUMBER.search(hint), f"{name}: {argument} has no rule"


def test_the_walk_finds_them() -> None:
    found = sum(len(numbers_of(target)) for target in TARGETS.values())
    assert len(CLASSES) > 40 and found > 200
    for names in (NO_SETTINGS - {name for module in modules() for name in vars(module)}, set()):
        assert not names, f"named, and not there: {names}"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WideSteps(widths=(0.1, 0.6)), "WideSteps: widths is (0.1, 0.6): give finite numbers of shape (any,) above zero"),
        (lambda: OptimiseSettings(keep=((0.5, 2.5),)), "keep is 0.5:2.5: give shares of the iterations that rise"),
        (lambda: _task(learning_rate={"image": -1.0}), "learning_rate['image'] is -1.0: give a finite number above zero"),
        (lambda: invert(_scene(), None, ["a"], starts=10**12), "starts is 1000000000000: give a whole number of at least 1, at"),
        (lambda: SmoothnessPrior(0.0), "SmoothnessPrior: weight is 0.0: give a finite number above zero"),
    ],
)  # fmt: skip
def test_sentences(make: Callable[[], object], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        make()


def _task(**given: Any) -> ControlTask:
    return ControlTask(
        controlled_parameter="a", policy=lambda *_: None, goal=lambda *_: None, size=1.0, measure="center", **given
    )


def _scene() -> Scene:
    return Scene(frame_dt=0.1, frames=1, substeps=1)
