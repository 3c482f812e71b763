"""The RISP network: a residual network that reads a scene's state from one picture, and its files."""

from risp_torch.risp.network.file import check_network, load_network, save_network
from risp_torch.risp.network.resnet import NetworkSettings, RispNetwork

__all__ = ["NetworkSettings", "RispNetwork", "check_network", "load_network", "save_network"]
