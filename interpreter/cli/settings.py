"""`interpreter serve` and `interpreter config`: the gateway's settings, used and shown."""

from __future__ import annotations

import json as text_json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from interpreter.config import LoadedConfig, load

HIDDEN = "(hidden)"


def serve(flags: Mapping[str, Any], file: Path | None) -> int:
    loaded = load(flags, file=file)
    from interpreter.gateway import serve as run_gateway

    return run_gateway(loaded)


def show(file: Path | None, json: bool) -> None:
    loaded = load(file=file)
    settings = list(_settings(loaded))
    if json:
        table = {name: {"value": value, "origin": origin} for name, value, origin in settings}
        print(text_json.dumps(table, indent=2))
        return
    from interpreter.cli.table import print_table

    print_table(
        ("setting", "value", "from"),
        [(name, _written(value), origin) for name, value, origin in settings],
    )


def _settings(loaded: LoadedConfig) -> Iterator[tuple[str, Any, str]]:
    for name, value in _flat(msgspec.to_builtins(loaded.config)):
        if name == "token" and value is not None:
            value = HIDDEN
        yield name, value, loaded.origins.get(name, "default")


def _flat(values: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value


def _written(value: Any) -> str:
    return value if isinstance(value, str) else text_json.dumps(value)
