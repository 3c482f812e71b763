"""Which of Mitsuba's variants is used, and settings of a path-traced film that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import ti_render.photoreal.variant as variants
from tests.reference.photoreal_inputs import needs_mitsuba, two_boxes
from ti_render import RasterSettings
from ti_render.photoreal import MitsubaRenderer, MitsubaSettings, choose_variant, draw_appearance
from ti_sim.base.errors import UserError


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1", 19),
        ("/usr/lib/x86_64-linux-gnu/libLLVM-17.so.1", 17),
        ("/usr/lib/llvm-18/lib/libLLVM.so", 18),
        ("/opt/homebrew/opt/llvm@20/lib/libLLVM.dylib", 20),
        ("/usr/lib/libLLVM-14.0.6.so.1", 14),
        ("/usr/lib/libLLVM.so", 0),
        ("/venv/lib/python3.11/site-packages/thing.libs/libLLVM-19-0a1b2c3d.so.1", 19),
        ("/venv/lib/python3.11/site-packages/thing.libs/libLLVM-12345678.so.20.1", 20),
    ],
)
def test_versions_in_file_names(path: str, version: int) -> None:
    assert variants._version_in(path) == version


def test_old_libraries_are_never_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("libLLVM-15.so.1", "libLLVM-16.so.1", "libLLVM.so", "libLLVM-18.so.1", "libLLVM.so.19.1"):
        (tmp_path / name).write_bytes(b"not a library")
    monkeypatch.setattr(variants, "_path_patterns", lambda: [f"{tmp_path}/libLLVM*"])
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    assert [Path(path).name for path in variants._candidates()] == ["libLLVM.so.19.1", "libLLVM-18.so.1"]


def test_libraries_of_wheels_and_of_the_environment_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "lib" / "python" / "site-packages"
    wanted = [packages / "thing.libs" / "libLLVM-19-0a1b2c3d.so", packages / "llvm" / "lib" / "libLLVM.so.18.1"]
    wanted += [tmp_path / "lib" / "libLLVM-17.so"]
    for path in wanted:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not a library")
    monkeypatch.setattr(variants.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(variants.sysconfig, "get_path", lambda name: str(packages))
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.setattr(variants, "_LIBRARY_PATTERNS", ())
    assert variants._candidates() == [str(path) for path in wanted]


@needs_mitsuba
def test_a_library_that_does_not_work_is_not_loaded_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "libLLVM.so.19.1"
    bad.write_bytes(b"not a library")
    monkeypatch.setenv("DRJIT_LIBLLVM_PATH", str(bad))
    monkeypatch.setattr(variants, "_loaded_llvm", lambda: None)
    variants.find_llvm.cache_clear()
    assert variants.find_llvm() is None
    assert choose_variant("auto").name == "scalar_rgb" and "LLVM 17" in str(choose_variant("auto"))
    with pytest.raises(UserError, match="llvm_ad_rgb needs an LLVM library of version 17 or newer.*scalar_rgb"):
        choose_variant("llvm_ad_rgb")
    variants.find_llvm.cache_clear()


@needs_mitsuba
@pytest.mark.parametrize(
    ("loaded", "wanted"), [((15, 0, 6), "scalar_rgb"), ((19, 1, 7), "llvm_ad_rgb"), ((-1, -1, -1), "scalar_rgb")]
)
def test_a_loaded_llvm_decides(monkeypatch: pytest.MonkeyPatch, loaded: tuple[int, ...], wanted: str) -> None:
    monkeypatch.setattr(variants, "_loaded_llvm", lambda: loaded)
    monkeypatch.setattr(variants, "find_llvm", lambda: pytest.fail("a library was looked for"))
    assert choose_variant("auto").name == wanted


@pytest.mark.parametrize(
    ("setting", "culprit"),
    [
        ({"look": "nice"}, "look 'nice'"),
        ({"variant": "cuda"}, "variant 'cuda'"),
        ({"samples": 0}, "samples is 0"),
        ({"mask_side": 0}, "mask_side is 0"),
        ({"depth": 1}, "depth is 1"),
        ({"look": "match", "floor": True}, "a floor was asked for in pictures that match the scene"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_settings_are_refused(setting: dict[str, object], culprit: str) -> None:
    with pytest.raises(UserError, match=culprit):
        MitsubaSettings(**setting)


@needs_mitsuba
@pytest.mark.parametrize(
    ("quantity", "options", "culprit"),
    [
        ("depth", MitsubaSettings(), "quantity 'depth'"),
        ("color", MitsubaSettings(look="match"), "leave it out"),
        ("color", MitsubaSettings(variant="scalar_rgb"), "no number 'body1.roughness'"),
    ],
)
def test_a_film_that_cannot_be_made_is_refused(quantity: str, options: MitsubaSettings, culprit: str) -> None:
    settings = RasterSettings(width=8, height=8, quantity=quantity)
    with pytest.raises(UserError, match=culprit):
        MitsubaRenderer(two_boxes(), settings, options=options, appearance=draw_appearance(["body0", "static"], seed=0))
