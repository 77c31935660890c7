"""What a port does with TLS and with plain connections."""

from __future__ import annotations

import enum


class TlsMode(enum.Enum):
    """Names as in RocketMQ's tls.server.mode. PERMISSIVE takes both."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"
