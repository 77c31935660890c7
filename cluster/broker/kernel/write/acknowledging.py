"""At which durability a send is acknowledged: the most particular word that was said counts.

    property DURABILITY of a message        stock producers, single messages
    field "durability" of the request       our own producers, batches too (ProducerConfig)
    attribute "durability" of the topic     mqadmin updateTopic -a +durability=…
    setting broker.durability               flushDiskType in broker.conf

dledger/producers/durability.py says what a level risks. What waits (delays, halves of transactions)
and what is a repeat (R8) is acknowledged when it is committed, whatever was said.
"""

from __future__ import annotations

from typing import Final

from cluster.core.topics import TopicConfig
from cluster.errors import InvalidRequest
from cluster.protocol.send import SendTemplate
from commitlog.records.properties import find_property
from dledger.producers.durability import Durability, durability_of

PROPERTY: Final = b"DURABILITY"
ATTRIBUTE: Final = "durability"


def is_early(template: SendTemplate, config: TopicConfig, setting: str) -> bool:
    """May these sends be acknowledged before they are committed? Raises InvalidRequest."""
    said = template.durability or config.attributes.get(ATTRIBUTE) or setting
    return _level(said) is not Durability.MAJORITY_ON_DISK


def is_early_by_property(properties: bytes, otherwise: bool) -> bool:
    """The same for one message with the property. Raises InvalidRequest."""
    said = find_property(properties, PROPERTY)
    if said is None:
        return otherwise
    return _level(said.decode("utf-8", "replace")) is not Durability.MAJORITY_ON_DISK


def check_attribute(config: TopicConfig) -> None:
    """Raises InvalidRequest when a topic says a level that does not exist."""
    _level(config.attributes.get(ATTRIBUTE, Durability.MAJORITY_ON_DISK.value))


def _level(text: str) -> Durability:
    try:
        return durability_of(text)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
