"""Answers for cells that call `input()`.

A program gives them beforehand (a text, whose lines are what a person would have typed, or a
list of answers) or as a function of the prompt. When a cell asks for more than there is, it is
not left waiting for its timeout: whoever runs it cancels it and raises `InputMissing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from interpreter.client.errors import InputMissing

Ask = Callable[[str, bool], str]
"""Called with the prompt and whether it asks for a password."""
AsyncAsk = Callable[[str, bool], str | Awaitable[str]]
Input = str | Sequence[str] | Ask
AsyncInput = str | Sequence[str] | AsyncAsk


def answers(given: Input) -> Ask:
    """Whatever was given, as a function."""
    return given if callable(given) else _in_turn(given)


def async_answers(given: AsyncInput) -> AsyncAsk:
    return given if callable(given) else _in_turn(given)


def _in_turn(given: str | Sequence[str]) -> Ask:
    remaining = iter(given.splitlines() or [""] if isinstance(given, str) else given)

    def ask(prompt: str, password: bool) -> str:
        try:
            return next(remaining)
        except StopIteration:
            raise InputMissing(f"The cell asks '{prompt}' and there is no answer left.") from None

    return ask
