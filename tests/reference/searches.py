"""Films to explain, and inversions of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields

import pytest
import torch

from risp_torch import Inversion, Scene, SearchStages, film, invert
from risp_torch.files import report
from risp_torch.inversion.diagnostics.misspecification import Diagnosis
from risp_torch.inversion.report import write_report
from risp_torch.inversion.run import assessment


def pictures(scene: Scene, values: Mapping[str, torch.Tensor] | None = None) -> torch.Tensor:
    """The film [T, H, W, 3] of a scene."""
    with torch.no_grad():
        return film(scene, values or {}, worlds=1, frames=scene.frames)[0][0]


def quick(scene: Scene, target: object, names: Sequence[str], **options: object) -> Inversion:
    """An inversion that prints nothing; ``options`` are those of ``invert``, and fields of ``SearchStages``."""
    stages = {name: options.pop(name) for name in [field.name for field in fields(SearchStages)] if name in options}
    return invert(scene, target, names, search=SearchStages(**stages), progress=False, **options)


@contextmanager
def without_diagnosis() -> Iterator[None]:
    """Results without tests of the scene's known numbers, for tests of the search: they take longer than a small search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assessment, "diagnose", lambda *_, **__: Diagnosis())
        yield


@contextmanager
def without_plots() -> Iterator[None]:
    """Run folders without curves of the search and of error bars, for tests of other things: they take as long as a small
    search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_report, "_plot_search", lambda *_: None)
        patch.setattr(report, "plot_error_bars", lambda *_, **__: None)
        yield
