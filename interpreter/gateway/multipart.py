"""Files that arrive as the parts of a form, taken apart as they come.

No more than the last pieces and the headers of one part are in memory. Nothing is stored before the
form is complete and all its files can be, as far as that is known then.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from email.message import Message

from interpreter.errors import FileConflict, InvalidPath, InvalidRequest, TooManyFiles
from interpreter.models.files import Directory
from interpreter.workspace import Incoming, Tree
from interpreter.workspace.paths import checked, joined, shown

MOST_PARTS = 100
"""In one form: each is a descriptor that is held until all are there."""
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
        self._at = 0
        """How much of the rest is taken."""
        self._budget = tree.budget()
        self._where = _In.preamble
        self._files: list[Incoming] = []

    def write(self, *pieces: bytes) -> None:
        self._rest = b"".join((self._rest[self._at :], *pieces))
        self._at = 0
        while self._step():
            pass

    def finish(self) -> tuple[Directory, str | None, bool]:
        """Stores all of them: their entries, no ETag, and that something new is there. If one of them
        cannot be stored after all, because of what a cell does at this moment, those before it are."""
        if self._where is not _In.epilogue:
            raise InvalidRequest("The form ends in the middle of a part.")
        if not self._files:
            raise InvalidRequest("There is no file in the form.")
        self._budget.check(0)  # all together, before the first of them
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
                self._at = len(self._rest)
                return False

    def _until_boundary(self, take: Callable[[bytes], None]) -> bool:
        rest, mark = self._rest, self._mark
        search = self._at
        while (at := rest.find(mark, search)) >= 0:
            after = at + len(mark)
            end = rest.find(b"\n", after, after + LONGEST_HEADERS)
            if rest.startswith(b"--", after):
                self._take_until(at, take)
                self._where = _In.epilogue
                return True
            if end < 0 and len(rest) < after + LONGEST_HEADERS:
                self._take_until(at, take)
                return False
            if end >= 0 and not rest[after:end].strip(b" \t\r"):
                self._take_until(at, take)
                self._where, self._at = _In.headers, end + 1
                return True
            search = after  # a longer line that only begins like the boundary
        # All is taken but what may be the beginning of one.
        self._take_until(max(search, len(rest) - len(mark) + 1), take)
        return False

    def _take_until(self, end: int, take: Callable[[bytes], None]) -> None:
        if end > self._at:
            take(self._rest[self._at : end])
            self._at = end

    def _begin_part(self) -> bool:
        rest, at = self._rest, self._at
        # A part without any headers begins with the empty line.
        if rest.startswith(b"\r\n", at):
            head, after = b"", at + 2
        else:
            end = rest.find(b"\r\n\r\n", at, at + LONGEST_HEADERS)
            if end < 0:
                self._check_length()
                return False
            head, after = rest[at:end], end + 4
        path = joined(self._directory, checked(_filename(head)))
        if len(self._files) >= MOST_PARTS:
            raise TooManyFiles(f"A form may have {MOST_PARTS} files.")
        for other in self._files:
            if f"{path}/".startswith(f"{other.path}/") != f"{other.path}/".startswith(f"{path}/"):
                raise FileConflict(
                    f"'{shown(min(path, other.path, key=len))}' is a file and a directory in this form."
                )
        self._files.append(self._tree.receive(path, self._budget))
        self._where, self._at = _In.contents, after
        return True

    def _check_length(self) -> None:
        if len(self._rest) - self._at > LONGEST_HEADERS:
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
