"""Tokens for pages elsewhere that show one session's outputs.

Such a token is not stored: it says itself which session it is for and until when, and nobody else can
have written it. What it is good for, operations say themselves (`embeddable`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from interpreter.errors import SessionNotFound
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models.embeds import Embed, EmbedCreate


async def create_embed(call: ApiHandler) -> Any:
    seconds = call.body(EmbedCreate).seconds
    session = call.orchestrator.get(call.path["session_id"])
    token, until = call.gateway.guard.embeds.write(session.id, seconds)
    return Embed(
        token=token,
        url=f"/embed/{session.id}#token={token}",
        expires_at=datetime.fromtimestamp(until, UTC),
    )


OPERATIONS = [
    Operation(
        "POST",
        "/v1/sessions/{session_id}/embed",
        "A short-lived token to show a session's outputs with, and nothing else",
        create_embed,
        body=EmbedCreate,
        answers={201: Embed},
        errors=(SessionNotFound,),
    ),
]
