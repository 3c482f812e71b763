"""RISP (ICLR 2022): tasks, state heads, the network, its data, its training and its evaluation."""

from risp_torch.risp.dataset.batch import Batch, Source
from risp_torch.risp.dataset.generate import Generated, generate, ranks_from_environment
from risp_torch.risp.dataset.renderer import RendererSource
from risp_torch.risp.dataset.settings import DatasetSettings
from risp_torch.risp.dataset.source import ShardSource
from risp_torch.risp.domains.domains import Domains, PhotorealDomain, RasteriserDomain
from risp_torch.risp.evaluation.errors import StateErrors
from risp_torch.risp.evaluation.evaluate import Evaluation, evaluate
from risp_torch.risp.evaluation.report import error_table
from risp_torch.risp.evaluation.test_set import TestSet, TestSettings, make_test_set
from risp_torch.risp.network.file import check_network, load_network, save_network
from risp_torch.risp.network.resnet import NetworkSettings, RispNetwork
from risp_torch.risp.photoreal import photoreal_film, write_photoreal_frames
from risp_torch.risp.task import RispTask, load_task, resize_pictures, training_scene
from risp_torch.risp.training.settings import TrainSettings, preset
from risp_torch.risp.training.train import train
from risp_torch.scene.state_heads.head import StateHead
from risp_torch.scene.state_heads.joint_angles import JointAngleHead
from risp_torch.scene.state_heads.rigid_pose import RigidPoseHead
from risp_torch.scene.state_heads.sensors import SensorHead

__all__ = [
    "Batch", "DatasetSettings", "Domains", "Evaluation", "Generated", "JointAngleHead", "NetworkSettings",
    "PhotorealDomain", "RasteriserDomain", "RendererSource", "RigidPoseHead", "RispNetwork", "RispTask", "SensorHead",
    "ShardSource", "Source", "StateErrors", "StateHead", "TestSet", "TestSettings", "TrainSettings", "check_network",
    "error_table", "evaluate", "generate", "load_network", "load_task", "make_test_set", "photoreal_film", "preset",
    "ranks_from_environment", "resize_pictures", "save_network", "train", "training_scene", "write_photoreal_frames",
]  # fmt: skip
