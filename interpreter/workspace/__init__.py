"""The filesystem layer: files of sessions, those that they are given to read, and files with a name."""

from interpreter.workspace.datasets import Datasets
from interpreter.workspace.incoming import Incoming
from interpreter.workspace.inputs import InputFolders
from interpreter.workspace.storage import Storage, Workspace
from interpreter.workspace.tree import OpenFile, Tree
from interpreter.workspace.watching.changes import Found
from interpreter.workspace.watching.recording import Recording
from interpreter.workspace.watching.watch import Watched
from interpreter.workspace.workspaces import Workspaces

__all__ = [
    "Datasets",
    "Found",
    "Incoming",
    "InputFolders",
    "OpenFile",
    "Recording",
    "Storage",
    "Tree",
    "Watched",
    "Workspace",
    "Workspaces",
]
