"""Effects of video compression and noise on a film: the shift of an estimate, and the residual that they explain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.film import film_facts
from risp_torch.files.video import compress_and_decode
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation, newton_step

QUALITIES = (8, 13, 18, 23, 28, 33, 38)  # constant rate factors of H.264, best first
# Pixels down and right: offsets of a picture on the encoder's grids, which transform blocks of 8 x 8 and 4 x 4 pixels and store
# colours for 2 x 2. With (0, 0), every row and column of 8 x 8 once.
OFFSETS = ((1, 3), (2, 5), (3, 2), (4, 1), (5, 7), (6, 4), (7, 6))


@dataclass(frozen=True)
class CompressedFilm:
    """A simulated film after encoding and decoding with H.264 (4:2:0).

    Attributes:
        bytes_per_frame: bytes per frame of the video stream.
        residual: [P] observations of the decoded film minus those of the original film.
        count: number of observations that count, all by default.
        pictures: the decoded film [T, H, W, 3], linear rgb.
        crf: constant rate factor.
    """

    bytes_per_frame: float
    residual: torch.Tensor
    count: float | None = None
    pictures: torch.Tensor | None = None
    crf: float = math.nan

    @property
    def power(self) -> float:
        """Mean squared residual of the observations that count."""
        return float((self.residual**2).mean()) * (1.0 if self.count is None else len(self.residual) / self.count)


@dataclass(frozen=True)
class Encoding:
    """How a film was compressed.

    Attributes:
        size: bytes per frame. A part of the picture took between its share of the area, where all of it is as densely coded, and
            all bytes, where nothing moves outside; for parts it is the geometric mean of both.
        enlargement: pixels of the stored picture along each side of one of the film.
    """

    size: float
    enlargement: int = 1

    @staticmethod
    def of(video: Any) -> Encoding | None:
        """The encoding of a video file, of all files of several films, or of the file that a part was cut from (``risp film``);
        None if nothing was compressed or its size is unknown."""
        if isinstance(video, list):
            if not all(isinstance(source, str | Path) and Path(source).is_file() for source in video):
                return None
            return Encoding(sum(bytes_per_frame(Path(source)) for source in video))
        if not isinstance(video, str | Path):
            return None
        if Path(video).is_file():
            return Encoding(bytes_per_frame(Path(video)))
        facts = film_facts(video)
        if facts.bytes_per_pixel is None:
            return None
        recording = facts.full_placement
        pixels = recording.stored.width * recording.stored.height
        share = min(1.0, recording.width * recording.height * math.prod(recording.scale) / pixels)
        return Encoding(facts.bytes_per_pixel * pixels * math.sqrt(share), max(1, round(math.sqrt(math.prod(recording.scale)))))

    def fits(self, height: int, width: int) -> bool:
        """Whether films of this size can be encoded in the same way: colours of half the resolution need even sides."""
        return height * self.enlargement % 2 == 0 and width * self.enlargement % 2 == 0


@dataclass(frozen=True)
class Encoder:
    """Encodes the film of an estimate and decodes it.

    Attributes:
        comparison: of the estimate with the target, by a loss that compares images.
        estimate: film of the estimate, [T, H, W, 3] linear rgb; H and W times the enlargement are even.
        fps: frames per second.
        enlargement: the film is encoded with so many times the pixels along each side, as that from which a part was cut, and
            then averaged.
    """

    comparison: Comparison
    estimate: torch.Tensor
    fps: float
    enlargement: int = 1

    def film(self, crf: float, offset: tuple[int, int] = (0, 0)) -> CompressedFilm:
        """The film at a constant rate factor of H.264, shifted by whole pixels down and right while it is encoded."""
        loss, frames = self.comparison.loss, list(self.comparison.frames)
        with torch.no_grad():
            enlarged = _enlarged(self.estimate, self.enlargement)
            pictures, size = compress_and_decode(_shifted(enlarged, *offset), fps=self.fps, crf=crf)
            decoded = torch.as_tensor(pictures, dtype=enlarged.dtype, device=enlarged.device)
            decoded_film = _averaged(_shifted_back(decoded, enlarged, *offset), self.enlargement)
            errors = loss.compared(decoded_film[frames], frames) - loss.compared(self.estimate[frames], frames)
        return CompressedFilm(size, errors.flatten(), self.comparison.observation_count, decoded_film, crf)

    def at_other_offsets(self, film: CompressedFilm) -> list[CompressedFilm]:
        """A film at the same quality at the other ``OFFSETS``, as far as they leave something of the picture."""
        side = self.enlargement * min(self.estimate.shape[1:3])
        return [self.film(film.crf, offset) for offset in OFFSETS if max(offset) < side]


def compressed_films(encoder: Encoder, qualities: Sequence[float] = QUALITIES) -> list[CompressedFilm]:
    """The film of an estimate at every one of the qualities, which are constant rate factors of H.264, best first."""
    return [encoder.film(crf) for crf in qualities]


def bytes_per_frame(path: Path) -> float:
    """Bytes of a file's video stream for each of its frames."""
    import av

    with av.open(str(path)) as container:
        sizes = [packet.size for packet in container.demux(video=0) if packet.size]
    return sum(sizes) / max(1, len(sizes))


def _enlarged(film: torch.Tensor, factor: int) -> torch.Tensor:
    """A film [T, H, W, 3] with so many times the pixels along each side, bilinear in between."""
    if factor == 1:
        return film
    enlarged = torch.nn.functional.interpolate(film.movedim(-1, 1), scale_factor=factor, mode="bilinear", align_corners=False)
    return enlarged.movedim(1, -1)


def _averaged(film: torch.Tensor, factor: int) -> torch.Tensor:
    """The means of blocks of pixels."""
    return film if factor == 1 else torch.nn.functional.avg_pool2d(film.movedim(-1, 1), factor).movedim(1, -1)


def _shifted(film: torch.Tensor, down: int, right: int) -> torch.Tensor:
    """A film [T, H, W, 3], moved; the pixels of its borders are repeated. It is the film itself if nothing moves."""
    if not (down or right):
        return film
    height, width = film.shape[1:3]
    rows = (torch.arange(height, device=film.device) - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=film.device) - right).clamp(0, width - 1)
    return film[:, rows][:, :, columns]


def _shifted_back(film: torch.Tensor, original: torch.Tensor, down: int, right: int) -> torch.Tensor:
    """A shifted film, shifted back; pixels that left the picture are those of ``original``."""
    if not (down or right):
        return film
    result, (height, width) = original.clone(), film.shape[1:3]
    result[:, : height - down, : width - right] = film[:, down:, right:]
    return result


def compression_moves(
    linearisation: Linearisation, films: Sequence[CompressedFilm],
    at_other_offsets: Callable[[CompressedFilm], Sequence[CompressedFilm]] = lambda film: (),
) -> np.ndarray:  # fmt: skip
    """Shifts of an estimate by video compression, [n, K] relative to the ranges, for n films; the most similar film is first.

    The film of the estimate is compressed at the quality whose errors are as large as the residual, and a Gauss-Newton step
    estimates the unknowns from the decoded film. Compression errors are not noise: they blur all edges of all frames,
    which averages over pixels do not remove. A single film may have a small shift by chance, so the next better and the next
    worse quality are also used, and the film at other places of the picture, with errors scaled to the residual. A body that
    rests has the same edges in all pictures, and the shift is that of their place on the encoder's grids.

    Args:
        linearisation: linearisation at the estimate.
        films: result of ``compressed_films``, best quality first.
        at_other_offsets: a film, compressed at other places of the picture (``Encoder.at_other_offsets``).
    """
    log_powers = np.array([np.log(film.power + 1e-12) for film in films])
    closest = int(np.abs(log_powers - np.log(linearisation.loss + 1e-12)).argmin())
    similar = [films[number] for number in (closest, closest - 1, closest + 1) if 0 <= number < len(films)]
    similar += at_other_offsets(similar[0])
    steps = [newton_step(replace(linearisation, residual=film.residual, prior_gradient=0.0)) for film in similar]
    return np.array(steps) * np.sqrt([(linearisation.loss + 1e-12) / (film.power + 1e-12) for film in similar])[:, None]


def size_of_moves(moves: np.ndarray) -> np.ndarray:
    """Root mean square [K] of shifts [n, K], at least the magnitude of the first."""
    return np.maximum(np.sqrt(np.mean(moves**2, axis=0)), np.abs(moves[0]))


def beyond_blocks(shift: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Part [K] of shifts by compression that error bars of the residual do not contain.

    A shift is A^-1 sum_c g_c with the scores g_c = J_c^T e of compression's errors e in blocks c. The residual has these errors,
    too, and the sum of g_c g_c^T over its blocks (``uncertainty``) is the covariance of the shift but for what blocks have
    in common, E[g_c g_d^T], since compression blurs all edges. This part is the excess of shift^2 over
    the variance of the blocks.

    Args:
        shift: [K] root mean square shifts of an estimate by errors as large as the residual.
        sd: [K] error bars by the residual's blocks, in the same scale.
    """
    return np.sqrt(np.maximum(shift**2 - sd**2, 0.0))


def compression_power(films: Sequence[CompressedFilm], size: float) -> float:
    """Mean square compression error of a film like the estimate's in a file with this number of bytes per frame.

    The compression quality of a video is not stored in it. A film of the same motion with the same number of bytes has
    about the same quality; between the tested qualities, the power is interpolated linearly in log-log scale over the size.
    """
    sizes = np.log([film.bytes_per_frame for film in films])
    powers = np.log([film.power + 1e-12 for film in films])
    order = np.argsort(sizes)
    return float(np.exp(np.interp(np.log(size), sizes[order], powers[order])))


def compression_quality(films: Sequence[CompressedFilm], size: float) -> int:
    """Constant rate factor, tested or between tested ones, at which a film like the estimate's has ``size`` bytes per frame."""
    sizes = np.log([film.bytes_per_frame for film in films])
    order = np.argsort(sizes)
    return round(float(np.interp(np.log(size), sizes[order], np.array([film.crf for film in films])[order])))


def noise_variance(difference: torch.Tensor, weights: torch.Tensor | None = None) -> float:
    """Variance of the noise in a difference of images [T, H, W, 3], robust to differences in part of the pixels.

    Computed from the median response of a mask of two Laplacians (Immerkaer, Comput. Vis. Image Underst. 64, 1996): smooth
    content is removed, and misplaced edges of bodies are in fewer than half of the pixels.

    Args:
        difference: target minus simulation [T, H, W, C], linear rgb or luminance.
        weights: [T or 1, H, W] of the pixels; those of weight 0, and their neighbours, are left out.
    """
    if min(difference.shape[1:3]) < 3:
        return 0.0
    row_laplacian = difference[:, 2:] - 2 * difference[:, 1:-1] + difference[:, :-2]
    response = row_laplacian[:, :, 2:] - 2 * row_laplacian[:, :, 1:-1] + row_laplacian[:, :, :-2]
    if weights is not None:
        smallest_weight = -torch.nn.functional.max_pool2d(-weights[:, None], 3, stride=1)[:, 0]
        response = response[(smallest_weight > 0).expand(response.shape[:3])]
    if not response.numel():
        return 0.0
    median = float(response.abs().flatten()[:: max(1, response.numel() // 10**6)].median())
    return (median / 0.6745 / 6.0) ** 2  # of a normal distribution; the squares of the mask's weights add to 36
