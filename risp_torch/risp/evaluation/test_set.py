"""Test sets: pictures of held-out states in held-out appearances, of either renderer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.files.run_folder import RunFolder, first_setting_difference, to_jsonable
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Seed, checked

if TYPE_CHECKING:
    from risp_torch.risp.task import RispTask
    from risp_torch.scene.scene import Scene

Renderer = Literal["soft", "mitsuba"]

SCHEMA = 1
_STREAM = 77  # random stream: states and appearances differ from those of training with the same seed
_APPEARANCES = 1  # substream of the appearances
# Entries of a scene's description that only affect motions.
_MOTION_ENTRIES = ("frame_dt", "frames", "substeps", "adaptive", "integrator", "forces", "rotors", "max_distance", "loads")
_CHUNK_SIZE = 50  # pictures per call of the rasteriser
_LINEAR_OF_LEVEL = srgb_to_linear(np.arange(256) / 255.0).astype(np.float32)


@checked
@dataclass(frozen=True, kw_only=True)
class TestSettings:
    """Size and origin of a test set. RISP (ICLR 2022, section 4.2) has 4 appearances of 200 states.

    Attributes:
        renderer: "soft", the rasteriser in random appearances of the training domain, or "mitsuba", the path tracer in those
            of the target domain.
        appearances: number of appearances; each shows all states.
        states: number of states.
        seed: seed of states and appearances, not negative.

    Raises:
        UserError: a setting is out of its range.
    """

    renderer: Renderer = "soft"
    appearances: Count = 4
    states: Count = 200
    seed: Seed = 0


@dataclass(frozen=True, eq=False)
class TestSet:
    """Pictures with their states, ordered by appearance, then by state; every appearance shows the same states.

    Attributes:
        renderer: "soft" or "mitsuba".
        levels: [n, H, W, 3] uint8 sRGB, as in video files.
        outputs: [n, S] float32, the state head's normalised outputs.
        appearance: [n] index of the appearance.
    """

    renderer: str
    levels: np.ndarray
    outputs: torch.Tensor
    appearance: np.ndarray

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.levels)

    @property
    def images(self) -> torch.Tensor:
        """[n, H, W, 3] float32, linear rgb in [0, 1]."""
        return torch.from_numpy(_LINEAR_OF_LEVEL[self.levels])


@checked
def make_test_set(
    scene: Scene, task: RispTask, settings: TestSettings, *, cache: Path | str | None = None, progress: bool = True
) -> TestSet:
    """Render a test set, or load it from the cache.

    Args:
        scene: scene with a camera of the networks' picture size.
        task: RISP task of the scene.
        settings: settings of the test set.
        cache: folder of cached test sets, each in a subfolder named by scene, renderer and settings; a killed
            run is resumed at the first missing appearance. None for no cache.
        progress: whether to show a progress bar.

    Raises:
        UserError: the cache has another or a damaged test set with this name, Mitsuba is not installed, or as
            ``Scene.render``.
    """
    folder, levels = None, []
    body_q = sampled_states(scene, task, settings.states, np.random.default_rng([settings.seed, _STREAM]))
    if cache is not None:
        record = to_jsonable(_record(scene, task, settings, body_q))
        digest = sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]
        folder = RunFolder.open_or_create(Path(cache) / f"{scene.name}-{settings.renderer}-{digest}", record)
        levels = _saved_pictures(folder, scene, settings)
    with _progress_bar(settings, done=len(levels), progress=progress) as progress_bar:
        for index in range(len(levels), settings.appearances):
            pictures = []
            for batch in _rendered(scene, task, settings, index, body_q):
                pictures.append(np.round(255 * linear_to_srgb(np.clip(batch, 0.0, 1.0))).astype(np.uint8))
                progress_bar.update(len(batch))
            levels.append(np.concatenate(pictures))
            if folder is not None:
                folder.save_checkpoint({"levels": torch.from_numpy(np.stack(levels))}, {"settings": folder.settings})
    outputs = task.head.outputs(scene, body_q).float().cpu()
    appearance_index = np.repeat(np.arange(settings.appearances), settings.states)
    return TestSet(settings.renderer, np.concatenate(levels), outputs.repeat(settings.appearances, 1), appearance_index)


def sampled_states(scene: Scene, task: RispTask, count: int, random: np.random.Generator) -> torch.Tensor:
    """Poses [count, N, 7] of the training distribution (m, unit quaternions)."""
    return torch.stack([task.head.sample(scene, random) for _ in range(count)])


def _rendered(scene: Scene, task: RispTask, settings: TestSettings, index: int, body_q: torch.Tensor) -> Iterator[np.ndarray]:
    """Linear pictures [k, H, W, 3] of all states in one appearance, in chunks."""
    seed = int(np.random.SeedSequence([settings.seed, _STREAM, _APPEARANCES, index]).generate_state(1)[0])
    if settings.renderer == "mitsuba":
        film = task.domains.target.film(scene, body_q[None], seed=seed)
        for image in range(len(film)):
            yield film.picture(image, masks=False).color[None]
        return
    domain = task.domains.training
    values = domain.parameters.values(domain.appearances(1, seed=seed))
    with torch.no_grad():
        for poses in body_q.split(_CHUNK_SIZE):
            yield scene.render(poses[None], values)[0].cpu().numpy()


def _record(scene: Scene, task: RispTask, settings: TestSettings, body_q: torch.Tensor) -> dict[str, Any]:
    """All data that determine the pictures, without data that only affect motions."""
    appearance = {key: value for key, value in scene.description().items() if key not in _MOTION_ENTRIES}
    softness = "softness." if settings.renderer == "mitsuba" else None  # the path tracer has sharp edges
    appearance["parameters"] = {
        name: appearance["parameters"][name]
        for name in scene.view.picture_parameters
        if not (softness and name.startswith(softness))
    }
    domain = task.domains.target if settings.renderer == "mitsuba" else task.domains.training
    return {
        "schema": SCHEMA, "test_set": asdict(settings), "domain": domain.to_json(), "scene": appearance,
        "poses_sha256": sha256(body_q.double().cpu().numpy().tobytes()).hexdigest(),
    }  # fmt: skip


def _saved_pictures(folder: RunFolder, scene: Scene, settings: TestSettings) -> list[np.ndarray]:
    """Pictures [states, H, W, 3] of the appearances in a folder."""
    saved = folder.load_checkpoint()
    if saved is None:
        return []
    tensors, metadata = saved
    difference = first_setting_difference(metadata.get("settings"), folder.settings)
    if difference is not None:
        raise UserError(f"{folder.path} holds pictures of another test set ({difference}): remove the folder")
    levels = tensors.get("levels", torch.zeros(0))
    images_shape = (settings.states, scene.camera.height, scene.camera.width, 3)
    if levels.dtype != torch.uint8 or tuple(levels.shape[1:]) != images_shape or len(levels) > settings.appearances:
        raise UserError(
            f"{folder.path} holds pictures of shape {tuple(levels.shape)}, not {images_shape} for each appearance: remove it"
        )
    return list(levels.numpy())


def _progress_bar(settings: TestSettings, *, done: int, progress: bool) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=settings.appearances * settings.states, initial=done * settings.states, unit="picture",
        desc=f"test set, {settings.renderer}", disable=not progress or done == settings.appearances,
    )  # fmt: skip
