"""Registry of public data sets: their sources, their licences, and the checksums of their files."""

from __future__ import annotations

from dataclasses import dataclass

from risp_torch.files.suggest import unknown_name_error

__all__ = ["DATA_SETS", "DataFile", "DataSet", "DataSource", "find_data_set"]


@dataclass(frozen=True)
class DataSource:
    """A commit of a public repository.

    Attributes:
        repository: "owner/name" on GitHub.
        commit: hash of the commit, so that the files at the addresses never change.
        copyright: copyright notice that the licence requires to be kept with the files.
    """

    repository: str
    commit: str
    copyright: str

    def file(self, path: str, size: int, sha256: str, *, name: str | None = None) -> DataFile:
        """A file of this commit, with its address.

        Args:
            path: path in the repository.
            size, sha256: as in ``DataFile``.
            name: path in the folder of the data set; by default the last part of ``path``.
        """
        url = f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{path}"
        return DataFile(name=name or path.rpartition("/")[2], sha256=sha256, size=size, url=url)


@dataclass(frozen=True)
class DataFile:
    """A file of a data set.

    Attributes:
        name: path in the folder of the data set.
        sha256: checksum of its bytes, in hexadecimal.
        size: number of its bytes.
        url: address; None for a file that cannot be downloaded.
        made_of: origin of a file without an address.
    """

    name: str
    sha256: str
    size: int
    url: str | None
    made_of: str = ""


@dataclass(frozen=True)
class DataSet:
    """A public data set.

    Attributes:
        name: key in ``DATA_SETS`` and name of its folder.
        title: a description in one line.
        licence: identifier of the licence (SPDX), which is that of all its sources.
        licence_file: name of the file, one of ``files``, that has the licence's text.
        sources: repositories of the files.
        files: all files of the data set.
    """

    name: str
    title: str
    licence: str
    licence_file: str
    sources: tuple[DataSource, ...]
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Number of bytes of all files."""
        return sum(file.size for file in self.files)


_CONTACTNETS = DataSource("DAIRLab/contact-nets", "c3dc21c", "Copyright (c) 2020, Dynamic Autonomy and Intelligent Robotics Lab")
_DAIR_PLL = DataSource("DAIRLab/dair_pll", "523d372", "Copyright (c) 2022, Dynamic Autonomy and Intelligent Robotics Lab")
_DFKI = DataSource(
    "dfki-ric-underactuated-lab/double_pendulum", "1e8544e", "Copyright (c) 2022, DFKI RIC Underactuated Robotics Lab"
)
_MODEL_FOLDER = "data/system_identification/identified_parameters/design_A.0"
_ROBOT_FOLDER = "data/urdfs/design_A.0/model_1.0"

_CONTACTNETS_CUBE = DataSet(
    name="contactnets_cube",
    title="570 real tosses of a cube: poses and velocities at 148 Hz, no film",
    licence="BSD-3-Clause",
    licence_file="LICENSE",
    sources=(_CONTACTNETS, _DAIR_PLL),
    files=(
        _CONTACTNETS.file("LICENSE", 1553, "d84804c31587d432706b847afc13258c928a7092ff77ceb0e79269049dfba2c9"),
        _CONTACTNETS.file(
            "data/params_processed/experiment.json", 1140, "66de56e9c94479204fdc608caebedbda3eb8b36d876df4c64ee3b42cbe00c273",
        ),
        _DAIR_PLL.file("assets/contactnets_cube.urdf", 1031, "eb87f6e138d5d9f1b8bcae73235892aa4cb4502f2bc0aeabeb72e1a7137dbad3"),
        _DAIR_PLL.file("assets/contactnets_cube.obj", 637, "48294c0bc6c706950877c826c4b7e6a46f915312da1925c7e10e45c468130ff1"),
        DataFile(
            name="all570_si.npz", size=5575276, url=None,
            sha256="c7b20ad077512882ce5b37cd6e1312cb057db9b2f03620469027a42903210448",
            made_of="the 570 .pt files in data/tosses_processed of DAIRLab/contact-nets, in metres",
        ),
    ),
)  # fmt: skip

_DFKI_DOUBLE_PENDULUM = DataSet(
    name="dfki_double_pendulum",
    title="film of a real double pendulum that is swung up, with joint angles and torques at 400 Hz",
    licence="BSD-3-Clause",
    licence_file="LICENSE",
    sources=(_DFKI,),
    files=(
        _DFKI.file("LICENSE", 1543, "522ac3234664fc921c1e5f7e7a4af4e5caca11d64158e15e61e0387280a54270"),
        _DFKI.file(
            "docs/figures/experiment_swingup_pendubot_tvlqr.m4v", 2236067,
            "f67fa480e24af831830c2aee20936a6f72cfd2b28964fd2f7464a6ce0f81c399",
        ),
        _DFKI.file(
            "data/experiment_records/design_A.0/20220819/175617-pendubot_tvlqr_lqr_VIDEO/trajectory.csv", 3049224,
            "376ffdb5bdc705ad6aeaa56b0233f7512663ebab8bb68708350dcd256bcb85d1",
        ),
        *(
            _DFKI.file(f"{_MODEL_FOLDER}/model_{number}/model_parameters.yml", size, sha256, name=f"model_{number}.yml")
            for number, size, sha256 in (
                ("1.0", 172, "65c09304af7885af409454383a2f14f7f48f0724fe0a26ccbc175d2df98365d9"),
                ("2.0", 247, "2c03ccd07dc64a9d737c1dc5eaa4bc3d51c76f702b6a2164348594de0b35e01e"),
                ("2.1", 219, "43d14672611ad9cef17e8151d3df18499b140e03106c569490ab9e7a1caa7bef"),
            )
        ),
        *(
            _DFKI.file(f"{_ROBOT_FOLDER}/{path}", size, sha256, name=path)
            for path, size, sha256 in (
                ("pendubot.urdf", 4208, "e62eb0a4f8c1a2906550f0e9a28193554bd0308d5c546d6c2ddc22f7735bb0e5"),
                ("meshes/base_link.STL", 196984, "cdb81969377bf5cf79eacc0c516cd64d0b54b6e9c561ecca2acf13b249dc74aa"),
                ("meshes/Link1.STL", 698884, "5e833a3b4a94f6f30a7c8a8e9ad30cb6c50fa2f48efc14fed99535955fb664a5"),
                ("meshes/Link2.STL", 518284, "bc4af707e75b4598dcad4ce53c81be5845b1e854e5cded66c6d456e80988cae7"),
                ("meshes/Weight.STL", 162184, "6bb9a48c8b55df10cccb7f669c6a93cea29e8029445179412211563b7509f27f"),
            )
        ),
    ),
)  # fmt: skip

DATA_SETS: dict[str, DataSet] = {data_set.name: data_set for data_set in (_CONTACTNETS_CUBE, _DFKI_DOUBLE_PENDULUM)}


def find_data_set(name: str) -> DataSet:
    """The data set of a name.

    Args:
        name: a key of ``DATA_SETS``.

    Returns:
        The data set.

    Raises:
        UserError: there is none of this name; the message lists those that are like it.
    """
    if name not in DATA_SETS:
        raise unknown_name_error("data set", name, DATA_SETS)
    return DATA_SETS[name]
