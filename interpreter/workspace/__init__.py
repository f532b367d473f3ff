"""The filesystem layer: a session's files."""

from interpreter.workspace.incoming import Incoming
from interpreter.workspace.tree import OpenFile, Tree
from interpreter.workspace.workspaces import Workspace, Workspaces

__all__ = ["Incoming", "OpenFile", "Tree", "Workspace", "Workspaces"]
