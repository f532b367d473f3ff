"""What the file system said, in words for whoever asked."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from interpreter.errors import (
    FileConflict,
    FileNotFound,
    FileRefused,
    FileTooLarge,
    InterpreterError,
    InvalidPath,
    NoSpaceLeft,
    SandboxFailed,
)
from interpreter.workspace.paths import shown


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Whatever goes wrong within is raised as an error of the API that speaks of this path."""
    try:
        yield
    except OSError as e:
        raise _explain(e, shown(path)) from e


def _explain(error: OSError, path: str) -> InterpreterError:
    match error.errno:
        case errno.ENOENT:
            return FileNotFound(f"There is no '{path}' in this workspace.")
        case errno.EXDEV | errno.ELOOP:
            return InvalidPath(
                f"'{path}' leads out of the workspace, or in circles.",
                "Links are followed as long as they are relative and stay in the workspace.",
            )
        case errno.ENAMETOOLONG | errno.EINVAL | errno.EILSEQ:
            return InvalidPath(f"'{path}' is not possible here: {error.strerror}.")
        case errno.EACCES | errno.EPERM:
            return FileRefused(f"The gateway may not do this with '{path}': {error.strerror}.")
        case errno.ENOTDIR:
            return FileConflict(f"'{path}' is, or is in, something that is no directory.")
        case errno.EISDIR:
            return FileConflict(f"'{path}' is a directory.")
        case errno.EEXIST:
            return FileConflict(
                f"'{path}' is there already.", "Choose another name, or ask for 'overwrite'."
            )
        case errno.ENOTEMPTY:
            return FileConflict(
                f"The directory '{path}' is not empty.", "Delete it with '?recursive=true'."
            )
        case errno.EAGAIN | errno.EBUSY | errno.ETXTBSY | errno.ESTALE:
            return FileConflict(f"'{path}' is locked or keeps changing.", "Try again in a moment.")
        case errno.ENOSPC | errno.EDQUOT:
            return NoSpaceLeft(f"There is no space left for '{path}' in this workspace.")
        case errno.EFBIG:
            return FileTooLarge(f"'{path}' would be larger than a file can be here.")
    why = error.strerror or os.strerror(error.errno or 0)
    return SandboxFailed(f"The session's disk cannot be used: {why}.")
