"""The scheduler: sessions, their states, their cells, and the sandboxes that stand ready."""

from interpreter.orchestrator.orchestrator import Orchestrator
from interpreter.orchestrator.session import LiveSession

__all__ = ["LiveSession", "Orchestrator"]
