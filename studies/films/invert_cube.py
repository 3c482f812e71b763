"""A scripted inversion: the contact stiffness of the die from a film of it, in a dozen lines."""

from pathlib import Path

from risp_torch import OptimiseSettings, invert, load_scene, simulate_video


def main(out: str = "runs/invert_cube", iterations: int = 60, size: int = 128) -> float:
    """Film the die with its true stiffness, forget it, find it; returns the error of log10 stiffness."""
    scene = load_scene("cube", size=size)
    video = simulate_video(scene, Path(out) / "target.mp4")
    result = invert(
        scene, video, ["ground.contact.stiffness"], search=OptimiseSettings(iterations=iterations), out=Path(out) / "run"
    )
    error = result.scaled_error({"ground.contact.stiffness": 1e3})["ground.contact.stiffness"]
    print(f"stiffness {result.values['ground.contact.stiffness']:.1f} N/m, log10 error {error:+.4f}")
    return float(error)


if __name__ == "__main__":
    main()
