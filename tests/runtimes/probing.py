"""A probe in the place of the kernel host: runs what a test sends in a real sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from interpreter.config import Config
from interpreter.models import Limits
from interpreter.runtimes.base import Sandbox
from interpreter.runtimes.embedded import EmbeddedRuntime

HERE = Path(__file__).parent
PROBE = {"sandbox": HERE / "probe" / "sandbox"}
KERNELS = os.environ.get("INTERPRETER_KERNELS_DIR") or str(Path(sys.prefix) / "kernels")
SMALL = Limits(memory_mb=256, cpus=1.0, processes=64, file_mb=8)


class Probe:
    """A sandbox that runs what a test sends and answers with the value of `result`."""

    def __init__(self, runtime: EmbeddedRuntime, sandbox: Sandbox, workspace: Path) -> None:
        self.runtime = runtime
        self.sandbox = sandbox
        self.workspace = workspace

    async def run(self, code: str) -> Any:
        """Raises EOFError when the sandbox goes away, and RuntimeError with what the code raised."""
        reader = asyncio.StreamReader()
        transport = await self.runtime.connect(
            self.sandbox, lambda: asyncio.StreamReaderProtocol(reader)
        )
        try:
            transport.write(json.dumps(code).encode() + b"\n")  # type: ignore[attr-defined]
            answer = await asyncio.wait_for(reader.readline(), 20)
        except ConnectionResetError:
            answer = b""
        finally:
            transport.close()
        if not answer:
            raise EOFError
        value = json.loads(answer)
        if "error" in value:
            raise RuntimeError(value["error"])
        return value["result"]

    async def ended(self) -> str:
        return await asyncio.wait_for(self.runtime.ended(self.sandbox), 10)


def unique_id() -> str:
    """Sandboxes of different data directories share the tree of control groups."""
    return f"box-{secrets.token_hex(4)}"


StartProbe = Callable[..., Awaitable[Probe]]


async def prepared(data: Path, isolation: str = "bubblewrap", grouped: bool = True) -> EmbeddedRuntime:
    """A runtime; `grouped=False` is one that may not make control groups."""
    config = Config(data_dir=str(data), kernels_dir=KERNELS, isolation=isolation)  # type: ignore[arg-type]
    runtime = EmbeddedRuntime(config, PROBE)
    await runtime.prepare(print)
    if not grouped:
        runtime._hierarchy = None
    return runtime
