"""What the README promises runs: its scene file, commands and Python blocks; and so do those of the other pages.

Where a command or block would take long it runs with fewer and smaller pictures or fewer steps; what it is then is said here.
"""

import argparse
import importlib
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import OptimiseSettings, SearchStages, write_video
from risp_torch.__main__ import COMMANDS as PROGRAM
from risp_torch.__main__ import main
from risp_torch.files.film import read_film
from risp_torch.risp import DatasetSettings, RendererSource, load_network, load_task
from risp_torch.risp.task import training_scene
from studies.pages.estimates import tables_of
from studies.risp.__main__ import COMMANDS as STUDY
from tests.reference.folders import ROBOTS, ROOT
from tests.reference.photoreal_inputs import needs_mitsuba
from ti_render.camera_files import CameraRecord, write_transforms_json

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/rendering.md").read_text(encoding="utf-8")
RISP = (ROOT / "docs/risp.md").read_text(encoding="utf-8")
JOINTS = (ROOT / "docs/articulated.md").read_text(encoding="utf-8")
SOFT = (ROOT / "docs/deformable.md").read_text(encoding="utf-8")
DRIVEN = (ROOT / "docs/control.md").read_text(encoding="utf-8")
FILMED = (ROOT / "docs/films.md").read_text(encoding="utf-8")
STIFF = (ROOT / "docs/implicit.md").read_text(encoding="utf-8")
PAGES = {
    "README.md": TEXT, "docs/rendering.md": PAGE, "docs/risp.md": RISP, "docs/articulated.md": JOINTS, "docs/deformable.md": SOFT,
    "docs/control.md": DRIVEN, "docs/time.md": (ROOT / "docs/time.md").read_text(encoding="utf-8"),
    "docs/films.md": FILMED, "docs/start.md": (ROOT / "docs/start.md").read_text(encoding="utf-8"),
    "docs/data.md": (ROOT / "docs/data.md").read_text(encoding="utf-8"),
    "docs/smoke.md": (ROOT / "docs/smoke.md").read_text(encoding="utf-8"),
    "docs/tape.md": (ROOT / "docs/tape.md").read_text(encoding="utf-8"),
    "docs/implicit.md": STIFF, "docs/forces.md": (ROOT / "docs/forces.md").read_text(encoding="utf-8"),
}  # fmt: skip
ALL = "\n".join(PAGES.values())
BLOCKS = re.findall(r"```python\n(.*?)```", ALL, flags=re.DOTALL)
# The two parts of my_scene.py, which is shown in README and page of RISP.
OF_PAGES = JOINTS + SOFT + DRIVEN + FILMED + STIFF
SCENE_FILE = [block for block in BLOCKS if block not in OF_PAGES and re.search("def make_(scene|task)", block)]
PLAIN = [block for block in BLOCKS if block not in SCENE_FILE]


def commands_of(text: str) -> list[str]:
    """Commands in the fenced blocks of a page, those over several lines joined."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    fenced = "\n".join(block for language, block in blocks if language in ("", "bash")).replace("\\\n", " ")
    return [line.strip() for line in fenced.splitlines() if re.match(r"(risp|torchrun|python -m studies.risp) ", line.strip())]


SHOWN = sorted({command for page in PAGES.values() for command in commands_of(page)})
COMMANDS = [line for line in commands_of(TEXT) if re.match(r"risp (simulate|invert) my_scene\.py", line)]
SHEETS = [line for line in commands_of(TEXT) if line.startswith("risp render ")]
PATH_TRACED = [line for line in commands_of(TEXT) if line.startswith("risp simulate toss ") and "--renderer mitsuba" in line]
OWN_FILM = commands_of(TEXT[TEXT.index("## Your own film") : TEXT.index("## Commands")])
STEPS = [line for line in commands_of(TEXT) if re.match(r"risp \w+ cube ", line)]
FILES = re.findall(r"`(\w+/[\w/]+\.py)`", ALL)
LINKS = {str(Path(page).parent / link) for page, text in PAGES.items() for link in re.findall(r"\]\(([^)#]+)", text)}
SMALL_STEPS = {
    "dataset": ["--images", "6", "--shard-images", "4"],
    "train": ["--epochs", "1", "--batch", "2", "--width", "2"],
    "evaluate": ["--images", "4", "--renderers", "soft"],
    "simulate": ["--frames", "1", "--spp", "1", "--variant", "scalar_rgb"],
    "invert": ["--frames", "1", "--starts", "1", "--iterations", "1", "--solver", "refine=0"],
}
# What a Python block says -> what stands there in the test.
SMALL_BLOCKS = {
    '"ground.contact.damping"], out=': '"ground.contact.damping"], starts=1, out=',
    '"docs/figures/contact_force.png"': '"contact_force.png"', "frames=96": "frames=36",
    "width=48, height=48": "width=32, height=32",
    'scene = load_scene("cube")\nvideo': 'scene = load_scene("cube", size=48)\nscene.frames = 28\nvideo',
    '["ground.contact.stiffness"], out=': '["ground.contact.stiffness"], starts=2, search=FEW, out=',
    "images=2000": "images=6",
    'preset("quick", task)': 'preset("quick", task, epochs=1, batch_size=2, width=2)',
}


def scene_file() -> str:
    """The README's scene with the task that the page of RISP adds at its end."""
    assert len(SCENE_FILE) == 2 and "def make_scene" in SCENE_FILE[0] and "def make_task" in SCENE_FILE[1]
    return "\n".join(SCENE_FILE)


def camera_of_a_file() -> CameraRecord:
    """A camera as a program for real pictures writes it, in a world with y up."""
    return CameraRecord(
        name="images/0001.jpg", width=64, height=48, intrinsics=np.array([80.0, 80.0, 32.0, 24.0]), rotation=np.eye(3),
        translation=np.array([0.0, 0.0, 0.8]), distortion=np.array([-0.1, 0.02, 0.0, 0.0, 0.0]),
    )  # fmt: skip


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a new user has saved the README's scene, beside the repository's scenes, robots and a capture's
    cameras."""
    (tmp_path / "my_scene.py").write_text(scene_file(), encoding="utf-8")
    (tmp_path / "robots").symlink_to(ROBOTS)
    write_transforms_json(tmp_path / "capture/transforms.json", [camera_of_a_file()])
    write_video(tmp_path / "throw.mp4", np.random.default_rng(0).random((12, 48, 64, 3)), fps=30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("undiagnosed")
def test_first_scene_and_first_inversion(stranger: Path) -> None:
    """The commands of the README, word for word, find the friction and velocity of its scene file."""
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        assert main(shlex.split(command)[1:]) == 0
    result = json.loads((stranger / "runs/found/result.json").read_text())
    unknowns = result["unknowns"]
    assert unknowns["ground.contact.friction"]["value"] == pytest.approx(0.35, rel=0.02)
    (table,) = (table for table in tables_of("README.md", TEXT) if table.run == "runs/found")
    assert list(unknowns) == list(table.truth) and unknowns["wedge.velocity[0]"]["value"] == pytest.approx(0.9, abs=0.02)
    for label, about in table.record()["unknowns"].items():  # the table above the sentence on runs/found
        bar = about["sd"] if about["scale"] == "linear" else about["value"] * (10 ** about["sd"] - 1)
        assert unknowns[label]["value"] == pytest.approx(about["value"], rel=0, abs=0.2 * bar), label  # as all tables
        # Compression is a standard deviation of 16 films, which scatters by 1 / sqrt(30): films that differ in their rounding, as
        # those of other builds of the libraries do, give bars that differ by up to sqrt(2) 1.96 times that.
        assert unknowns[label]["sd"] == pytest.approx(about["sd"], rel=(2 / 30) ** 0.5 * 1.96), label
    for name in ("loss.png", "parameters.png", "strip.png", "comparison.mp4", "settings.json"):
        assert (stranger / "runs/found" / name).stat().st_size > 0


def test_own_film(stranger: Path) -> None:
    """The commands for a film of one's own, with six of its frames and few steps: each reads what the one before wrote."""
    few_steps = ["--frames", "6", "--iterations", "1", "--solver", "refine=0", "--starts", "1"]
    few = {"simulate": ["--frames", "6"], "invert": few_steps}
    assert [command.split()[1] for command in OWN_FILM] == ["simulate", "film", "film", "invert"]
    for command in OWN_FILM:
        words = shlex.split(command)[1:]
        assert main([*words, *few.get(words[0], [])]) == 0, command
    region, answer = (json.loads((stranger / "runs/answer" / name / "result.json").read_text()) for name in ("1-mask", "."))
    begun = answer["starts"][0]["initial"]
    assert begun == {name: pytest.approx(unknown["value"], rel=1e-5) for name, unknown in region["unknowns"].items()}
    assert (stranger / "runs/answer/look.png").is_file()


def test_sheet_of_appearances(stranger: Path) -> None:
    assert len(SHEETS) == 1
    assert main(shlex.split(SHEETS[0])[1:]) == 0
    record = json.loads((stranger / "runs/looks.json").read_text())
    assert len(record["psi"]) == 8 and record["frame"] == 12
    assert np.asarray(Image.open(stranger / "runs/looks.png")).std() > 10


@needs_mitsuba
def test_path_traced_film(stranger: Path) -> None:
    """The README's command, with fewer and smaller pictures."""
    assert len(PATH_TRACED) == 1
    small = ["--size", "16", "--frames", "1", "--spp", "2", "--variant", "scalar_rgb"]
    assert main(shlex.split(PATH_TRACED[0])[1:] + small) == 0
    folder = stranger / "runs/photoreal"
    assert [path.name for path in sorted((folder / "frames").glob("*.png"))] == ["00000.png", "00001.png"]
    assert (folder / "masks/body/00001.png").exists() and (folder / "video.mp4").stat().st_size > 0
    assert np.asarray(Image.open(folder / "frames/00001.png")).std() > 5


@needs_mitsuba
def test_steps_of_risp(stranger: Path) -> None:
    """The five commands from training pictures to a number, the same in README and page, with few and small pictures."""
    assert [step.split()[1] for step in STEPS] == list(SMALL_STEPS)
    assert set(STEPS) <= set(commands_of(RISP))
    for step in STEPS:
        name, *options = shlex.split(step)[1:]
        assert main([name, *options, *SMALL_STEPS[name]]) == 0, step
    assert json.loads((stranger / "data/cube/manifest.json").read_text())["totals"]["images"] == 6
    network, record = load_network(stranger / "runs/cube/network.safetensors")
    assert record["scene"] == "cube" and network.settings.outputs == 9
    readers = json.loads((stranger / "runs/cube-table/result.json").read_text())["renderers"]["soft"]
    assert {"average", "cube"} <= set(readers)
    found = json.loads((stranger / "runs/cube-found/result.json").read_text())
    assert found["settings"]["loss"]["kind"] == "risp"
    assert 10**2.5 <= found["unknowns"]["ground.contact.stiffness"]["value"] <= 10**3.5


def test_the_scene_file_takes_part_in_risp(stranger: Path) -> None:
    """The task of the page belongs to the README's scene: its motion lies within the head's ranges, its looks differ."""
    scene = training_scene("my_scene.py", 64)
    task = load_task("my_scene.py", scene)
    outputs = task.head.outputs(scene, scene.rollout().body_q[0])
    assert outputs.shape == (31, 9) and outputs[:, :3].abs().max() < 1
    angles = task.head.physical(outputs)
    for name in ("yaw", "pitch", "roll"):
        low, high = getattr(task.head, name)
        assert low < angles[name].min() and angles[name].max() < high
    source = RendererSource(scene, task, DatasetSettings(images=2))
    batch = source.batch([0, 1], jacobian=False)
    assert batch.psi.shape == (2, 7) and (batch.images[0] - batch.images[1]).abs().mean() > 0.01


def parser_of(command: str, package: str = "risp_torch.commands") -> argparse.ArgumentParser:
    """The options of a command."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    module = importlib.import_module(f"{package}.{command}")
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    return parser


@pytest.mark.parametrize("command", SHOWN)
def test_every_command_is_understood(command: str) -> None:
    """Commands stand as one would type them: the program takes all their options and values."""
    words = shlex.split(command)
    if words[0] == "python":
        assert parser_of(words[3], words[2]).parse_args(words[4:])
        return
    words = words[words.index("risp_torch") + 1 :] if words[0] == "torchrun" else words[1:]
    assert parser_of(words[0]).parse_args(words[1:])


def test_every_option_exists() -> None:
    """Options that the text names are options of the command they stand beside, or of any where they stand alone."""
    options = {name: set(parser_of(name)._option_string_actions) for name in PROGRAM}
    studies = [set(parser_of(name, "studies.risp")._option_string_actions) for name in STUDY]
    known = set().union(*options.values(), *studies)
    prose = re.sub(r"```.*?```", "", ALL, flags=re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", prose)
    seen = 0
    for span in spans:
        if not span.startswith(("risp ", "--")):
            continue
        command = span.split()[1] if span.startswith("risp ") else None
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span):
            if not (command is None and option == "--help"):
                assert option in (known if command is None else options[command]), span
                seen += 1
    assert seen > 30


def check_inversion(names: dict[str, Any]) -> None:
    assert names["result"].values["ground.contact.stiffness"] == pytest.approx(1000.0, rel=0.02)


def check_gradient(names: dict[str, Any]) -> None:
    gradient = names["density"].grad
    assert gradient.isfinite().all() and (gradient != 0).all()


def check_jacobian(names: dict[str, Any]) -> None:
    assert names["pictures"].shape == (4, 128, 128, 3) and names["jacobian"].shape == (4, 3, 128, 128, 3)
    largest = names["jacobian"].abs().amax(dim=(2, 3, 4))
    assert largest.isfinite().all() and (largest > 1e-3).all()


def check_cameras(names: dict[str, Any]) -> None:
    """The file's camera looks along -y of its world, from 0.8 units: with z up it looks along +y."""
    added = names["scene"].cameras[1:]
    assert [(camera.name, camera.width, camera.height) for camera in added] == [("images_0001_jpg", 64, 48)]
    record = camera_of_a_file()
    forward = record.rotation[2]  # z up from y up: (x, y, z) becomes (x, -z, y)
    np.testing.assert_allclose(added[0].rotation[2], [forward[0], -forward[2], forward[1]], atol=1e-12)
    np.testing.assert_allclose(added[0].position, [0.0, 0.8, 0.0], atol=1e-12)
    np.testing.assert_allclose(added[0].distortion, record.distortion)


def check_film(names: dict[str, Any]) -> None:
    film = names["film"].detach()
    assert film.shape == (1, 11, 128, 128, 4)
    assert film.isfinite().all() and film[..., 3].amax() > 0.99 and film[..., 3].amin() == 0


def check_network(names: dict[str, Any]) -> None:
    """A network of nine outputs, from pictures whose derivatives by eight entries of psi were at hand."""
    batch = names["batch"]
    assert batch.images.shape == (3, 64, 64, 3) and batch.jacobian.shape == (3, 8, 64, 64, 3)
    network, _ = load_network(names["network"])
    assert network.read(batch.images).shape == batch.outputs.shape == (3, 9)


def check_head(names: dict[str, Any]) -> None:
    """Outputs and physical values of drawn states agree with their poses."""
    head, scene = names["planar"], training_scene("my_scene.py", 64)
    assert head.labels == ["x", "y", "sin yaw", "cos yaw"] and head.to_json()["kind"] == "planar_pose"
    poses = head.sample(scene, np.random.default_rng(3))
    physical = head.physical(head.outputs(scene, poses))
    np.testing.assert_allclose(physical["place"].cpu().numpy(), poses[0, :2].cpu().numpy(), atol=1e-6)
    assert head.yaw[0] < float(physical["heading"]) < head.yaw[1]


def check_joints(names: dict[str, Any]) -> None:
    states = names["lamps"]
    assert states.joint_q.shape == (2, 41, 2) and states.finite.all()
    assert (states.body_q[0, 0, 0, :3] - states.body_q[1, 0, 0, :3]).norm() == pytest.approx(0.1, rel=1e-5)


def check_oracle(names: dict[str, Any]) -> None:
    assert names["found"].values["ground.contact.stiffness"] == pytest.approx(1000.0, rel=0.01)


# What is looked at after a block, by a name that it makes.
def check_robot(names: dict[str, Any]) -> None:
    """The arm of the page of articulated bodies, in two worlds."""
    assert names["robot"].unsupported and names["robot"].mimics
    angles = names["turned"].joint_q[:, -1]
    assert angles.shape == (2, 6) and abs(angles[0, 1] - angles[1, 1]) > 1e-3
    assert (angles[:, 4] - angles[:, 5]).abs().max() < 1e-6


def check_blocks(names: dict[str, Any]) -> None:
    """Stiffer blocks sag less, and the gradient says so."""
    heights = names["blocks"].particle_q[:, -1, :, 2].mean(dim=1)
    assert names["blocks"].particle_q.shape == (2, 11, 63, 3) and heights[1] > heights[0]
    assert (names["E"].grad > 0).all() and names["E"].grad[0] > names["E"].grad[1]


def check_driven(names: dict[str, Any]) -> None:
    """The block comes nearer to its picture."""
    errors = names["reached"].search.history.errors
    assert len(errors) == 9 and min(errors) < 0.8 * errors[0]
    assert Path("runs/taller/policy.safetensors").is_file()


def check_times(names: dict[str, Any]) -> None:
    """Ten blurred pictures at the film's own rate."""
    film, states = names["blurred"], names["scene"].rollout()
    assert film.shape == (1, 10, 64, 64, 3) and film.isfinite().all()
    np.testing.assert_allclose(states.moment[0, :2].cpu().numpy(), [0.003, 0.003 + 1 / 30])
    assert (film - names["scene"].render(states.body_q)).abs().max() > 0.01


def check_part(names: dict[str, Any]) -> None:
    """Eight frames of the film, twice as coarse, are in the folder with their times."""
    assert names["facts"].frames == 12 and names["part"].pictures.shape == (8, 24, 32, 3)
    back = read_film("runs/part")
    np.testing.assert_allclose(back.times, names["part"].times)
    assert back.clock.start == pytest.approx(2 / 30) and back.placement.scale == (2.0, 2.0)


def check_rulers(names: dict[str, Any]) -> None:
    """The softer ruler sags more, and the gradient says so."""
    heights = names["rulers"].particle_q[:, -1, :, 2].mean(dim=1)
    assert heights[0] < heights[1] < 0 and (names["modulus"].grad > 0).all()


def check_plume(names: dict[str, Any]) -> None:
    """The blob rises."""
    plume = names["plume"]
    dark = (0.9 - plume[0, ..., 0].cpu().numpy()).sum(axis=2)  # before a background of .9
    heights = dark @ np.arange(96) / dark.sum(axis=1)
    assert plume.shape == (1, 21, 96, 96, 3) and dark.min() >= -1e-4 and heights[-1] < heights[0] - 2  # row 0 is at the top


def check_steps(made: dict[str, Any]) -> None:
    thrust, stepped = made["thrust"], made["stepped"]
    assert thrust.grad.shape == (1, 4) and (thrust.grad > 0).all() and made["state"].frame == 5
    assert stepped.last.frame == 8 and torch.equal(stepped.body_q[:, 0], made["state"].body_q.detach())
    assert made["pictures"].shape == (1, 4, 64, 64, 3)


def check_filmed_forces(made: dict[str, Any]) -> None:
    """The force of the ground at the estimates is that of the true scene, in the impacts; the ball touches nothing in flight."""
    force, known = made["filmed_forces"].body_contact[0, :, 0, 2], made["known"]
    assert (known == 0).sum() > 20 and known.max() > 20
    assert (force - known).abs().max() < 0.1 * known.max()
    assert Path("contact_force.png").stat().st_size > 0


def check_forces_at_a_state(made: dict[str, Any]) -> None:
    """The force on the cube at a state has a derivative by the stiffness: force / stiffness, without damping."""
    assert made["at_state"].body_contact.shape == (1, 1, 6) and made["stiffness"].grad.isfinite()


def check_throw(made: dict[str, Any]) -> None:
    """The throw reaches the target: uniform gravity, in closed form over half a second."""
    assert made["misses"][-1] < 1e-4 < made["misses"][0]
    np.testing.assert_allclose(made["velocity"], [2 / 0.5, 0, 0.5 / 0.5 + 9.81 * 0.5 / 2], atol=0.01)


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "result": check_inversion, "density": check_gradient, "jacobian": check_jacobian, "record": check_cameras, "film": check_film,
    "network": check_network, "planar": check_head, "found": check_oracle, "lamps": check_joints,
    "robot": check_robot, "blocks": check_blocks, "reached": check_driven, "blurred": check_times, "facts": check_part,
    "plume": check_plume, "rulers": check_rulers, "stepped": check_steps,
    "filmed_forces": check_filmed_forces, "at_state": check_forces_at_a_state,
    "misses": check_throw,
}  # fmt: skip


@pytest.mark.usefixtures("undiagnosed")
@pytest.mark.parametrize("block", PLAIN)
def test_python_blocks_run(block: str, stranger: Path) -> None:
    """Every other Python block runs, as it stands or smaller, and makes what it says."""
    names: dict[str, Any] = {"FEW": SearchStages(steps=OptimiseSettings(iterations=12), refine=4)}
    for said, small in SMALL_BLOCKS.items():
        block = block.replace(said, small)
    source = Path("block.py").resolve()  # Taichi reads kernels from their file
    source.write_text(block, encoding="utf-8")
    exec(compile(block, str(source), "exec"), names)
    made = [name for name in CHECKS if name in names]
    assert len(made) == 1, "a new block needs a check of its own"
    CHECKS[made[0]](names)


def test_every_check_has_its_block() -> None:
    assert len(PLAIN) == len(CHECKS)


def test_what_is_made_smaller_is_there() -> None:
    text = "\n".join(PLAIN)
    assert all(said in text for said in SMALL_BLOCKS)


@pytest.mark.parametrize("link", sorted({link for link in LINKS if ":/" not in link} | set(FILES)))
def test_links_and_named_files_lead_somewhere(link: str) -> None:
    assert (ROOT / link).is_file()


def test_table_of_commands_is_complete() -> None:
    """Every command of the program stands in the README."""
    for name in PROGRAM:
        assert f"`risp {name}" in TEXT
