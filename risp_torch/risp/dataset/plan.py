"""Plan of a dataset, saved in its folder: all data to check whether it belongs to a scene and to resume it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from risp_torch.files.run_folder import first_setting_difference, to_jsonable
from risp_torch.risp.dataset.settings import DatasetSettings
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import require

if TYPE_CHECKING:
    from pathlib import Path

    from risp_torch.risp.task import RispTask
    from risp_torch.scene.scene import Scene

SCHEMA = 1
KIND = "dataset"
_BYTES_PER_PIXEL = {"images": 3 * 4, "jacobian": 3 * 2}  # bytes: single precision, and half precision for each column


@dataclass(frozen=True)
class Plan:
    """All data that determine the bytes of a dataset, as JSON values.

    Attributes:
        scene: name of the scene or path of its file.
        description: description of the scene (``Scene.description``).
        head: the state head.
        training: the training domain.
        labels: K names of the entries of psi.
        outputs: S names of the state head's outputs.
        precision: precision of rendering, "f32" or "f64".
        settings: settings of the dataset.
    """

    scene: str
    description: dict[str, Any]
    head: dict[str, Any]
    training: dict[str, Any]
    labels: list[str]
    outputs: list[str]
    precision: str
    settings: DatasetSettings

    @staticmethod
    def of(scene: Scene, task: RispTask, settings: DatasetSettings, *, name: str = "") -> Plan:
        """The plan of a dataset of a scene; ``name`` is the scene's name on the command line."""
        return Plan(
            scene=name or scene.name,
            description=to_jsonable(scene.description()),
            head=to_jsonable(task.head.to_json()),
            training=to_jsonable(task.domains.training.to_json()),
            labels=list(task.domains.training.parameters.labels),
            outputs=list(task.head.labels),
            precision=require().precision,
            settings=settings,
        )

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Plan:
        """The plan from the result of ``to_json``.

        Raises:
            KeyError, TypeError, ValueError, UserError: the data are invalid.
        """
        if data["kind"] != KIND or data["schema"] != SCHEMA:
            raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
        task = data["task"]
        return Plan(
            scene=data["scene"], description=data["description"], head=task["head"], training=task["domains"]["training"],
            labels=data["labels"], outputs=data["outputs"], precision=data["precision"],
            settings=DatasetSettings(**data["settings"]),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "schema": SCHEMA,
            "kind": KIND,
            "scene": self.scene,
            "settings": asdict(self.settings),
            "precision": self.precision,
            "task": {"head": self.head, "domains": {"training": self.training}},
            "labels": self.labels,
            "outputs": self.outputs,
            "description_sha256": _digest(self.description),
            "description": self.description,
        }

    @property
    def digest(self) -> str:
        """Checksum of the plan, stored in every shard."""
        return _digest(self.to_json())

    @property
    def files(self) -> list[str]:
        """Names of the shards."""
        return [f"shard-{shard:05d}.safetensors" for shard in range(self.settings.shards)]

    @property
    def image_bytes(self) -> int:
        """Size of one picture with its derivatives, state and appearance [bytes]."""
        pixels = self.settings.size**2 * (_BYTES_PER_PIXEL["images"] + len(self.labels) * _BYTES_PER_PIXEL["jacobian"])
        return pixels + 4 * (len(self.labels) + len(self.outputs) + math.prod(self._placement))

    @property
    def _placement(self) -> tuple[int, ...]:
        """Shape of one state (``Scene.poses``)."""
        return tuple(self.description.get("placement", (len(self.description["bodies"]), 7)))

    def shapes(self, shard: int) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type (as safetensors calls it) and shape of every tensor of a shard, by name."""
        count, side = len(self.settings.indices(shard)), self.settings.size
        return {
            "images": ("F32", (count, side, side, 3)),
            "jacobian": ("F16", (count, len(self.labels), side, side, 3)),
            "outputs": ("F32", (count, len(self.outputs))),
            "psi": ("F32", (count, len(self.labels))),
            "states": ("F32", (count, *self._placement)),
        }

    def command(self, folder: Path) -> str:
        """The command that generates the dataset, or resumes it."""
        settings = self.settings
        return (
            f"risp dataset {self.scene} --images {settings.images} --configs {settings.configs} --seed {settings.seed} "
            f"--size {settings.size} --shard-images {settings.shard_images} --out {folder}"
        )

    def check_scene(self, folder: Path, scene: Scene) -> None:
        """Compare a scene with that of the pictures.

        Raises:
            UserError: name, picture size, or another property differs; the message names the first difference.
        """
        scene_description, size = to_jsonable(scene.description()), self.settings.size
        if scene_description["name"] != self.description["name"]:
            raise UserError(
                f"the dataset in {folder} shows the scene {self.description['name']}, not {scene_description['name']}: "
                f"take another folder, or make one with 'risp dataset {scene_description['name']}'"
            )
        camera = scene.camera
        if camera is not None and (camera.width, camera.height) != (size, size):
            raise UserError(
                f"the pictures in {folder} have {size} x {size} pixels and the scene's have {camera.width} x {camera.height}: "
                f"take --size {size}, or make another dataset"
            )
        difference = first_setting_difference(self.description, scene_description)
        if difference is not None:
            raise UserError(
                f"the dataset in {folder} shows {self.scene} as it was before ({difference}): "
                "undo the change, or make another dataset"
            )

    def check_task(self, folder: Path, task: RispTask) -> None:
        """Compare the training domain and the state head of a task with those of the pictures.

        Raises:
            UserError: they differ; the message names the first difference.
        """
        stored_labels, task_labels = (tuple(labels) for labels in (self.labels, task.domains.training.parameters.labels))
        if stored_labels != task_labels:
            raise UserError(
                f"psi of the dataset in {folder} has {_first_label(stored_labels, task_labels)}: take the psi that it was made "
                "with, or make another dataset"
            )
        for name, stored_value, task_value in (
            ("psi", self.training, to_jsonable(task.domains.training.to_json())),
            ("the state head", self.head, to_jsonable(task.head.to_json())),
        ):
            difference = first_setting_difference(stored_value, task_value)
            if difference is not None:
                raise UserError(
                    f"{name} of the dataset in {folder} is another one ({difference}): undo the change, or make another dataset"
                )


def _first_label(stored_labels: tuple[str, ...], task_labels: tuple[str, ...]) -> str:
    """The first difference of two lists of labels, in words."""
    for number, (stored, required) in enumerate(zip(stored_labels, task_labels, strict=False)):
        if stored != required:
            return f"{stored} as entry {number} where the scene's has {required}"
    return f"{len(stored_labels)} entries where the scene's has {len(task_labels)}"


def _digest(data: Any) -> str:
    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
