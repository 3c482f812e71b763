"""Inversions by masks, image tracks, depths and mixes of them, and what these losses refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import (
    DepthLoss,
    ImageTracksLoss,
    Inversion,
    Loss,
    MaskLoss,
    MixedLoss,
    MixedPart,
    OptimiseSettings,
    PixelLoss,
    PixelWeights,
    Scene,
    UserError,
    render_masks,
    write_frames,
)
from risp_torch.files.levels import read_depths, read_shares
from risp_torch.inversion.losses.masks import edge_lengths
from risp_torch.inversion.losses.plate_masks import masks_by_difference, read_plate
from risp_torch.inversion.problem.films.multi_film_loss import films_loss
from risp_torch.scene.projection import project_points
from risp_torch.scene.rotations import rotation_matrix
from tests.reference.full_scene import make_full_scene
from tests.reference.searches import pictures, quick
from tests.reference.small_scenes import make_scene

FRICTION, VELOCITY = "ground.contact.friction", "block.velocity[0]"
TRUTH, START = {FRICTION: 0.3, VELOCITY: 0.5}, [{FRICTION: 0.4, VELOCITY: 0.45}]
SETTINGS = OptimiseSettings(iterations=1, learning_rate=1e-6)  # Gauss-Newton alone
SIZE, FRAMES = 32, 8
POINTS = {"corner": (0.025, 0.02, 0.015), "side": (-0.025, 0.0, 0.0), "top": (0.0, 0.0, 0.015), "edge": (0.025, -0.02, 0.0)}


@pytest.fixture(scope="module")
def scene() -> Scene:
    return make_scene(size=SIZE, frames=FRAMES)


def averaged(fine: torch.Tensor) -> torch.Tensor:
    """Pictures [T, H, W, C] of pictures with eight times their sides."""
    return fine.unflatten(2, (SIZE, 8)).unflatten(1, (SIZE, 8)).mean((2, 4))


def seen_otherwise(**options: float) -> torch.Tensor:
    """The motion before a bright ground, in other light, of a grey block; with sharp edges."""
    fine = make_scene(size=8 * SIZE, frames=FRAMES, **options)
    fine.sigma = 1e-6
    grey = torch.full((1, 6, 3), 0.45)
    look = {"light.key.intensity": torch.full((1, 3), 0.4), "ground.color": torch.full((1, 3), 0.9), "block.face_colors": grey}
    return averaged(pictures(fine, look))


@pytest.fixture(scope="module")
def other_look() -> torch.Tensor:
    return seen_otherwise()


@pytest.fixture(scope="module")
def hard_masks() -> torch.Tensor:
    """[T, H, W] masks of the motion, 0 or 1, counted in pictures of eight times the size."""
    fine = make_scene(size=8 * SIZE, frames=FRAMES)
    with torch.no_grad():
        shown = render_masks(fine, fine.rollout(), samples=1)[0, ..., 0] > 0.5
    return (averaged(shown.float()[..., None])[..., 0] > 0.5).float()


def found(scene: Scene, loss: Loss, film: torch.Tensor | None = None) -> Inversion:
    return quick(scene, film, list(TRUTH), loss=loss, starts=START, steps=SETTINGS)


def bars_off(result: Inversion) -> float:
    """Largest distance from the truth in error bars."""
    error = result.scaled_error(TRUTH)
    return max(abs(error[label]) / result.sd[label] for label in TRUTH)


def write_pictures(folder: Path, levels: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    for frame, level in enumerate(levels):
        Image.fromarray(level).save(folder / f"{frame:03d}.png")
    return folder


def tracked(scene: Scene, path: Path, *, noise: float = 0.0, lost: tuple[int, ...] = ()) -> Path:
    """A table of tracks of the block's points; those of some frames are not seen."""
    with torch.no_grad():
        poses = scene.rollout().body_q[:, :, :1]
        places = poses[..., :3] + (rotation_matrix(poses[..., 3:]) @ poses.new_tensor(list(POINTS.values()))[..., None])[..., 0]
        pixels = project_points(scene, scene.table.values(None, worlds=1), places)[0][0]
    pixels = (pixels + noise * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(2)).to(pixels)).tolist()
    rows = ["time,point,u,v,sd"]
    for frame, row in enumerate(pixels):
        for name, (u, v) in zip(POINTS, row, strict=True):
            place = "," if frame in lost and name == "side" else f"{u:.4f},{v:.4f}"
            rows.append(f"{frame * scene.frame_dt:.4f},{name},{place},{max(noise, 0.05)}")
    path.write_text("\n".join(rows) + "\n")
    points = ["point,body,x,y,z", *(f"{name},block,{x},{y},{z}" for name, (x, y, z) in POINTS.items())]
    path.with_name("points.csv").write_text("\n".join(points) + "\n")
    return path


# -- what they find -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undiagnosed")
def test_masks_see_through_another_look(scene: Scene, other_look: torch.Tensor, hard_masks: torch.Tensor) -> None:
    """The truth is within three bars of the estimate by masks, and the estimate by pixels is not."""
    masks, pixels = found(scene, MaskLoss({"block": hard_masks})), found(scene, PixelLoss(), other_look)
    assert bars_off(masks) < 3 and abs(masks.scaled_error(TRUTH)[VELOCITY]) < 0.02 and masks.converged
    assert pixels.fits is False and max(abs(pixels.scaled_error(TRUTH)[label]) / masks.sd[label] for label in TRUTH) > 3


@pytest.mark.usefixtures("undiagnosed")
def test_masks_by_difference_from_a_plate(scene: Scene, other_look: torch.Tensor, hard_masks: torch.Tensor) -> None:
    """The picture without the block, and a median of a film in which it moves on."""
    plate = seen_otherwise(height=10.0)[0]
    masks = masks_by_difference(other_look, plate, threshold=0.05)
    outside = float((masks - hard_masks).sum() / edge_lengths(hard_masks[..., None]).sum())
    assert abs(outside) < 0.1  # pixels
    assert bars_off(found(scene, MaskLoss(masks))) < 4
    speck = other_look.clone()
    speck[:, 1, 1] = 0.0  # a dirty pixel of the camera
    assert torch.equal(masks_by_difference(speck, plate, threshold=0.05), masks)
    moving = torch.stack([plate] * 9)
    for k in range(9):
        moving[k, 2 + 3 * k : 6 + 3 * k, 4:12] = 0.1
    found_masks = masks_by_difference(moving, read_plate("median", moving))
    assert float(found_masks.sum()) == pytest.approx(9 * 32, rel=0.03) and found_masks.max() == 1


@pytest.mark.usefixtures("undiagnosed")
def test_image_tracks(scene: Scene, tmp_path: Path) -> None:
    """Points that a tracker followed with an error of a fifth of a pixel, and lost in a frame; bars are those of the errors."""
    loss = ImageTracksLoss(tracked(scene, tmp_path / "tracks.csv", noise=0.2, lost=(2, 5)), tmp_path / "points.csv")
    result = found(scene, loss)
    assert bars_off(result) < 3 and result.fits and result.sd[VELOCITY] < 0.05
    exact = found(scene, ImageTracksLoss(tracked(scene, tmp_path / "exact.csv"), tmp_path / "points.csv"))
    assert abs(exact.scaled_error(TRUTH)[VELOCITY]) < 2e-3


@pytest.mark.usefixtures("undiagnosed")
def test_depths(scene: Scene, tmp_path: Path) -> None:
    """The scene's own depths in millimetres, with holes and noise, read from files of 16 bits."""
    with torch.no_grad():
        depths = scene.render(scene.rollout(), quantity="depth")[0, ..., 0].numpy(force=True)
    random = np.random.default_rng(0)
    noisy = depths + 0.002 * random.normal(size=depths.shape)
    noisy[random.random(depths.shape) < 0.1] = 0.0
    folder = write_pictures(tmp_path / "depth", np.round(1000 * noisy).astype(np.uint16))
    assert np.isnan(read_depths(folder)).mean() == pytest.approx(0.1, abs=0.02)
    result = found(scene, DepthLoss(folder))
    assert bars_off(result) < 3 and abs(result.scaled_error(TRUTH)[VELOCITY]) < 0.02
    np.save(tmp_path / "depth.npy", np.where(noisy == 0, np.nan, noisy))
    np.testing.assert_allclose(read_depths(tmp_path / "depth.npy"), read_depths(folder), atol=6e-4)


@pytest.mark.usefixtures("undiagnosed")
def test_a_mix_knows_more_than_its_parts(scene: Scene, hard_masks: torch.Tensor, tmp_path: Path) -> None:
    tracks = ImageTracksLoss(tracked(scene, tmp_path / "tracks.csv", noise=0.3), tmp_path / "points.csv")
    hidden = hard_masks.new_ones(FRAMES + 1, SIZE, SIZE)
    hidden[3:5, 10:] = 0.0
    masks = MaskLoss(hard_masks * hidden, weights=PixelWeights(hidden))
    mixed = found(scene, MixedLoss(MixedPart(loss=masks, noise=0.3), tracks))
    assert bars_off(mixed) < 3 and mixed.fits and not [doubt for doubt in mixed.doubts if "part leaves" in doubt]
    careless = found(scene, MixedLoss(MixedPart(loss=masks, noise=0.01), tracks))
    assert [doubt for doubt in careless.doubts if doubt.startswith("the mask part leaves")] and careless.fits is False


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_the_command_line_takes_them(
    command_line: Callable[..., tuple[int, str, str]], scene: Scene, other_look: torch.Tensor, hard_masks: torch.Tensor,
    tmp_path: Path,
) -> None:  # fmt: skip
    small = Path(__file__).parents[2] / "reference" / "small_scenes.py"
    write_pictures(tmp_path / "masks" / "block", np.round(255 * hard_masks.numpy(force=True)).astype(np.uint8))
    tracked(scene, tmp_path / "tracks.csv", noise=0.2)
    write_frames(tmp_path / "film", other_look, fps=200)
    common = ["invert", small, "--size", SIZE, "--frames", FRAMES, "--unknown", VELOCITY, "--starts", "scene"]
    common += ["--solver", "refine=1", "--solver", f"first_frames={FRAMES}"]
    seen = ["--masks", tmp_path / "masks", "--tracks", tmp_path / "tracks.csv", tmp_path / "points.csv"]
    noise = ["--noise", "mask=0.3", "--out", tmp_path / "run"]
    status, out, _ = command_line(*common, "--loss", "mask+2*image-tracks", *seen, *noise, "--strict")
    assert status == 0 and VELOCITY in out
    status, out, _ = command_line(*common, "--loss", "mask", *seen[:2], "--out", tmp_path / "masked")
    assert status == 0 and (tmp_path / "masked" / "strip.png").is_file()  # of the masks
    plate = ["--loss", "mask", "--plate", "median:0.05", "--video", tmp_path / "film"]
    status, out, _ = command_line(*common, *plate, "--out", tmp_path / "plate")
    assert status == 0 and (tmp_path / "plate" / "strip.png").is_file()
    in_turn = ["--loss", "mask,pixel", *seen[:2], "--video", tmp_path / "film", "--out", tmp_path / "in-turn"]
    status, out, _ = command_line(*common, *in_turn)
    first, last = (
        json.loads((tmp_path / "in-turn" / name / "result.json").read_text(encoding="utf-8")) for name in ("1-mask", "")
    )
    assert status == 0 and last["starts"][0]["initial"] == {k: v["value"] for k, v in first["unknowns"].items()}
    landscape = ["landscape", small, "--unknown", VELOCITY, *in_turn[:-1], tmp_path / "landscape"]
    status, _, err = command_line(*landscape)
    assert status == 2 and "names losses one after the other, which is for risp invert" in " ".join(err.split())
    for options, message in {
        ("--loss", "mask"): "--loss mask needs --masks FILE or --plate FILE",
        ("--loss", "masks"): "unknown loss 'masks'",
        ("--loss", "mask,"): "unknown loss ''",
        ("--loss", "mask+mask", *seen[:2]): "names a loss twice",
        ("--loss", "image-tracks", *seen[:2]): "--masks belongs to --loss mask",
        ("--loss", "mask", *seen[:2], "--noise", "pixel=0.1"): "--noise names pixel, and --loss is mask",
        ("--loss", "mask", *seen[:2], "--plate", "median"): "--masks and --plate both say",
        ("--loss", "mask", "--plate", "median"): "needs the target's film",
        ("--loss", "mask", "--masks", tmp_path / "a", tmp_path / "b"): "takes BODY=PATH",
        ("--loss", "mask", "--masks", f"blok={tmp_path / 'masks' / 'block'}"): "did you mean 'block'",
    }.items():  # fmt: skip
        status, _, err = command_line(*common, *options)
        assert status == 2 and message in " ".join(err.split()), (options, err)


# -- what they refuse -----------------------------------------------------------------------------------------------------


def test_masks_that_do_not_fit(scene: Scene, hard_masks: torch.Tensor, tmp_path: Path) -> None:
    for masks, message in (
        ({"blok": hard_masks}, "unknown body of a mask 'blok': did you mean 'block'"),
        (hard_masks[:4], "the masks have 4 pictures, and the scene has 9 frames"),
        (hard_masks[:, 1:], "the masks are 32 x 31 pixels, and the camera's pictures are 32 x 32"),
        (0 * hard_masks, "have no edge that counts"),
        ({"block": hard_masks, "all": hard_masks}, "give one or the other"),
        ({"block": hard_masks, "other": hard_masks[1:]}, "the masks have different shapes"),
        (2 * hard_masks, "numbers from 0 to 1"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        with pytest.raises(UserError, match=message):
            MaskLoss(masks).check(scene)
    hidden = MaskLoss(hard_masks, weights=PixelWeights(1 - torch.nn.functional.max_pool2d(hard_masks, 5, 1, 2)))
    with pytest.raises(UserError, match="have no edge that counts"):
        hidden.check(scene)
    with pytest.raises(UserError, match="the mask loss has one target"):
        films_loss(MaskLoss(hard_masks))
    with pytest.raises(UserError, match="no spot of the film differs from its plate by more than"):
        masks_by_difference(torch.zeros(2, 8, 8, 3), torch.zeros(8, 8, 3))
    Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(tmp_path / "plate.png")
    with pytest.raises(UserError, match="is 4 x 4 pixels, and the film is 8 x 8"):
        read_plate(tmp_path / "plate.png", torch.zeros(2, 8, 8, 3))


def test_masks_of_object_numbers_and_masks_that_are_doubted(scene: Scene, hard_masks: torch.Tensor, tmp_path: Path) -> None:
    labels = (7 * hard_masks.cpu().numpy()).astype(np.uint8)
    labels[:, :4, :4] = 38
    np.save(tmp_path / "labels.npy", labels)
    with pytest.raises(UserError, match="the masks in .* hold the numbers 0, 7, 38"):
        MaskLoss(tmp_path / "labels.npy")
    for masks in (tmp_path / "labels.npy", labels, torch.as_tensor(labels)):
        loss = MaskLoss(masks, objects={"block": 7})
        assert loss.names == ("block",)
        np.testing.assert_array_equal(loss.masks[..., 0].cpu().numpy(), labels == 7)
        np.testing.assert_array_equal(MaskLoss(masks, objects=38).masks[..., 0].cpu().numpy(), labels == 38)
    with pytest.raises(UserError, match="unknown mask of an object's number 'blok': did you mean 'block'"):
        MaskLoss({"block": labels}, objects={"blok": 7})
    broad = np.zeros(labels.shape, np.uint8)
    broad[:, :-6] = 1
    broad[2] = 0
    with pytest.warns(UserWarning, match="the masks cover 66 % of the picture's rim: look whether they are inverted"):
        loss = MaskLoss(broad)
        loss.check(scene)
    doubts = MixedLoss(loss).target_doubts(scene)
    assert len(doubts) == 2 and "cover nothing in 1 of 9 frames (2)" in doubts[1]


def test_pictures_of_shares(tmp_path: Path) -> None:
    """Grey, colours with alpha, labels of a palette, one bit and 16 bits."""
    level = np.array([[0, 255], [128, 255]], dtype=np.uint8)
    labels = Image.fromarray(np.array([[0, 1], [2, 1]], dtype=np.uint8), mode="P")
    labels.putpalette([0, 0, 0, 128, 0, 0, 0, 64, 0] + [0] * 759)
    alpha = np.stack([np.full_like(level, 255), 0 * level, 0 * level, level], axis=-1)
    for name, image, wanted in (
        ("grey", Image.fromarray(level), level / 255), ("alpha", Image.fromarray(alpha), level / 255),
        ("labels", labels, level > 0), ("bit", Image.fromarray(level > 0), level > 0),
        ("deep", Image.fromarray(257 * level.astype(np.uint16)), level / 255),
    ):  # fmt: skip
        image.save(tmp_path / f"{name}.png")
        np.testing.assert_allclose(read_shares(tmp_path / f"{name}.png", "the masks")[0], wanted, atol=1e-6)


def test_tables_of_tracks_that_do_not_fit(scene: Scene, tmp_path: Path) -> None:
    columns = "frame,point,body,x,y,z,u,v\n"
    for text, message in {
        "frame,point,u\n0,a,1": "has no column v",
        "frame,point,u,v,w\n0,a,1,2,3": "unknown column of .* 'w'",
        "point,u,v\na,1,2": "has no column frame or time",
        "frame,point,u,v\n0,a,1,2": "point a in .* has no place on block: give its x, y and z",
        f"{columns}0,a,blok,0,0,0,1,2": "did you mean 'block'",
        f"{columns}0,a,block,0,0,0,1,2\n0,a,block,0,0,0,1,2": "is the second one of point a at frame 0",
        f"{columns}0,a,block,0,0,0,1,2\n1,a,block,0,0,1,1,2": "gives point a another body or place",
        f"{columns}0,a,block,0,0,0,1,x": "row 2 of .* has 'x' in the column v",
        f"{columns}0,a,block,0,0,0,,": "has no seen point at the frames of small",
        f"{columns}0.5,a,block,0,0,0,1,2": "not a frame of small",
        f"{columns}0,,block,0,0,0,1,2": "names no point",
        f"{columns}0,a,block,0,0,0,1": "has 7 cells, and the first row 8",
    }.items():
        (tmp_path / "tracks.csv").write_text(text + "\n")
        with pytest.raises(UserError, match=message):
            ImageTracksLoss(tmp_path / "tracks.csv").check(scene)
    with pytest.raises(UserError, match="cannot be read"):
        ImageTracksLoss(tmp_path / "missing.csv")
    (tmp_path / "tracks.csv").write_text("frame,point,u,v\n0,b,1,2\n")
    (tmp_path / "points.csv").write_text("point,body,x,y,z\na,block,0,0,0\n")
    with pytest.raises(UserError, match="unknown point in row 2"):
        ImageTracksLoss(tmp_path / "tracks.csv", tmp_path / "points.csv").check(scene)
    two = make_full_scene(size=8)
    (tmp_path / "tracks.csv").write_text("frame,point,u,v,x,y,z\n0,a,1,2,0,0,0\n")
    with pytest.raises(UserError, match="names no body, and the scene has box, ball"):
        ImageTracksLoss(tmp_path / "tracks.csv").check(two)


def test_points_of_the_world_do_not_move(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "tracks.csv").write_text("frame,point,body,x,y,z,u,v\n0,mark,world,0,0,0.03,16,16\n8,mark,,,,,16,16\n")
    loss = ImageTracksLoss(tmp_path / "tracks.csv")
    loss.check(scene)
    with torch.no_grad():
        places = loss.observe(scene, scene.rollout(), {}, [0, 8])
    assert places.shape == (1, 2, 1, 2) and torch.equal(places[0, 0], places[0, 1])
    np.testing.assert_allclose(places[0, 0, 0].cpu(), (SIZE / 2, SIZE / 2), atol=1e-3)  # where the camera looks


def test_depths_and_mixes_that_do_not_fit(scene: Scene, hard_masks: torch.Tensor, tmp_path: Path) -> None:
    depths = torch.full((FRAMES + 1, SIZE, SIZE), 0.3)
    for values, message in (
        (depths[:2], "the depths have 2 pictures, and the scene has 9 frames"),
        (depths[:, :, :4], "the depths are 4 x 32 pixels"),
        (1000 * depths, "no pixel has a depth that counts"),
        (depths[0], r"have shape \(32, 32\)"),
    ):
        with pytest.raises(UserError, match=message):
            DepthLoss(values).check(scene)
    write_pictures(tmp_path / "depth", np.zeros((2, 4, 4), dtype=np.uint8))
    with pytest.raises(UserError, match="depths need 16 bits of grey, in millimetres"):
        DepthLoss(tmp_path / "depth")
    with pytest.raises(UserError, match="a mix of losses has no part"):
        MixedLoss()
    perceptual = PixelLoss()
    perceptual.kind, perceptual.usual_noise = "other", None
    with pytest.raises(UserError, match="the other loss in a mix needs a noise level"):
        MixedLoss(perceptual, MaskLoss(hard_masks))
