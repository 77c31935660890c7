"""pysyncobj, with Python's own `socket` left as it is.

On every platform pysyncobj puts a function that works on Windows only in the place of
`socket.inet_ntop` (its win_inet_pton.py), which psutil's list of connections needs, for instance to
name the process that has a port. So pysyncobj is imported here, and nowhere else.
"""

from __future__ import annotations

import _socket
import socket

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated
from pysyncobj.batteries import ReplDict
from pysyncobj.transport import TCPTransport

socket.inet_ntop = _socket.inet_ntop

__all__ = ["FAIL_REASON", "ReplDict", "SyncObj", "SyncObjConf", "TCPTransport", "replicated"]
