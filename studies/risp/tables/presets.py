"""Settings of the tables, and three presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Literal

from risp_torch.programs import unknown_name_error
from ti_sim import Count, FromZero, NotNegative, Rule, Seed, checked

Points = Annotated[int, Rule(integer=True, minimum=2, maximum=2**31 - 1)]


@checked
@dataclass(frozen=True, kw_only=True)
class TablePreset:
    """Sizes of all parts of the tables.

    Attributes:
        name: name of the preset.
        size: side of all pictures [pixels].
        images: training pictures of a scene.
        scene_images: name of a scene -> its number of training pictures in place of ``images``.
        configs: appearances of the training pictures, see ``DatasetSettings``.
        training: preset of the trainings.
        changes: settings of the trainings in place of that preset's.
        test_states, test_appearances: of the test sets; every appearance shows all states.
        renderers: of the test sets, the one that the table shows first.
        target: renderer of the films that are inverted.
        samples: light paths per pixel of a path-traced film.
        trial: settings of the inversions in place of the default ones (``TrialSettings``).
        paper_search: repeats of the full method that are repeated with the paper's own optimiser.
        curve_images, curve_epochs, curve_width, curve_states, curve_appearances: training pictures, epochs and width of the
            networks whose training curves are compared, and states and held-out appearances of the test pictures of these curves.
        curve_gamma: weight of the gradient loss of these networks, whose few pictures tolerate more of it than those of the
            scenes.
        points: of a loss landscape.
        seed: seed of all random samples.
    """

    name: str
    size: Count = 64
    images: Count = 4000
    scene_images: Annotated[Mapping[str, int], Rule(named=True, integer=True, minimum=1)] = field(default_factory=dict)
    configs: str = "10"
    training: str = "quick"
    changes: Mapping[str, Any] = field(default_factory=dict)
    test_states: Count = 200
    test_appearances: Count = 4
    renderers: tuple[str, ...] = ("mitsuba", "soft")
    target: Literal["mitsuba", "rasteriser"] = "mitsuba"
    samples: Count = 64
    trial: Mapping[str, Any] = field(default_factory=dict)
    paper_search: FromZero = 4
    curve_images: Count = 2000
    curve_epochs: Count = 15
    curve_width: Count = 16
    curve_states: Count = 200
    curve_appearances: Count = 10
    curve_gamma: NotNegative = 0.1
    points: Points = 41
    seed: Seed = 0

    def images_of(self, scene: str) -> int:
        """Training pictures of a scene."""
        return self.scene_images.get(scene, self.images)

    def to_json(self) -> dict[str, Any]:
        """The preset as JSON values."""
        return asdict(self)

    def deciding(self) -> dict[str, Any]:
        """Settings that determine the numbers in cells, not the number of cells."""
        return {name: value for name, value in self.to_json().items() if name != "paper_search"}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> TablePreset:
        """The preset from the result of ``to_json``."""
        field_names = {item.name for item in fields(TablePreset)}
        return TablePreset(**{name: tuple(v) if name == "renderers" else v for name, v in record.items() if name in field_names})


PRESETS = {
    # Hours on two CPU cores.
    "quick": TablePreset(
        name="quick", images=10_000, scene_images={"hand": 12_000, "rod": 6000}, changes={"epochs": 15}, points=61,
    ),
    # Settings of the paper as far as published; number and size of its pictures are not.
    "paper": TablePreset(
        name="paper", size=128, images=10_000, training="paper", samples=256, curve_images=10_000,
        curve_epochs=100, curve_width=64, curve_gamma=1.0, points=61,
    ),
    # Minutes, to test that everything runs; its numbers are meaningless.
    "tiny": TablePreset(
        name="tiny", images=48, changes={"epochs": 1, "width": 2}, test_states=4, test_appearances=2, renderers=("soft",),
        target="rasteriser", samples=4, trial={"iterations": 3, "refine": 0}, paper_search=0, curve_images=48, curve_epochs=1,
        curve_width=2, curve_states=2, curve_appearances=2, points=3,
    ),
}  # fmt: skip

Points = Annotated[int, Rule(integer=True, minimum=2, maximum=2**31 - 1)]


@checked
def table_preset(name: str, *, seed: Seed = 0) -> TablePreset:
    """A preset with a seed.

    Raises:
        UserError: the preset is unknown, or the seed is negative.
    """
    if name not in PRESETS:
        raise unknown_name_error("preset", name, list(PRESETS))
    return replace(PRESETS[name], seed=seed)
