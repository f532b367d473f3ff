"""The filesystem layer: a session's files."""

from interpreter.workspace.workspaces import Workspace, Workspaces

__all__ = ["Workspace", "Workspaces"]
