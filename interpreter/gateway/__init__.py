"""The API layer: parses requests, checks who asks, streams answers. Decides nothing."""

from interpreter.gateway.server import serve

__all__ = ["serve"]
