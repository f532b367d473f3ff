"""Showing a session's outputs on a page elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

LONGEST = 7 * 86400


class EmbedCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a token that lets see the outputs of one session, and nothing else."""

    seconds: Annotated[int, Meta(ge=1, le=LONGEST)] = 3600
    """How long it is good for."""


class Embed(Struct, frozen=True, kw_only=True):
    """A token for the outputs of one session, and the page that shows them with it."""

    token: str
    """For `Authorization: Bearer`."""
    url: str
    """From the gateway's root. The token is in its fragment, which a browser sends to nobody."""
    expires_at: datetime
