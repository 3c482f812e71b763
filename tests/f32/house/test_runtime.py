"""Importing starts nothing, and the runtime starts once, as it is asked to; each start in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import ti_sim
from ti_sim.base import kernel_cache
from ti_sim.base.kernel_cache import cache_folder, home_directory, writable_cache
from ti_sim.base.runtime import ti

pytestmark = pytest.mark.processes


def python(source: str, *, env: dict[str, str | None] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, without the variables that are None in ``env``."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith("RISP_")} | (env or {})
    settings = {k: v for k, v in settings.items() if v is not None}
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=300, env=settings)


def printed(source: str, **options: dict[str, str | None]) -> str:
    """What a program prints; it must end well and say nothing on stderr."""
    done = python(source, **options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_missing_libx11_is_named_with_its_package(tmp_path: Path) -> None:
    (tmp_path / "taichi.py").write_text("raise ImportError('libX11.so.6: cannot open shared object file')\n", encoding="utf-8")
    done = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ti_sim")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].endswith("install it (apt-get install libx11-6)")


def test_importing_and_making_and_listing_scenes_starts_nothing() -> None:
    """Of modules imported in this order, each is judged by what it adds to those before it."""
    out = printed(
        "import importlib, sys\n"
        "for module in ('ti_sim', 'ti_render', 'risp_torch', 'risp_torch.__main__', 'scenes.cube'):\n"
        "    importlib.import_module(module)\n"
        "    from ti_sim.base.runtime import ti\n"
        "    loaded = [name for name in ('torch', 'matplotlib', 'av', 'trimesh', 'PIL') if name in sys.modules]\n"
        "    print(module, ti.lang.impl.get_runtime().prog is None, *loaded)\n"
        "from risp_torch import load_scene, scene_names\n"
        "names = [load_scene(name).name for name in scene_names()]\n"
        "print('cube' in names, ti.lang.impl.get_runtime().prog is None)"
    )
    *imports, scenes = (line.split() for line in out.splitlines())
    for module, nothing_started, *loaded in imports:
        assert nothing_started == "True", module
        assert set(loaded) <= (set() if module.startswith("ti_") else {"torch"}), module
    assert len(imports) == 5 and scenes == ["True", "True"]


def test_the_first_simulation_starts_the_runtime() -> None:
    source = (
        "import risp_torch\n"
        "from ti_sim.base.runtime import require\n"
        "states = risp_torch.load_scene('cube', size=8).rollout(frames=1)\n"
        "print(require().device, require().precision, require().adopted, states.body_q.dtype)"
    )
    assert printed(source, env={"RISP_DEVICE": "cpu"}) == "cpu f32 False torch.float32"
    assert printed(source, env={"RISP_DEVICE": "cpu", "RISP_PRECISION": "f64"}) == "cpu f64 False torch.float64"


def test_kernels_are_cached_though_a_gradient_is_alive_at_the_end(tmp_path: Path) -> None:
    source = (
        "import risp_torch\n"
        "scene = risp_torch.load_scene('cube', size=8)\n"
        "values = {name: value.requires_grad_() for name, value in scene.table.values().items()}\n"
        "states = scene.rollout(values, frames=1)\n"
        "print(states.body_q.requires_grad)"
    )
    assert printed(source, env={"RISP_DEVICE": "cpu", "XDG_CACHE_HOME": str(tmp_path)}) == "True"
    assert list((tmp_path / "risp-taichi" / "kernels").glob("*.tic"))


def test_more_kernels_are_cached_than_taichi_keeps() -> None:
    """Taichi's limit of 100 MiB would delete kernels of this many scenes as each process ends."""
    assert ti.lang.impl.current_cfg().offline_cache_max_size_of_files == kernel_cache.CACHED_BYTES > 1e9


def test_without_a_home_and_a_place_for_kernels_a_temporary_one_serves(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    source = (
        "import os\n"
        "del os.environ['HOME']\n"
        "from ti_sim.base.runtime import start, ti\n"
        "start(device='cpu')\n"
        "folder = ti.lang.impl.current_cfg().offline_cache_file_path\n"
        "import risp_torch\n"
        "risp_torch.load_scene('cube', size=8).rollout(frames=1)\n"
        "print(folder)"
    )
    done = python(source, env={"XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path and not folder.exists()  # it went with the process
    assert f"{tmp_path / 'file' / 'risp-taichi' / 'kernels'} cannot be written (Not a directory)" in done.stderr


def test_the_place_for_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    usual = tmp_path / ".cache" / "risp-taichi" / "kernels"
    for given in ("", "cache"):  # no absolute path: the specification of these folders has it left out of account
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert writable_cache() == cache_folder() == usual and usual.is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert writable_cache() == tmp_path / "other" / "risp-taichi" / "kernels"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owners here")
def test_kernels_are_not_loaded_from_folders_that_others_can_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code is loaded from them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    usual = tmp_path / "risp-taichi" / "kernels"
    assert writable_cache() == usual and {folder.stat().st_mode & 0o777 for folder in (usual, usual.parent)} == {0o700}
    usual.chmod(0o755)
    assert writable_cache() == usual and usual.stat().st_mode & 0o777 == 0o700

    def refused(words: str) -> None:
        with pytest.warns(UserWarning, match=words):
            folder = writable_cache()
        assert folder is not None and folder.stat().st_mode & 0o777 == 0o700 and tmp_path not in folder.parents

    for folder in (usual, usual.parent):
        folder.chmod(0o777)
        refused(f"is not used: other users can write to {folder}, .* remove it, or set XDG_CACHE_HOME")
        folder.chmod(0o700)
    tmp_path.chmod(0o777)
    refused(f"every user can replace what is in {tmp_path}")
    tmp_path.chmod(0o1777)  # as folders of temporary files are: no user replaces what belongs to another
    assert writable_cache() == usual
    usual.rmdir()
    (tmp_path / "elsewhere").mkdir()
    usual.symlink_to(tmp_path / "elsewhere")
    refused("is a link or no folder")
    if os.getuid() == 0:
        usual.unlink()
        usual.mkdir()
        os.chown(usual, 12345, 12345)
        refused("belongs to another user")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owners here")
def test_without_a_home_its_place_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kernel_cache._private_home.cache_clear()
    expected = tmp_path / f"risp-taichi-{os.getuid()}"
    assert home_directory() == expected and expected.stat().st_mode & 0o777 == 0o700
    expected.chmod(0o777)
    kernel_cache._private_home.cache_clear()
    other = home_directory()
    assert other.parent == tmp_path and other != expected and other.stat().st_mode & 0o777 == 0o700
    kernel_cache._private_home.cache_clear()


def test_a_runtime_that_the_user_started_is_adopted() -> None:
    out = printed(
        "import taichi as ti\n"
        "ti.init(arch=ti.cpu, default_fp=ti.f32, log_level=ti.ERROR)\n"
        "prog = ti.lang.impl.get_runtime().prog\n"
        "from ti_sim.base.runtime import require, start\n"
        "import risp_torch\n"
        "states = risp_torch.load_scene('cube', size=8).rollout(frames=1)\n"
        "assert ti.lang.impl.get_runtime().prog is prog\n"
        "print(start(precision='f32') == require(), require().adopted, require().precision, states.finite.item())"
    )
    assert out.splitlines()[-1] == "True True f32 True"


def test_a_runtime_of_half_precision_is_refused() -> None:
    out = printed(
        "import taichi as ti\n"
        "ti.init(arch=ti.cpu, default_fp=ti.f16, log_level=ti.ERROR)\n"
        "import risp_torch\n"
        "for use in (risp_torch.start, risp_torch.load_scene('cube').rollout):\n"
        "    try: use()\n"
        "    except risp_torch.UserError as error: print(error)\n"
    )
    lines = out.splitlines()[-2:]
    assert all(line.startswith("taichi was started with default_fp=f16: start it with ti.f32 or ti.f64") for line in lines), out


def test_an_adopted_runtime_of_another_precision_is_an_error() -> None:
    out = printed(
        "import taichi as ti\n"
        "ti.init(arch=ti.cpu, default_fp=ti.f64, log_level=ti.ERROR)\n"
        "import risp_torch\n"
        "try: risp_torch.start(precision='f32')\n"
        "except risp_torch.UserError as error: print(error)\n"
    )
    assert out.splitlines()[-1].startswith("the runtime already runs on cpu in f64, and auto in f32 was asked for")


def test_starting_twice() -> None:
    """In this process, which runs in f32."""
    running = ti_sim.start(precision="f32")
    assert running is ti_sim.start(device=running.device, precision="f32") and not running.adopted
    with pytest.raises(ti_sim.UserError, match="already runs on .* in f32, and auto in f64 was asked for: .*new process"):
        ti_sim.start(precision="f64")
    with pytest.raises(ti_sim.UserError, match="precision 'f16' is unknown: choose one of f32, f64"):
        ti_sim.start(precision="f16")
    with pytest.raises(ti_sim.UserError, match="device 'gpu' is unknown: choose one of auto, cpu, cuda, vulkan"):
        ti_sim.start(device="gpu")


def test_one_thread_may_be_chosen_and_gives_identical_bits() -> None:
    out = printed(
        "import risp_torch, torch\n"
        "from ti_sim.base.runtime import ti\n"
        "risp_torch.start(device='cpu', precision='f32', threads=1)\n"
        "scene = risp_torch.load_scene('toss', size=16)\n"
        "def gradient():\n"
        "    x = torch.tensor(600.0, requires_grad=True)\n"
        "    (scene.rollout({'body.density': x}, frames=14).body_q ** 2).sum().backward()\n"
        "    return x.grad\n"
        "same = torch.equal(gradient(), gradient()) and float(gradient()) != 0\n"
        "print(ti.lang.impl.current_cfg().cpu_max_num_threads, same)",
        env={"TI_CPU_MAX_NUM_THREADS": None},  # Taichi warns that the argument overrides it
    )
    assert out == "1 True"


def test_our_kernels_say_where_an_error_is_and_leave_taichi_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from ti_sim.base.runtime import without_cfg_optimisation, ti\n\n\n"
        "@ti.kernel\ndef wrong():\n    for _ in range(missing):\n        pass\n\n\nlight = without_cfg_optimisation(wrong)\n"
    )
    out = printed(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from wrong import light, ti\n"
        "context = ti.lang.ast.ast_transformer_utils.ASTTransformerContext\n"
        "place = context.get_pos_info\n"
        "try:\n    light()\nexcept Exception as error:\n    print(error)\n"
        "print(context.get_pos_info is place)"
    )
    assert "wrong.py\", line 6, in wrong" in out and "missing" in out and out.endswith("True")


KERNELS = """import threading
from ti_sim.base.runtime import at_optimisation_level_0, without_subexpression_elimination, ti
source = "@ti.kernel\\ndef k{0}(x: ti.types.ndarray()):\\n" + "    for i in x:\\n        x[i] = x[i] * {0} + i\\n" * 8
kernels = []
for number in range(12):
    path = f"{folder}/kernel_{number}.py"
    with open(path, "w") as file:
        file.write("from ti_sim.base.runtime import ti\\n" + source.format(number))
    kernels.append(getattr(__import__(f"kernel_{number}"), f"k{number}"))
"""


def with_kernels(folder: Path, program: str) -> str:
    """A program that begins with twelve kernels of its own."""
    return f"import sys; folder = {str(folder)!r}; sys.path.insert(0, folder)\n{KERNELS}{program}"


def test_threads_may_start_and_compile_at_once(tmp_path: Path) -> None:
    """Whatever a thread leaves out of its compilation, the settings of the program are what they were."""
    out = printed(with_kernels(tmp_path, """
import numpy as np
failures, barrier = [], threading.Barrier(3)
def work(first, light):
    try:
        barrier.wait()
        for kernel in kernels[first::3]:
            light(lambda: kernel(np.zeros(4, np.float32)))()
    except Exception as error:
        failures.append(repr(error))
lights = (at_optimisation_level_0, without_subexpression_elimination, at_optimisation_level_0)
threads = [threading.Thread(target=work, args=(n, light)) for n, light in enumerate(lights)]
for thread in threads: thread.start()
for thread in threads: thread.join()
config = ti.lang.impl.current_cfg()
print(failures, config.cfg_optimization, config.advanced_optimization, config.opt_level)
"""))  # fmt: skip
    assert out == "[] True True 1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_after_the_start_is_refused_and_one_before_it_is_not(tmp_path: Path) -> None:
    out = printed(with_kernels(tmp_path, """
import os, numpy as np, warnings
from ti_sim import UserError, start
warnings.simplefilter("ignore")
def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            print("went well", flush=True)
        except UserError as error:
            print(error, flush=True)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
def launch():
    start(device="cpu")
    kernels[0](np.zeros(4, np.float32))
child(launch)
launch()
child(launch)
child(lambda: kernels[0](np.zeros(4, np.float32)))
child(lambda: kernels[1](np.zeros(4, np.float32)))
"""))  # fmt: skip
    first, *others = out.splitlines()
    assert first == "went well" and len(others) == 3
    assert all("forked" in line and "DataLoader(multiprocessing_context='spawn')" in line for line in others)


def test_a_program_may_have_kernels_of_its_own(tmp_path: Path) -> None:
    """Around a program's own level there is no frame in which a class could be looked for."""
    program = tmp_path / "program.py"
    program.write_text(
        "import ti_sim\n"
        "from ti_sim.base.runtime import ti\n"
        "@ti.kernel\n"
        "def doubled(x: int) -> int:\n"
        "    return 2 * x\n"
        "ti_sim.start(device='cpu')\n"
        "print(doubled(21))\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "42"), done.stderr


def test_kernels_of_classes_and_kernels_of_one_name_stay_what_they_are(tmp_path: Path) -> None:
    """A class's kernel is still seen to be one, and sources are kept by function, not by name."""
    (tmp_path / "counting.py").write_text(
        "from ti_sim.base.runtime import ti\n"
        "@ti.data_oriented\n"
        "class Counter:\n"
        "    def __init__(self, step):\n"
        "        self.step = step\n"
        "    @ti.kernel\n"
        "    def after(self, x: int) -> int:\n"
        "        return x + self.step\n"
        "@ti.kernel\n"
        "def changed(x: int) -> int:\n"
        "    return 2 * x\n"
        "doubled = changed\n"
        "@ti.kernel\n"
        "def changed(x: int) -> int:\n"
        "    return 3 * x\n",
        encoding="utf-8",
    )
    out = printed(
        "import ti_sim\n"
        "from ti_sim.base.runtime import ti\n"
        "ti_sim.start(device='cpu')\n"
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import counting\n"
        "print(counting.Counter(3).after(4), counting.Counter(5).after(4), counting.doubled(7), counting.changed(7))"
    )
    assert out.split() == ["7", "9", "14", "21"]


def test_threads_of_torch_sleep_while_they_wait_unless_the_user_says_otherwise() -> None:
    source = "import risp_torch, os, torch; print(os.environ['OMP_WAIT_POLICY'])"
    assert printed(source, env={"OMP_WAIT_POLICY": "ACTIVE"}) == "ACTIVE"
    unset = f"import os; os.environ.pop('OMP_WAIT_POLICY', None); {source}"
    assert printed(unset) == "PASSIVE"


