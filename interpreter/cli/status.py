"""`interpreter status`: how full the gateway is, and what stands ready."""

from __future__ import annotations

from interpreter.cli.table import print_table
from interpreter.client import Client
from interpreter.models import GatewayStatus, SessionState, to_json

AT_REST = (SessionState.stopped.value, SessionState.failed.value)
"""The states of sessions that have no sandbox, and so do not count."""
BAR = 20


def show(json: bool) -> None:
    with Client() as client:
        status = client.status()
        url = client.url
    if json:
        print(to_json(status).decode())
        return
    print(f"{url} is about to stop: it takes nothing new" if status.draining else url)
    print()
    with_sandbox = {k: n for k, n in status.sessions.items() if k not in AT_REST}
    print_table(
        ("", "", "used", "of", ""),
        [
            _row("sessions", sum(with_sandbox.values()), status.max_sessions, _counted(with_sandbox)),
            _row("memory, MB", status.memory_reserved_mb, status.memory_limit_mb, "reserved"),
            _row("processors", status.cpus_reserved, status.cpus_limit, "reserved"),
        ],
    )
    for sentence in _remarks(status):
        print(sentence)
    print()
    print_table(
        ("environment", "ready", "being made", "wanted", "at least", "at most"),
        [
            (p.environment, *map(str, (p.ready, p.being_made, p.target, p.min, p.max)))
            for p in status.pools
        ],
    )


def _row(what: str, used: float, most: float, remark: str) -> tuple[str, ...]:
    full = round(BAR * min(1.0, used / most))
    return what, "█" * full + "░" * (BAR - full), f"{used:,.10g}", f"{most:,.10g}", remark


def _counted(states: dict[str, int]) -> str:
    return ", ".join(f"{n} {state}" for state, n in sorted(states.items()))


def _remarks(status: GatewayStatus) -> list[str]:
    at_rest = {k: n for k, n in status.sessions.items() if k in AT_REST}
    remarks = []
    if at_rest:
        remarks.append(f"{_counted(at_rest)}, without a sandbox")
    if status.queued:
        remarks.append(f"{status.queued} waiting for room")
    if status.creating:
        remarks.append(f"{status.creating} being started")
    return remarks
