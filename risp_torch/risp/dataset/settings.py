"""What decides the pictures of a dataset besides the scene."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Seed, checked

EACH = "each"
_STATES, _OWN_APPEARANCE, _SHARED_APPEARANCE = 0, 1, 2  # what a random generator draws


@checked
@dataclass(frozen=True)
class DatasetSettings:
    """How many pictures, of how many appearances, how large, and the seed of all draws.

    Picture i is drawn from (seed, i) alone: neither the number of pictures nor the shards change it.

    Attributes:
        images: number of pictures.
        configs: "each" for an appearance of its own for every picture, or the number N of appearances as text: picture i then
            has appearance i modulo N ("1" and "10" are the ablations of the RISP paper).
        seed: of states and appearances.
        size: side of the square pictures [pixels].
        shard_images: pictures in one file.
    """

    images: Count
    configs: str = EACH
    seed: Seed = 0
    size: Count = 64
    shard_images: Count = 128

    def __post_init__(self) -> None:
        number = self.configs.isascii() and self.configs.isdecimal() and int(self.configs) > 0
        if self.configs != EACH and not number:
            raise UserError(f"the dataset's configs are {self.configs!r}: give a number of appearances such as 10, or each")

    @property
    def record(self) -> dict[str, Any]:
        """What decides the pictures, and not how they are stored, in values that JSON can hold."""
        return {name: value for name, value in asdict(self).items() if name != "shard_images"}

    @property
    def shards(self) -> int:
        """Number of files."""
        return -(-self.images // self.shard_images)

    def indices(self, shard: int) -> range:
        """Numbers of the pictures in a file."""
        return range(shard * self.shard_images, min((shard + 1) * self.shard_images, self.images))

    def state_generator(self, index: int) -> np.random.Generator:
        """The generator that draws the state of a picture."""
        return np.random.default_rng([self.seed, _STATES, index])

    def appearance(self, index: int, size: int) -> np.ndarray:
        """psi of a picture: [size] float32, uniform in [-1, 1]."""
        key = (_OWN_APPEARANCE, index) if self.configs == EACH else (_SHARED_APPEARANCE, index % int(self.configs))
        return np.random.default_rng([self.seed, *key]).uniform(-1.0, 1.0, size).astype(np.float32)
