"""Files that arrive as the parts of a form, taken apart as they come.

No more than the last pieces and the headers of one part are in memory. Nothing is stored before the
form is complete: then all its files are, or none.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from email.message import Message

from interpreter.errors import InvalidPath, InvalidRequest, TooManyFiles
from interpreter.models.files import Directory
from interpreter.workspace import Incoming, Tree
from interpreter.workspace.paths import checked, joined

MOST_PARTS = 100
"""In one form: each is a file that is held open until all are there."""
LONGEST_HEADERS = 16 * 1024


class _In(enum.Enum):
    preamble = "before the first part"
    headers = "the headers of a part"
    contents = "the contents of a part"
    epilogue = "after the last part"


class Form:
    """The files of a form, on their way into a directory. Calls block."""

    def __init__(self, tree: Tree, directory: str, boundary: bytes) -> None:
        self._tree = tree
        self._directory = directory
        self._mark = b"\r\n--" + boundary
        # As if a line had ended before, so that the first boundary looks like the others.
        self._rest = b"\r\n"
        self._where = _In.preamble
        self._files: list[Incoming] = []

    def write(self, *pieces: bytes) -> None:
        self._rest += b"".join(pieces)
        while self._step():
            pass

    def finish(self) -> tuple[Directory, str | None, bool]:
        """Stores all of them: their entries, no ETag, and that something new is there."""
        if self._where is not _In.epilogue:
            raise InvalidRequest("The form ends in the middle of a part.")
        if not self._files:
            raise InvalidRequest("There is no file in the form.")
        entries = [self._tree.store(file)[0] for file in self._files]
        return Directory(path=self._directory, entries=entries), None, True

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _step(self) -> bool:
        """Takes what can be told from the bytes that are there; False when more are needed."""
        match self._where:
            case _In.preamble:
                return self._until_boundary(lambda skipped: None)
            case _In.headers:
                return self._begin_part()
            case _In.contents:
                return self._until_boundary(self._files[-1].write)
            case _In.epilogue:
                self._rest = b""
                return False

    def _until_boundary(self, take: Callable[[bytes], None]) -> bool:
        at = self._rest.find(self._mark)
        # Without one, all is taken but what may be the beginning of one.
        known = at if at >= 0 else len(self._rest) - len(self._mark) + 1
        if known > 0:
            take(self._rest[:known])
            self._rest = self._rest[known:]
        if at < 0:
            return False
        after = len(self._mark)
        end = self._rest.find(b"\n", after, after + LONGEST_HEADERS)
        if self._rest.startswith(b"--", after):
            self._where = _In.epilogue
        elif end < 0:
            self._check_length()
            return False
        elif self._rest[after:end].strip(b" \t\r"):
            # A longer line that only begins like the boundary.
            take(self._mark)
            self._rest = self._rest[after:]
        else:
            self._where = _In.headers
            self._rest = self._rest[end + 1 :]
        return True

    def _begin_part(self) -> bool:
        # A part without any headers begins with the empty line.
        head, ended, rest = (b"\r\n" + self._rest).partition(b"\r\n\r\n")
        if not ended:
            self._check_length()
            return False
        path = joined(self._directory, checked(_filename(head)))
        if len(self._files) >= MOST_PARTS:
            raise TooManyFiles(f"A form may have {MOST_PARTS} files.")
        self._files.append(self._tree.receive(path))
        self._where = _In.contents
        # A part without contents has its boundary right there.
        self._rest = rest
        return True

    def _check_length(self) -> None:
        if len(self._rest) > LONGEST_HEADERS:
            raise InvalidRequest("The headers of a part of the form have no end.")


def _filename(head: bytes) -> str:
    try:
        lines = head.decode().split("\r\n")
    except UnicodeDecodeError:
        raise InvalidPath("A filename in the form is not UTF-8.") from None
    about = Message()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-disposition" and "Content-Disposition" not in about:
            about["Content-Disposition"] = value.strip()
    try:
        name = about.get_filename("")
    except (ValueError, LookupError):  # in a charset that does not exist
        name = ""
    if not name.strip("/."):
        raise InvalidPath(
            "A part of the form has no filename.", "Send files, as 'curl -F f=@FILE' does."
        )
    return name
