"""The filesystem layer: a session's files, and those that it is given to read."""

from interpreter.workspace.datasets import Datasets
from interpreter.workspace.incoming import Incoming
from interpreter.workspace.inputs import InputFolders
from interpreter.workspace.tree import OpenFile, Tree
from interpreter.workspace.watching.changes import Found
from interpreter.workspace.watching.recording import Recording
from interpreter.workspace.watching.watch import Watched
from interpreter.workspace.workspaces import Workspace, Workspaces

__all__ = [
    "Datasets",
    "Found",
    "Incoming",
    "InputFolders",
    "OpenFile",
    "Recording",
    "Tree",
    "Watched",
    "Workspace",
    "Workspaces",
]
