"""The renderer of a scene: one class for each representation."""

from __future__ import annotations

from risp_torch.scene.spec import ALL_PARTS, SceneSpec
from risp_torch.scene.view.smoke import SmokeView
from risp_torch.scene.view.view import RENDERED_PARTS, View

_RENDERERS = (SmokeView, View)  # the first one that renders a scene is used


def current_view(view: View | None, spec: SceneSpec) -> View:
    """The view of the current scene, with the meshes of the existing view if they are the same.

    Args:
        view: existing view, or None.
        spec: spec of the scene; a snapshot of it is kept.
    """
    if view is not None and spec.same_parts(view.spec, *ALL_PARTS):
        return view
    spec = spec.snapshot()
    if view is not None and spec.same_parts(view.spec, *RENDERED_PARTS):
        return view.with_spec(spec)
    return next(renderer for cls in _RENDERERS if (renderer := cls.of(spec)) is not None)
