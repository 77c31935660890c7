"""A connection that signs and seals its requests.

Source: docs/spec/remoting.md 4.10; seals: cluster/core/access/seal.py.

    request   its fields, AccessKey, 0seal ─► HMAC over values in order of names, and the body
              Signature                    ◄─

Each attempt has its own seal, so a recorded request is of no use a second time, nor as another
request. A broker without seals (stock RocketMQ) treats the seal as one more field. A broker that
refuses a time stamp sends its own time: this connection stamps by that time from then on, and
`call` asks once more. The queue sender sends a refused message again (retry_rules.py) with a new
seal.

A send is signed by pieces: all of its fields but the born time and the properties are constant in
its encoder, so a message costs one join, one digest and one HMAC. The frame is the encoder's frame
with three more fields.
"""

from __future__ import annotations

import base64
import hmac
import itertools
import logging
import secrets
import struct
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cluster.client.config import Account
from cluster.client.connection.connection import Connection, ServerRequest, Waiter
from cluster.core.access.seal import (
    NONCE_SIZE,
    SEAL,
    SEAL_SIZE,
    Seal,
    digest_of,
    field_form,
    form_part,
    make_seal,
)
from cluster.core.access.signature import ACCESS_KEY, SIGNATURE, sign
from cluster.protocol import binary_header
from cluster.protocol.codes import VERSION_OWN, ResponseCode, stamp_of
from cluster.protocol.frames import EMPTY, PREFIX, Frame, decode_frame
from cluster.protocol.send_own import SendEncoder

SHAPES_COUNT_MAX = 4096  # of encoders: two for each queue that is sent to
CORRECTION_MS_MAX = 15 * 60 * 1000
"""A larger correction is ignored: a seal stamped ahead of time could be recorded and used later."""

_BORN, _PROPERTIES = "g", "i"
_EXT_SIZE = struct.Struct(">i")
_EXT_SIZE_AT = PREFIX.size + binary_header.FIXED.size  # sends of ours have no remark
_EXT_AT = _EXT_SIZE_AT + _EXT_SIZE.size
_SIGNATURE_SIZE = 28  # Base64 of SHA-1's 20 bytes
_CONNECTION_SIZE = 14  # hex digits of a nonce that are the connection's; the others count

_log = logging.getLogger(__name__)


class _Shape(NamedTuple):
    """Constant parts of a send: the signed values in order of their names (before g, between g and
    i, behind i), and the seal's form before and behind the size of i."""

    code: int
    before: bytes
    between: bytes
    behind: bytes
    form_before: bytes
    form_behind: bytes


class SignedConnection(Connection):
    """`Connection` with an account. `now_ms` gives the time of day for stamps, in ms since 1970."""

    def __init__(
        self,
        address: str,
        on_request: ServerRequest,
        on_lost: Callable[[Connection], None],
        account: Account,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(address, on_request, on_lost)
        self._account, self._secret = account, account.secret_key.encode()
        self._shapes: dict[SendEncoder, _Shape] = {}
        self._now_ms, self._correction_ms, self._complained = now_ms, 0, False
        self._times_believed = 0
        self._nonce, self._numbers = secrets.token_hex(_CONNECTION_SIZE // 2), itertools.count()
        # The fields that a signed send has behind its encoder's: seal, access key, signature.
        self._seal_field = binary_header.encode_ext({SEAL: " " * SEAL_SIZE})[:-SEAL_SIZE]
        blank = {ACCESS_KEY: account.access_key, SIGNATURE: " " * _SIGNATURE_SIZE}
        self._fields = binary_header.encode_ext(blank)[:-_SIGNATURE_SIZE]

    def post_send(
        self, encoder: SendEncoder, properties: bytes, body: bytes, born_ms: int, waiter: Waiter
    ) -> int:
        """As in `Connection`; the request is signed."""
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
        """As in `Connection`, signed; after a refused stamp it asks once more, with a new one."""
        believed = self._times_believed
        answer = await self._call_once(code, ext, body, time_limit, oneway)
        if answer.code == ResponseCode.SEAL_STALE and self._times_believed != believed:
            answer = await self._call_once(code, ext, body, time_limit, oneway)
        return answer

    async def _call_once(
        self, code: int, ext: Mapping[str, str], body: bytes, time_limit: float, oneway: bool
    ) -> Frame:
        signed = {**ext, ACCESS_KEY: self._account.access_key}
        seal = make_seal(code, signed, len(body), self._stamp(), self._new_nonce())
        signed[SEAL] = seal.text()
        signed[SIGNATURE] = sign(signed, body, self._account.secret_key, VERSION_OWN)
        return await super().call(code, signed, body, time_limit=time_limit, oneway=oneway)

    def told_time(self, refusal: Frame) -> None:
        """Stamp by the broker's time, unless it differs by more than `CORRECTION_MS_MAX`."""
        stamp = stamp_of(refusal.ext)
        if stamp is None:
            return
        correction = stamp - self._now_ms()
        if abs(correction) > CORRECTION_MS_MAX:
            level = logging.DEBUG if self._complained else logging.WARNING
            self._complained = True
            _log.log(
                level,
                "%s says that this client's clock is %d s wrong; set it, or the server's",
                self.address,
                correction // 1000,
            )
            return
        self._correction_ms = correction
        self._times_believed += 1

    def _stamp(self) -> int:
        return self._now_ms() + self._correction_ms

    def _new_nonce(self) -> str:
        return f"{self._nonce}{next(self._numbers):0{NONCE_SIZE - _CONNECTION_SIZE}x}"

    def _sign_send(
        self, encoder: SendEncoder, opaque: int, properties: bytes, body: bytes, born_ms: int
    ) -> bytes:
        plain = encoder.frame(opaque, properties, b"", born_ms)
        shape = self._shapes.get(encoder) or self._new_shape(encoder)
        form = b"%b%d,%b" % (shape.form_before, len(properties), shape.form_behind)
        digest = digest_of(form, len(body))
        seal = Seal(shape.code, self._stamp(), self._new_nonce(), digest).text().encode()
        born = b"%013d" % born_ms
        content = b"".join(
            (seal, shape.before, born, shape.between, properties, shape.behind, body)
        )
        signature = base64.b64encode(hmac.digest(self._secret, content, "sha1"))
        extra = len(self._seal_field) + SEAL_SIZE + len(self._fields) + _SIGNATURE_SIZE
        total, mark = PREFIX.unpack_from(plain)
        (ext_size,) = _EXT_SIZE.unpack_from(plain, _EXT_SIZE_AT)
        return b"".join(
            (
                PREFIX.pack(total + extra + len(body), mark + extra),
                plain[PREFIX.size : _EXT_SIZE_AT],
                _EXT_SIZE.pack(ext_size + extra),
                plain[_EXT_AT:],
                self._seal_field,
                seal,
                self._fields,
                signature,
                body,
            )
        )

    def _new_shape(self, encoder: SendEncoder) -> _Shape:
        frame = decode_frame(encoder.frame(0, b"x", b"", 0))
        ext = {**frame.ext, ACCESS_KEY: self._account.access_key}
        names = sorted(ext, key=str.encode)
        parts = [b"", b"", b""]
        for name in names:
            if name not in (_BORN, _PROPERTIES):
                parts[(name > _BORN) + (name > _PROPERTIES)] += ext[name].encode()
        # The size of the properties is the last thing of their own field.
        before = form_part((name for name in names if name < _PROPERTIES), ext)
        properties = field_form(_PROPERTIES, 0).removesuffix(b"0,")
        behind = form_part((name for name in names if name > _PROPERTIES), ext)
        if len(self._shapes) >= SHAPES_COUNT_MAX:
            self._shapes.clear()
        values, form = (parts[0], parts[1], parts[2]), (before + properties, behind)
        shape = _Shape(frame.code, *values, *form)
        return self._shapes.setdefault(encoder, shape)
