"""Names, numbers and outputs, as all other types use them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

Name = Annotated[str, Meta(min_length=1, max_length=100)]
Label = Annotated[str, Meta(max_length=200)]
ContextName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
WorkspaceName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Owner = Annotated[str, Meta(min_length=1, max_length=100)]
"""Whose something is: a user or a tenant, in whatever words the caller has for them."""
Who = Annotated[str, Meta(min_length=1, max_length=100, pattern="^[^\\x00-\\x1f\\x7f]+$")]
"""Who runs something, in the caller's own words: a program, a person, an agent."""
MOST = 2**53
"""The largest whole number that every JSON reader reads exactly."""
Output = dict[str, Any]
"""One nbformat output: stream, display_data, execute_result or error."""
