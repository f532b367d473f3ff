"""A kernel in a sandbox, driven over its link by nothing but a kernel connection."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from benchmarks import kernels
from interpreter.config import Config
from interpreter.kernel.connection import Exit, KernelConnection
from interpreter.kernel.messages import KernelMessage
from interpreter.link.connection import Link
from interpreter.link.wire import Wire
from interpreter.runtimes import Runtime
from interpreter.runtimes.base import Sandbox


class Relayed:
    """The owner of the kernel connection; it forgets every message at once."""

    def __init__(self, runtime: Runtime, sandbox: Sandbox, link: Link) -> None:
        self._runtime, self._sandbox, self._link = runtime, sandbox, link
        self._kernel = KernelConnection(link, "k1", self)
        self._id = ""
        self._missing: set[str] = set()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, runtime: Runtime, config: Config, workspace: Path) -> Relayed:
        sandbox = await runtime.start("relayed", kernels.NAME, config.limits, workspace)
        try:
            link = Link(Wire(opens=True), lambda reason: None)
            await runtime.connect(sandbox, lambda: link)
            await link.connected()
            relayed = cls(runtime, sandbox, link)
            await relayed._kernel.start()
        except BaseException:
            await runtime.stop(sandbox)
            raise
        return relayed

    async def run(self, code: str) -> None:
        self._id, self._missing = secrets.token_hex(8), {"reply", "idle"}
        self._done = asyncio.get_running_loop().create_future()
        self._kernel.execute(self._id, code, store_history=True, allow_stdin=False)
        await self._done

    async def close(self) -> None:
        self._link.close()
        await self._runtime.stop(self._sandbox)

    def on_message(self, message: KernelMessage, number: int) -> None:
        self._link.handled(number)
        if message.parent_id == self._id:
            if message.type == "execute_reply":
                self._missing.discard("reply")
            elif message.content.get("execution_state") == "idle":
                self._missing.discard("idle")
            if not self._missing and not self._done.done():
                self._done.set_result(None)

    def on_oversized(self, parts: list[bytes], size: int, number: int) -> None:
        self._link.handled(number)

    def on_malformed(self, channel: str, problem: str, number: int) -> None:
        self._link.handled(number)

    def on_exit(self, kernel: str, exit: Exit, number: int) -> None:
        self._link.handled(number)

    def on_passed(self, number: int) -> None:
        self._link.handled(number)
