"""Control of deformable bodies by torch networks."""

from risp_torch.control.files import load_policy, save_policy
from risp_torch.control.objectives import GoalLoss
from risp_torch.control.observers import RispObserver, StateObserver
from risp_torch.control.optimise import History, PolicySearchResult, search
from risp_torch.control.policies import DirectPolicy, FeedbackPolicy, SinePolicy, control_times
from risp_torch.control.replan import ReplanResult, replan
from risp_torch.control.report import film_of
from risp_torch.control.result import Control
from risp_torch.control.rollouts import ControlledRollout, closed_loop, open_loop
from risp_torch.control.run import control, settings_of
from risp_torch.control.task import OBJECTIVES, ControlTask, Feedback, Goal, load_control
from risp_torch.control.windows import Windows

__all__ = [
    "Control", "ControlTask", "ControlledRollout", "DirectPolicy", "Feedback", "FeedbackPolicy", "Goal", "GoalLoss",
    "History", "OBJECTIVES", "PolicySearchResult", "ReplanResult", "RispObserver", "SinePolicy", "StateObserver", "Windows",
    "closed_loop", "control", "control_times", "film_of", "load_control", "load_policy", "open_loop", "replan", "save_policy",
    "search", "settings_of",
]  # fmt: skip
