"""Outputs as a person would read them: no colours, progress bars as they look in the end."""

from __future__ import annotations

import re

from interpreter.models import ExecutionError, Output

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
ERROR_CHARS = 64 * 1024


def strip_ansi(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


def settle(text: str) -> str:
    """What a terminal shows in the end: a carriage return writes over the line."""
    if "\r" not in text:
        return text
    return "\n".join(_overwritten(line) for line in text.replace("\r\n", "\n").split("\n"))


def _overwritten(line: str) -> str:
    """From the last layer back: of those below it only what sticks out is seen."""
    pieces, length = [], 0
    for layer in reversed(line.split("\r")):
        if len(layer) > length:
            pieces.append(layer[length:])
            length = len(layer)
    return "".join(pieces)


def shorten(text: str, most: int = ERROR_CHARS) -> str:
    """The head and the tail of a text that is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters cut …]\n{text[-half:]}"


def clean_error(output: Output) -> ExecutionError:
    """An error output with a traceback that is plain text and has a bounded length."""
    traceback = shorten(strip_ansi("\n".join(output["traceback"]))).split("\n")
    return ExecutionError(
        ename=output["ename"],
        evalue=shorten(strip_ansi(output["evalue"])),
        traceback=traceback if traceback != [""] else [],
    )


def to_text(outputs: list[Output]) -> str:
    pieces: list[str] = []
    for output in outputs:
        match output["output_type"]:
            case "stream":
                piece = settle(strip_ansi(output["text"]))
            case "error":
                error = clean_error(output)
                piece = "\n".join(error.traceback) or f"{error.ename}: {error.evalue}"
            case _:
                data = output["data"]
                shown = data.get("text/plain") or data.get("text/markdown")
                piece = strip_ansi(shown) if shown else f"[{', '.join(data)}]"
        if pieces and piece and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        pieces.append(piece)
    return "".join(pieces)
