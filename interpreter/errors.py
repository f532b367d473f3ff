"""Every error a user can meet, in one place.

Each has a code that programs can rely on, an HTTP status, a sentence that says what is wrong
and a hint that says what to do next. Layers raise them; the gateway turns them into
`{"error": {"code", "message", "hint"}}`; the SDK raises the same class again on the other side.
"""

from __future__ import annotations

from typing import ClassVar


class InterpreterError(Exception):
    """The base of all errors that carry a code, a status and a hint."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    hint: str = "This is a fault of the gateway. Its log has the details."
    retry_after: float | None = None
    """Seconds after which it may work, when that can be told."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint


class InvalidRequest(InterpreterError):
    """The body or a parameter is not what the OpenAPI description says."""

    code = "invalid_request"
    status = 400
    hint = "Compare the request with /docs or /openapi.json."


class InvalidJson(InvalidRequest):
    """The body is not JSON at all."""

    code = "invalid_json"
    hint = "Send a JSON object with Content-Type: application/json."


class InvalidPath(InvalidRequest):
    """A path that names no place in a workspace, or leads out of it."""

    code = "invalid_path"
    hint = "Paths are relative to the workspace, in UTF-8, without '..'."


class WrongDigest(InvalidRequest):
    """What arrived is not what its checksum says, or the checksum cannot be read; nothing was stored."""

    code = "wrong_digest"
    hint = "Send it again, with 'Content-Digest: sha-256=:BASE64:' or 'Digest: sha-256=BASE64'."


class InvalidArchive(InvalidRequest):
    """An archive that cannot be unpacked, or should not be."""

    code = "invalid_archive"
    hint = "Send a zip or a (gzipped) tar file with plain files and folders in it."


class InvalidCommand(InvalidRequest):
    """A command that says too little or too much, or what no program can be given."""

    code = "invalid_command"
    hint = "Send either 'command', a line for a shell, or 'argv', a list; neither with a zero byte."


class InvalidNotebook(InvalidRequest):
    """What is to be replayed is no notebook, an old one, or too much at once."""

    code = "invalid_notebook"
    hint = "Send a notebook of version 4, as Jupyter saves them today."


class Unauthorized(InterpreterError):
    """No token, or a wrong one."""

    code = "unauthorized"
    status = 401
    hint = "Send 'Authorization: Bearer TOKEN'. The gateway prints the token when it starts."


class ForbiddenHost(InterpreterError):
    """The Host header names a machine this gateway is not: a page elsewhere may be asking."""

    code = "forbidden_host"
    status = 403
    hint = "Use the address the gateway printed when it started."


class Forbidden(InterpreterError):
    """A token that is good for something else, or a page elsewhere that uses somebody's login."""

    code = "forbidden"
    status = 403
    hint = "Use the gateway's own token, or its own page."


class FileRefused(InterpreterError):
    """A file that the gateway's user may not read or change."""

    code = "file_refused"
    status = 403
    hint = "Change its permissions from a cell."


class NotFound(InterpreterError):
    """No such route."""

    code = "not_found"
    status = 404
    hint = "/docs lists every path."


class SessionNotFound(NotFound):
    """No session has this id."""

    code = "session_not_found"
    hint = "GET /v1/sessions lists the sessions there are."


class ExecutionNotFound(NotFound):
    """The session has no execution with this id."""

    code = "execution_not_found"
    hint = "GET /v1/sessions/{id}/executions lists the executions of a session."


class ContextNotFound(NotFound):
    """The session has no context of this name."""

    code = "context_not_found"
    hint = "GET /v1/sessions/{id}/contexts lists the contexts of a session."


class ProcessNotFound(NotFound):
    """The session has no process with this pid, or not any more."""

    code = "process_not_found"
    hint = "GET /v1/sessions/{id}/processes lists the processes of a session."


class TerminalNotFound(NotFound):
    """The session has no terminal of this name, or not any more."""

    code = "terminal_not_found"
    hint = "GET /v1/sessions/{id}/terminals lists the terminals; a WebSocket to another name makes one."


class DatasetNotFound(NotFound):
    """There is no dataset of this name, or the session does not have it."""

    code = "dataset_not_found"
    hint = "GET /v1/datasets lists the datasets, and a session's `inputs` those that it has."


class FileNotFound(NotFound):
    """The workspace has no such file or directory."""

    code = "file_not_found"
    hint = "GET /v1/sessions/{id}/files lists the files of a session."


class WorkspaceNotFound(NotFound):
    """There is no named workspace of this name, or not any more."""

    code = "workspace_not_found"
    hint = "GET /v1/workspaces lists the workspaces there are; POST /v1/workspaces makes one."


class UnknownEnvironment(InterpreterError):
    """The session asks for an environment that is not configured."""

    code = "unknown_environment"
    status = 400
    hint = "Use one of the configured environments; leave it out for the default."


class MethodNotAllowed(InterpreterError):
    """The path exists, the method does not."""

    code = "method_not_allowed"
    status = 405
    hint = "/docs lists the methods of every path."


class WrongState(InterpreterError):
    """What was asked is not possible in the state the session or execution is in."""

    code = "wrong_state"
    status = 409
    hint = "Read the session or execution to see its state."


class KernelBusy(InterpreterError):
    """A kernel does something else, and is asked what it would have to answer at once."""

    code = "kernel_busy"
    status = 409
    hint = "Ask again when the cell that runs has ended."


class InputNotExpected(WrongState):
    """An answer came for an execution that is not waiting for input."""

    code = "input_not_expected"
    hint = "Send input after an 'input_request' event, once."


class ContextExists(WrongState):
    """The session has a context of this name already."""

    code = "context_exists"
    hint = "Choose another name, or leave it out to have one made up."


class LimitFixed(WrongState):
    """A limit that cannot be changed while a session has its sandbox."""

    code = "limit_fixed"
    hint = "Stop the session, change the limit, and start it again."


class ExecutionsUsedUp(WrongState):
    """The session has run as many cells as it may in its life."""

    code = "executions_used_up"
    hint = "Raise limits.executions of the session, or create a new one."


class InputsUnavailable(WrongState):
    """Sessions here cannot be given files to read."""

    code = "inputs_unavailable"
    hint = "'interpreter serve' says how sessions are isolated; with bubblewrap or Docker it works."


class KeyReused(WrongState):
    """An Idempotency-Key that another cell of this session has."""

    code = "key_reused"
    hint = "Send a new key with every new cell, and the same one only to send a cell again."


class FileConflict(WrongState):
    """Something is in the way, or is not the kind of file that this can be done with."""

    code = "file_conflict"
    hint = "List the directory to see what is there."


class WorkspaceExists(WrongState):
    """There is a named workspace of this name already."""

    code = "workspace_exists"
    hint = "Choose another name, or delete the one that is there."


class WorkspaceInUse(WrongState):
    """A named workspace that a session has, and that only one at a time may have for this."""

    code = "workspace_in_use"
    hint = "Stop or delete that session; or ask for the workspace with workspace_read_only."


class FilesUnreachable(WrongState):
    """The workspaces are where the gateway does not see them."""

    code = "files_unreachable"
    hint = "Read and write the files with cells; docs/files.md says where this is so."


class FileChanged(InterpreterError):
    """If-Match or If-None-Match does not hold; nothing was changed."""

    code = "file_changed"
    status = 412
    hint = "Read the file again: its ETag says which one is there."


class RequestTooLarge(InterpreterError):
    """The body is larger than the gateway takes."""

    code = "request_too_large"
    status = 413
    hint = "Send less at once."


class CodeTooLong(RequestTooLarge):
    """The code of a cell is longer than the limit."""

    code = "code_too_long"
    hint = "Write long data to a file instead of into the cell."


class FileTooLarge(RequestTooLarge):
    """A file larger than the session's files may be."""

    code = "file_too_large"
    hint = "Raise limits.file_mb of the session."


class TooManyFiles(RequestTooLarge):
    """More files than one request may take up or give out."""

    code = "too_many_files"
    hint = "Do it in parts, directory by directory."


class RangeNotSatisfiable(InterpreterError):
    """The Range begins after the end of the file."""

    code = "range_not_satisfiable"
    status = 416
    hint = "Content-Range says how large the file is."


class CannotDescribe(InterpreterError):
    """A file that no table can be made out in, within the time and memory there is for it."""

    code = "cannot_describe"
    status = 422
    hint = "CSV, Parquet, Excel and JSON (an array, or lines) can be described."


class LimitTooHigh(InterpreterError):
    """A limit above the maximum that the operator allows."""

    code = "limit_too_high"
    status = 400
    hint = "Ask for less, or have the operator raise [maximums] in interpreter.toml."


class QueueFull(InterpreterError):
    """The session already has as many queued cells as it may."""

    code = "queue_full"
    status = 429
    hint = "Wait for queued cells to finish, or cancel some."


class TooManyContexts(InterpreterError):
    """The session already has as many contexts as it may."""

    code = "too_many_contexts"
    status = 429
    hint = "Delete a context, or create the session with a higher limits.contexts."


class TooManyCommands(InterpreterError):
    """The session already has as many commands or terminals as it may."""

    code = "too_many_commands"
    status = 429
    hint = "Wait for one to end, cancel one, or raise limits.commands of the session."


class TooManySessions(InterpreterError):
    """There was no room for another session, and none came while it was waited for."""

    code = "too_many_sessions"
    status = 429
    hint = "Try again later; stop or delete a session; or have the operator raise max_sessions."


class SandboxFailed(InterpreterError):
    """A sandbox could not be started, or broke in a way that ends the session."""

    code = "sandbox_failed"
    status = 503
    hint = "Create a new session. If that fails too, the gateway's log says why."


class ShuttingDown(InterpreterError):
    """The gateway is about to stop and takes nothing new."""

    code = "shutting_down"
    status = 503
    hint = "Try again in a moment: sessions are there again when the gateway is."
    retry_after = 5.0


class StoreUnavailable(InterpreterError):
    """The database cannot be written now: nothing is taken on that could not be recorded."""

    code = "store_unavailable"
    status = 503
    hint = "/healthz says why. When the disk is full, free some space: it goes on by itself."
    retry_after: float | None = 5.0


class StoreDamaged(StoreUnavailable):
    """The database file is damaged: nothing more is written to it."""

    code = "store_damaged"
    hint = "Stop the gateway, run 'interpreter repair', and start it again."
    retry_after = None


class NoSpaceLeft(InterpreterError):
    """There is no room for it; nothing of it was kept."""

    code = "no_space_left"
    status = 507
    hint = "Delete files of the session, or raise its limits.disk_mb."


class DatasetsFull(InterpreterError):
    """There is no room for so many or such large datasets."""

    code = "datasets_full"
    status = 507
    hint = "Delete datasets, detach them from sessions, or have the operator raise datasets_mb."


class OwnerDiskFull(InterpreterError):
    """All that an owner keeps together would be more than one owner may have."""

    code = "owner_disk_full"
    status = 507
    hint = "Delete workspaces or sessions of this owner, ask for less disk_mb, or raise owner_disk_mb."


class ConfigurationError(InterpreterError):
    """A setting that cannot work; the gateway does not start."""

    code = "configuration"
    status = 500
    hint = "'interpreter config' shows every setting and where it came from."


def _subclasses(cls: type[InterpreterError]) -> list[type[InterpreterError]]:
    return [cls, *(c for sub in cls.__subclasses__() for c in _subclasses(sub))]


BY_CODE: dict[str, type[InterpreterError]] = {c.code: c for c in _subclasses(InterpreterError)}
"""What the SDK uses to raise again what the gateway answered."""
