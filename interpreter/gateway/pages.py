"""What describes the gateway itself: its health, its OpenAPI description, the page that shows it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from interpreter import __version__
from interpreter.errors import NotFound
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import MOST, AuditLog, GatewayStatus, Health

DOCS_PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Interpreter API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
DOCS_SCRIPT = b"""SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null,
});
"""
DOCS_ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def health(call: ApiHandler) -> Any:
    runtime = call.orchestrator.runtime
    problems = call.orchestrator.problems
    return Health(
        status="degraded" if problems else "ok",
        problems=problems,
        version=__version__,
        runtime=runtime.name,
        isolation=runtime.isolation,
        sessions=call.orchestrator.session_count,
    )


async def status(call: ApiHandler) -> Any:
    return call.orchestrator.status()


class Entries(Struct, forbid_unknown_fields=True):
    """Of one session or of all: the last `limit`, or the first after the one with the number `after`."""

    session: Annotated[str, Meta(max_length=200)] | None = None
    after: Annotated[int, Meta(ge=0, le=MOST)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


async def read_audit_log(call: ApiHandler) -> Any:
    wanted = call.query(Entries)
    return await call.orchestrator.audit_log(wanted.session, wanted.after, wanted.limit)


async def openapi(call: ApiHandler) -> Any:
    call.finish(call.gateway.description)


async def docs(call: ApiHandler) -> Any:
    call.set_header("Content-Type", "text/html; charset=utf-8")
    call.set_header("Content-Security-Policy", DOCS_POLICY)
    call.finish(DOCS_PAGE)


async def docs_script(call: ApiHandler) -> Any:
    call.set_header("Content-Type", "text/javascript")
    call.finish(DOCS_SCRIPT)


async def docs_asset(call: ApiHandler) -> Any:
    name = call.path["name"]
    if name not in DOCS_ASSETS:
        raise NotFound(f"The page has no part '{name[:100]}'.")
    call.set_header("Content-Type", DOCS_ASSETS[name])
    call.set_header("Cache-Control", "max-age=3600")
    call.finish((_swagger_ui() / name).read_bytes())


def _swagger_ui() -> Path:
    """The files of Swagger UI. Its package is found, not imported: the rest of it is not needed."""
    spec = find_spec("swagger_ui")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "static"


HEALTH = Operation(
    "GET", "/healthz", "Whether the gateway works", health, answers={200: Health}, public=True
)

STATUS = Operation("GET", "/v1/status", "How full the gateway is", status, answers={200: GatewayStatus})

AUDIT = Operation(
    "GET",
    "/v1/audit",
    "What became of sessions and why, deleted ones included, oldest first",
    read_audit_log,
    query=Entries,
    answers={200: AuditLog},
)

UNLISTED = [
    Operation("GET", "/openapi.json", "This description", openapi, public=True),
    Operation("GET", "/docs", "This description as a page", docs, public=True),
    Operation("GET", "/docs/start.js", "What starts the page", docs_script, public=True),
    Operation("GET", "/docs/assets/{name}", "The page's parts", docs_asset, public=True),
]
