"""The filesystem layer: a session's files, and those that it is given to read."""

from interpreter.workspace.datasets import Datasets
from interpreter.workspace.inputs import InputFolders
from interpreter.workspace.workspaces import Workspace, Workspaces

__all__ = ["Datasets", "InputFolders", "Workspace", "Workspaces"]
