"""Questions to a kernel that are no cells: what could follow here, what is this?

They go the way that a cell goes, and a kernel does one thing at a time. So while a cell runs nobody is
kept waiting: a person who types has typed on by then.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import msgspec

from interpreter.config import Config
from interpreter.errors import KernelBusy, SandboxFailed
from interpreter.kernel import messages, questions
from interpreter.kernel.messages import KernelMessage
from interpreter.models.questions import CompleteRequest, Completion, Inspection, InspectRequest
from interpreter.orchestrator import policy
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.taps import KernelState

AT_ONCE = 8
"""Questions of one session that wait for their answer."""


class _Question:
    """Listens for the answer to one question."""

    def __init__(self, id: str, answer: str) -> None:
        self._id = id
        self._type = answer
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def on_message(self, message: KernelMessage) -> None:
        if message.parent_id == self._id and message.type == self._type and not self.answer.done():
            self.answer.set_result(message.content)

    def on_state(self, state: KernelState) -> None:
        if not self.answer.done():
            self.answer.set_exception(SandboxFailed("The kernel ended before it answered."))


class Questions:
    """Asks the kernels of all sessions."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._waiting: dict[str, int] = {}

    async def complete(self, session: LiveSession, request: CompleteRequest) -> Completion:
        length = len(request.code)
        cursor = min(request.cursor, length)
        asked = {"code": request.code, "cursor_pos": cursor}
        answer = await self._ask(session, request, "complete", asked)
        return questions.completion(answer, length, cursor)

    async def inspect(self, session: LiveSession, request: InspectRequest) -> Inspection:
        cursor = min(request.cursor, len(request.code))
        asked = {"code": request.code, "cursor_pos": cursor, "detail_level": request.detail}
        return questions.inspection(await self._ask(session, request, "inspect", asked))

    async def _ask(
        self,
        session: LiveSession,
        request: CompleteRequest | InspectRequest,
        what: str,
        asked: dict[str, Any],
    ) -> dict[str, Any]:
        policy.check_code(self._config, request.code)
        await session.come_awake()
        name = request.context
        context = session.context(name)
        waiting = self._waiting.get(session.id, 0)
        if context.busy or waiting >= AT_ONCE or not context.takes("shell"):
            raise KernelBusy("The kernel is busy.")
        session.touch()
        id = "q-" + secrets.token_hex(12)
        question = _Question(id, f"{what}_reply")
        session.taps.add(name, question)
        self._waiting[session.id] = waiting + 1
        try:
            head = msgspec.json.encode(messages.header(f"{what}_request", id))
            context.pass_on("shell", [head, b"{}", b"{}", msgspec.json.encode(asked)])
            async with asyncio.timeout(request.timeout):
                return await question.answer
        except TimeoutError:
            raise KernelBusy(
                f"The kernel has not answered within {request.timeout:g} seconds."
            ) from None
        finally:
            session.taps.remove(name, question)
            self._waiting[session.id] -= 1
            if not self._waiting[session.id]:
                del self._waiting[session.id]
