"""The packages of a wheel: the folder ``scenes`` is installed under a name of the project's own; ``studies`` is not in it."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["ti_sim*", "ti_render*", "risp_torch*"]), "risp_torch_scenes", "risp_torch_scenes.real",
    ],
    package_dir={"risp_torch_scenes": "scenes"},
)
