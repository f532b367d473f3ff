"""The filesystem layer: files of sessions, and files with a name."""

from interpreter.workspace.storage import Storage, Workspace
from interpreter.workspace.workspaces import Workspaces

__all__ = ["Storage", "Workspace", "Workspaces"]
