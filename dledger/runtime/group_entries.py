"""Configurations of the group as entries of the log, for a replica that runs on a real machine."""

from __future__ import annotations

from collections.abc import Callable

from commitlog.files.system import Buffer
from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.durable.configurations import ConfigurationFile
from dledger.replica.envelope import open_members


class GroupEntries:
    """`dledger.replica.ports.Configurations`: as internal messages of the log (envelope.py)."""

    def __init__(self, file: ConfigurationFile, body: Callable[[Configuration], Buffer]) -> None:
        self._file, self.encode = file, body
        self.note, self.decode = file.note, open_members

    @property
    def entries(self) -> list[ConfigurationEntry]:
        """All configurations that the file holds."""
        return self._file.entries
