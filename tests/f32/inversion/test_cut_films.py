"""Parts cut from compressed films: what compression explains and how it shifts is told from the file that they were cut from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import PixelLoss, UserError, load_scene, read_video, write_frames, write_video
from risp_torch.files.film import Cut, film_facts, read_film, write_film
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import linearise
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.compression import Encoder, Encoding, bytes_per_frame, compressed_films, compression_power
from risp_torch.scene.bridge.checks import bridge_device

CRF, DENSITY = 28, "body.density"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A film of 128 pixels as PNG and compressed, and parts of both, 48 pixels wide in place of 96."""
    folder, scene = tmp_path_factory.mktemp("cut"), load_scene("toss", size=128)
    with torch.no_grad():
        pictures = scene.render(scene.rollout())[0]
    write_frames(folder / "plain", pictures, fps=scene.fps)
    write_video(folder / "film.mp4", pictures, fps=scene.fps, crf=CRF)
    for name, source in (("part", "film.mp4"), ("plain-part", "plain")):
        write_film(folder / name, read_film(folder / source, cut=Cut(crop=(16, 16, 96, 96), size=(48, 48))))
    return folder / "film.mp4", folder / "part", folder / "plain-part"


def test_the_encoding_of_a_part_is_that_of_its_film(films: tuple[Path, Path, Path]) -> None:
    """A pixel of the part is two by two stored ones; its bytes lie between its share and all; a part of the part knows both."""
    film, part, plain = films
    whole, cut = Encoding.of(film), Encoding.of(part)
    assert whole == Encoding(bytes_per_frame(film)) and cut.enlargement == 2
    assert cut.size == pytest.approx(whole.size * 96 / 128)
    write_film(part.parent / "again", read_film(part, cut=Cut(crop=(4, 4, 24, 24))))
    again = Encoding.of(part.parent / "again")
    assert again.enlargement == 2 and again.size == pytest.approx(whole.size * 48 / 128)
    assert Encoding.of(plain) is None and Encoding.of(np.zeros((2, 4, 4, 3))) is None and Encoding.of(None) is None


def test_what_compression_left_of_a_part_is_explained(films: tuple[Path, Path, Path]) -> None:
    """Simulated on the film of the estimate, enlarged as the stored one was, it has the power of the part's true errors."""
    _, part, plain = films
    scene = load_scene("toss", size=48)
    true = torch.as_tensor(read_video(plain), device=bridge_device())
    unknowns = Unknowns.of(scene, [DENSITY])
    encoding = Encoding.of(part)
    at = linearise(scene, Comparison.of(scene, PixelLoss(), true), unknowns, unknowns.current())
    films = compressed_films(Encoder(at.comparison, true, scene.fps, encoding.enlargement))
    found = compression_power(films, encoding.size)
    errors = float(((torch.as_tensor(read_video(part)).to(true) - true) ** 2).mean())
    assert 0.5 * errors < found < 2 * errors


def test_a_wrong_description_is_refused(films: tuple[Path, Path, Path]) -> None:
    """Bytes that are no positive number are named with the file."""
    _, part, _ = films
    said = json.loads((part / "video.json").read_text())
    for wrong in (-1.0, 0.0, "many"):
        (part / "video.json").write_text(json.dumps(said | {"bytes_per_pixel": wrong}))
        with pytest.raises(UserError, match="video.json is not a description"):
            film_facts(part)
    (part / "video.json").write_text(json.dumps(said))
