"""A connection that signs what it sends (remoting.md 4.10).

    request   its fields, nonce, AccessKey ─► HMAC over values in order of names, and the body
              Signature                    ◄─

A send is signed by pieces: all of its fields but the born time and the properties are constant in
its encoder, so a message costs one join and one HMAC, and the frame is the encoder's with two
fields more.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cluster.client.connection import Connection, ServerRequest, Waiter
from cluster.client.security import Account
from cluster.core.access.signature import ACCESS_KEY, SIGNATURE, sign
from cluster.protocol import binary_header
from cluster.protocol.codes import VERSION_OWN
from cluster.protocol.frames import EMPTY, PREFIX, Frame, decode_frame
from cluster.protocol.send_own import SendEncoder

#: A field that no handler reads: it gives each request a signature of its own, since a broker takes
#: one for one code only (cluster/core/access/single_use.py). A send has its message id for that.
NONCE = "nonce"
SHAPES_COUNT_MAX = 4096  # of encoders: two for each queue that is sent to

_BORN, _PROPERTIES = "g", "i"
_EXT_SIZE = struct.Struct(">i")
_EXT_SIZE_AT = PREFIX.size + binary_header.FIXED.size  # sends of ours have no remark
_EXT_AT = _EXT_SIZE_AT + _EXT_SIZE.size
_SIGNATURE_SIZE = 28  # Base64 of SHA-1's 20 bytes


class _Shape(NamedTuple):
    """Constant values of a send, in order of their names: before g, between g and i, behind i."""

    before: bytes
    between: bytes
    behind: bytes


class SignedConnection(Connection):
    """`Connection` with an account."""

    def __init__(
        self,
        address: str,
        on_request: ServerRequest,
        on_lost: Callable[[Connection], None],
        account: Account,
    ) -> None:
        super().__init__(address, on_request, on_lost)
        self._account, self._secret = account, account.secret_key.encode()
        self._shapes: dict[SendEncoder, _Shape] = {}
        # The fields that a signed send has behind its encoder's; then come the signature's bytes.
        blank = {ACCESS_KEY: account.access_key, SIGNATURE: " " * _SIGNATURE_SIZE}
        self._fields = binary_header.encode_ext(blank)[:-_SIGNATURE_SIZE]

    def post_send(
        self, encoder: SendEncoder, properties: bytes, body: bytes, born_ms: int, waiter: Waiter
    ) -> int:
        """As in `Connection`, signed."""
        opaque = self.next_opaque()
        self.post(opaque, self._sign_send(encoder, opaque, properties, body, born_ms), waiter)
        return opaque

    async def call(
        self,
        code: int,
        ext: Mapping[str, str] = EMPTY,
        body: bytes = b"",
        *,
        time_limit: float,
        oneway: bool = False,
    ) -> Frame:
        """As in `Connection`, signed."""
        signed = {**ext, ACCESS_KEY: self._account.access_key, NONCE: secrets.token_hex(8)}
        signed[SIGNATURE] = sign(signed, body, self._account.secret_key, VERSION_OWN)
        return await super().call(code, signed, body, time_limit=time_limit, oneway=oneway)

    def _sign_send(
        self, encoder: SendEncoder, opaque: int, properties: bytes, body: bytes, born_ms: int
    ) -> bytes:
        plain = encoder.frame(opaque, properties, b"", born_ms)
        before, between, behind = self._shapes.get(encoder) or self._new_shape(encoder)
        content = b"".join((before, b"%013d" % born_ms, between, properties, behind, body))
        signature = base64.b64encode(hmac.digest(self._secret, content, "sha1"))
        extra = len(self._fields) + _SIGNATURE_SIZE
        total, mark = PREFIX.unpack_from(plain)
        (ext_size,) = _EXT_SIZE.unpack_from(plain, _EXT_SIZE_AT)
        return b"".join(
            (
                PREFIX.pack(total + extra + len(body), mark + extra),
                plain[PREFIX.size : _EXT_SIZE_AT],
                _EXT_SIZE.pack(ext_size + extra),
                plain[_EXT_AT:],
                self._fields,
                signature,
                body,
            )
        )

    def _new_shape(self, encoder: SendEncoder) -> _Shape:
        ext = {**decode_frame(encoder.frame(0, b"x", b"", 0)).ext}
        ext[ACCESS_KEY] = self._account.access_key
        parts = [b"", b"", b""]
        for name in sorted(ext, key=str.encode):
            if name not in (_BORN, _PROPERTIES):
                parts[(name > _BORN) + (name > _PROPERTIES)] += ext[name].encode()
        if len(self._shapes) >= SHAPES_COUNT_MAX:
            self._shapes.clear()
        return self._shapes.setdefault(encoder, _Shape(*parts))
