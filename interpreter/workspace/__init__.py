"""The filesystem layer: a session's files."""

from interpreter.workspace.changes import Found
from interpreter.workspace.recording import Recording
from interpreter.workspace.watch import Watched
from interpreter.workspace.workspaces import Workspace, Workspaces

__all__ = ["Found", "Recording", "Watched", "Workspace", "Workspaces"]
