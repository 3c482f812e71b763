"""Settings of a dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Seed, checked

EACH = "each"
_STATES, _OWN_APPEARANCE, _SHARED_APPEARANCE = 0, 1, 2  # streams of the random generators


@checked
@dataclass(frozen=True)
class DatasetSettings:
    """Number of pictures, number of appearances, size, and seed of all samples.

    Picture i depends only on (seed, i), not on the number of pictures or the shards.

    Attributes:
        images: number of pictures.
        configs: "each" for a separate appearance of every picture, or the number N of appearances as text: picture i then
            has appearance i modulo N ("1" and "10" are the ablations of the RISP paper).
        seed: seed of states and appearances.
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
        """Settings that determine the pictures, not their storage, as JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "shard_images"}

    @property
    def shards(self) -> int:
        """Number of files."""
        return -(-self.images // self.shard_images)

    def indices(self, shard: int) -> range:
        """Indices of the pictures in a file."""
        return range(shard * self.shard_images, min((shard + 1) * self.shard_images, self.images))

    def state_generator(self, index: int) -> np.random.Generator:
        """The random generator of the state of a picture."""
        return np.random.default_rng([self.seed, _STATES, index])

    def appearance(self, index: int, size: int) -> np.ndarray:
        """psi of a picture: [size] float32, uniform in [-1, 1]."""
        key = (_OWN_APPEARANCE, index) if self.configs == EACH else (_SHARED_APPEARANCE, index % int(self.configs))
        return np.random.default_rng([self.seed, *key]).uniform(-1.0, 1.0, size).astype(np.float32)
