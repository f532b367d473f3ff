"""The filesystem layer: a session's files."""

from interpreter.workspace.workspaces import Workspaces

__all__ = ["Workspaces"]
