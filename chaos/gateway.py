"""The gateway of a run: a process that is killed and started again, and what it takes meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

KERNELS = os.environ.get("INTERPRETER_KERNELS_DIR") or str(Path(sys.prefix) / "kernels")
SETTINGS = """
[environments.python]
packages = ["numpy==2.4.6", "pandas==3.1.1", "matplotlib==3.11.2"]
preload = ["json"]
pool_max = 1
"""
"""As always, but sandboxes start quickly: there will be many of them."""
START_SECONDS = 900.0
"""The first start on a machine installs the kernel environment."""
STOP_SECONDS = 60.0


class Gateway:
    """A gateway on a data directory of its own; `up` is set while it answers."""

    def __init__(self, data: Path, **settings: str) -> None:
        self.data = data
        self.log = data.parent / "log"
        self.url = ""
        self.up = asyncio.Event()
        self.lives = 0
        self.sandboxes: set[str] = set()
        """The ids of all sandboxes that were ever seen."""
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    def launch(self) -> None:
        """Starts the process, and does not wait for it."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith("INTERPRETER_")}
        given = {
            "kernels_dir": KERNELS,
            "data_dir": str(self.data),
            "port": self.url.rpartition(":")[2] or "0",
            "spares": "1",
            "interrupt_grace": "5",
            "drain_seconds": "1",
            **self._settings,
        }
        environ |= {f"INTERPRETER_{name.upper()}": value for name, value in given.items()}
        self.data.parent.joinpath("interpreter.toml").write_text(SETTINGS)
        with open(self.log, "ab") as log:
            log.write(f"--- life {self.lives + 1} at {time.strftime('%H:%M:%S')}\n".encode())
            log.flush()
            self._at = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "interpreter.cli", "serve"],
                env=environ, cwd=self.data.parent, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.lives += 1

    async def answering(self) -> None:
        """Returns when the process that was launched says that it listens."""
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            said = self.log.read_bytes()[self._at :].decode(errors="replace")
            if "\n  sessions " in said:
                self.url = next(li.split()[1] for li in said.splitlines() if li.startswith("  url "))
                self.up.set()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the gateway did not start: {said[-4000:]}")
            await asyncio.sleep(0.01)

    async def start(self) -> None:
        self.launch()
        await self.answering()

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self.up.clear()
        self._process.kill()
        self._process.wait()
        self.look()

    async def stop(self) -> None:
        """As an operator would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        finally:
            self.up.clear()

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def clear(self) -> None:
        """Ends everything that is there of it, whatever state it is in."""
        if self.runs:
            self.kill()
        if self.sandboxes:
            self._settings["on_shutdown"] = "stop"
            await self.start()
            await self.stop()

    def look(self) -> None:
        """Notes which sandboxes there are."""
        run = self.data / "run"
        self.sandboxes |= {path.name for path in run.iterdir()} if run.is_dir() else set()

    def rss(self) -> int:
        assert self._process is not None
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def descriptors(self) -> int:
        assert self._process is not None
        return int(psutil.Process(self._process.pid).num_fds())

    def log_tail(self, size: int = 12_000) -> str:
        with open(self.log, "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - size))
            return log.read().decode(errors="replace")

    # -- what only someone on the same machine can know

    def _query(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        uri = f"{(self.data / 'interpreter.db').as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
            return connection.execute(query, values).fetchall()

    def sandbox_of(self, session: str) -> str | None:
        """The id of a session's sandbox."""
        rows = self._query("SELECT record FROM sessions WHERE id = ?", session)
        record = json.loads(rows[0][0]) if rows else {}
        return (record.get("sandbox_id") or session) if record.get("handle") else None

    def audit(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(action, session, detail), oldest first."""
        rows = self._query("SELECT action, session_id, detail FROM audit ORDER BY key")
        return [(action, session, json.loads(detail)) for action, session, detail in rows]
