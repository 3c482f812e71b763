"""Training batches, in an order determined by seed and epoch, prefetched if the source supports it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from risp_torch.risp.dataset.batch import Batch, Source
from risp_torch.risp.training.ranks import Ranks


class Feed:
    """The training pictures of one rank, epoch by epoch.

    Attributes:
        steps: steps per epoch; pictures that do not fill the last batch are skipped.
        waiting_time: total time for which training waited for data [s].
    """

    def __init__(self, source: Source, count: int, batch_size: int, *, seed: int, ranks: Ranks, jacobian: bool) -> None:
        """Initialise.

        Args:
            source: source of the pictures.
            count: number of training pictures, the first ones.
            batch_size: pictures per step over all ranks.
            seed: seed of the order.
            ranks: ranks of the run; each uses every ``count``-th picture of a batch.
            jacobian: whether to read dI/dpsi.
        """
        self.source, self.count, self.batch_size, self.jacobian = source, count, batch_size, jacobian
        self.seed, self.ranks = seed, ranks
        self.steps = count // batch_size
        self.waiting_time = 0.0

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch."""
        order = np.random.default_rng([self.seed, number]).permutation(self.count)
        batches = order[: self.steps * self.batch_size].reshape(self.steps, self.batch_size)
        rank_batches = [batch[self.ranks.rank :: self.ranks.count] for batch in batches]
        yield from self._prefetched(rank_batches) if self.source.concurrent else self._sequential(rank_batches)

    def _sequential(self, batches: list[np.ndarray]) -> Iterator[Batch]:
        for indices in batches:
            start_time = time.perf_counter()
            batch = self.source.batch(indices, jacobian=self.jacobian)
            self.waiting_time += time.perf_counter() - start_time
            yield batch

    def _prefetched(self, batches: list[np.ndarray]) -> Iterator[Batch]:
        """A second thread reads the next batch during training on the current one."""
        with ThreadPoolExecutor(max_workers=1) as reader:
            pending: Future[Batch] = reader.submit(self.source.batch, batches[0], jacobian=self.jacobian)
            for next_indices in [*batches[1:], None]:
                start_time = time.perf_counter()
                batch = pending.result()
                self.waiting_time += time.perf_counter() - start_time
                if next_indices is not None:
                    pending = reader.submit(self.source.batch, next_indices, jacobian=self.jacobian)
                yield batch
