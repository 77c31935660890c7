"""Spans of messages for OpenTelemetry; see README.md. Off unless it is asked for.

The context travels in the message: a property `traceparent` (W3C), which every client keeps.
"""

from __future__ import annotations

from cluster.tracing.context import Parent, parent_of

__all__ = ["Parent", "parent_of"]
