"""The property block of a message as the broker stores it (docs/spec/remoting.md 2.2 e).

    the client's pairs, without what brokers put on | UNIQ_KEY if it is missing | the suffix

The suffix (MSG_REGION, TRACE_ON, CLUSTER) is the same for every message: precomputed bytes.
"""

from __future__ import annotations

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.core.delay.due import TIMER_NAMES
from cluster.errors import RequestNotSupported
from commitlog.errors import MessageTooLarge
from commitlog.records.ids import UniqueKeyGenerator
from commitlog.records.properties import PROPERTIES_SIZE_MAX, without_property

# Put on by brokers; a client that sends a received message again has them already.
_BROKERS_OWN = (b"MSG_REGION", b"TRACE_ON", b"CLUSTER", b"POP_CK")


class StoredProperties:
    """Makes blocks for one broker."""

    def __init__(self, config: BrokerConfig, unique_keys: UniqueKeyGenerator) -> None:
        self._unique_keys = unique_keys
        self.suffix = (
            f"MSG_REGION\x01{config.region}\x02TRACE_ON\x01{str(config.trace_on).lower()}\x02"
            f"CLUSTER\x01{config.cluster_name}\x02"
        ).encode()

    def block(self, properties: bytes, target: SendTarget) -> bytes:
        """The property block as it is stored. Raises MessageTooLarge."""
        if properties and properties[-1] != 2:
            properties += b"\x02"
        if not target.is_own:
            for name in _BROKERS_OWN:
                if name in properties:
                    properties = without_property(properties, name)
        if b"UNIQ_KEY\x01" in properties:
            properties += self.suffix
        else:
            key = self._unique_keys.next().encode()
            properties = b"%bUNIQ_KEY\x01%b\x02%b" % (properties, key, self.suffix)
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise MessageTooLarge("properties", len(properties), PROPERTIES_SIZE_MAX)
        return properties


def check_batch_item(properties: bytes) -> None:
    """A batch has one answer and one row of offsets, so none of its messages may wait elsewhere.

    Raises RequestNotSupported.
    """
    for pair in properties.split(b"\x02"):
        name, _, value = pair.partition(b"\x01")
        if name in TIMER_NAMES or (name == b"DELAY" and value not in (b"", b"0")):
            raise RequestNotSupported("a batch cannot hold delayed messages; send them one by one")
