"""The prompt of the repl: `In [3]:`, Python in colour, a history that stays.

Enter runs a cell that is complete and begins a new line in one that is not: open brackets and
strings, and blocks, which a blank line ends. Alt-Enter runs it as it is.
"""

from __future__ import annotations

import ast
import codeop
import re
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import HTML
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped]

from interpreter.client.place import own_config

HISTORY = "repl_history"


class Prompt:
    def __init__(self) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=_history(own_config().data_path),
            lexer=PygmentsLexer(PythonLexer),
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, number, wrapped: "...: ".rjust(width),
        )

    def ask(self, number: int) -> str:
        """A cell; KeyboardInterrupt for Ctrl-C, EOFError for Ctrl-D at an empty prompt."""
        return self._session.prompt(HTML(f"<ansigreen>In [<b>{number}</b>]: </ansigreen>"))


def _history(folder: Path) -> FileHistory | InMemoryHistory:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / HISTORY
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        at_end = not buffer.document.text_after_cursor.strip()
        if at_end and is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n" + indent_after(buffer.document.current_line_before_cursor))

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


_compile = codeop.CommandCompiler()
_compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def is_complete(code: str) -> bool:
    """Whether Enter should run this. What is wrong rather than unfinished is for the kernel to say."""
    last_line = code.rsplit("\n", 1)[-1]
    if code.lstrip().startswith("%%"):
        return "\n" in code and not last_line.strip()
    try:
        if _compile(code, symbol="exec") is None:
            return False
        body = ast.parse(code).body
    except (SyntaxError, ValueError, OverflowError):
        return True
    in_block = bool(body) and hasattr(body[-1], "body") and "\n" in code.strip()
    return not (in_block and last_line.strip())


def indent_after(line: str) -> str:
    """The indentation of the line that follows this one."""
    indent = re.match(r"\s*", line)
    deeper = "    " if line.rstrip().endswith(":") else ""
    return (indent.group() if indent else "") + deeper
