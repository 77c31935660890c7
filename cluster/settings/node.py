"""All settings of one broker node: its sections, and the relations between them.

[raft]     dledger.RaftConfig         who votes, timing, windows, file sizes
[broker]   cluster.broker.BrokerConfig    addresses, limits, topics
[admin]    AdminConfig                HTTP for people and monitors
[log]      LogConfig                  where the process logs, and how much is kept
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster.broker.config import BrokerConfig
from cluster.settings.settings import Settings, SettingsError
from cluster.settings.sources import read
from dledger.config import Address, RaftConfig, is_loopback
from dledger.membership.proof import secret_error

# Headers, topic and properties of a record around its body (docs/spec/store.md 1.5).
RECORD_OVERHEAD_MAX = 65_536
LOG_BYTES, LOG_BYTES_MIN = 16 * 1024 * 1024, 16 * 1024
LOG_FILES, LOG_FILES_MAX = 5, 1000


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """The admin HTTP of a node: /healthz, /readyz, /metrics, /api/v1, and the console at /."""

    #: Where to listen; not set: no admin HTTP. Beyond this machine it needs a token.
    listen: Address | None = None
    #: What requests show beyond this machine: Authorization: Bearer TOKEN. On loopback nothing is
    #: asked for, so there it is refused.
    token: str | None = field(default=None, repr=False)
    #: A token that may do all but make, change and delete topics. Only beside `token`.
    operator_token: str | None = field(default=None, repr=False)
    #: A token that may read, for monitors and for people who only look. Only beside `token`.
    viewer_token: str | None = field(default=None, repr=False)
    #: The account by which the console asks brokers with access control: a file with accessKey and
    #: secretKey. On loopback it needs `token`, or anybody on this machine could use it.
    account_file: Path | None = None
    #: A replica is ready when it lags its leader by at most this many entries. More: a node counts
    #: as ready sooner after a restart. Less: it flickers under load.
    ready_lag_max: int = 10_000
    #: A folder of chaos runs on this node's disk: the console lists them, with their reports.
    chaos_runs: Path | None = None

    def tokens(self) -> dict[str, str]:
        """Setting → token, of those that are set."""
        given = {name: getattr(self, name) for name in ("token", "operator_token", "viewer_token")}
        return {name: token for name, token in given.items() if token is not None}

    def validate(self) -> None:
        """Raise ValueError for an address beyond this machine without a token."""
        where = "" if self.listen is None else f"listen {self.listen[0]}:{self.listen[1]}"
        beyond = self.listen is not None and not is_loopback(self.listen[0])
        if beyond and self.token is None:
            raise ValueError(
                f"{where} is beyond this machine and token is not set, so there is no access "
                "control; set token, or use a loopback address and a tunnel"
            )
        if self.token is not None and not beyond and self.account_file is None:
            raise ValueError(
                "token is set and listen is not beyond this machine, where nobody is asked for it; "
                "take token out, or listen on another address"
            )
        if self.account_file is not None and self.token is None:
            raise ValueError(
                "account_file is set and token is not, so anybody on this machine could use that "
                "account; set token"
            )
        for name, token in self.tokens().items():
            if wrong := secret_error(token):
                raise ValueError(f"{name} {wrong}")
            if self.token is None:
                raise ValueError(f"{name} is set and token is not; set token, too")
        if len(set(self.tokens().values())) < len(self.tokens()):
            raise ValueError("two tokens are the same; give each role one of its own")
        if self.ready_lag_max < 0:
            raise ValueError(f"ready_lag_max {self.ready_lag_max} must not be negative")


class LogFormat(enum.Enum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The log of a process. With several replicas the settings of the first one count."""

    #: The file that takes the process's whole output; not set: output stays where it is, and what
    #: started the process rotates it (systemd and containers do). `dledger up` sets it.
    file: Path | None = None
    #: A file that is larger becomes NAME.1, that one NAME.2 and so on. More: a longer story in one
    #: piece. Less: the oldest lines go sooner.
    bytes: int = LOG_BYTES
    #: So many files are kept altogether; with `bytes` that is the space that a log takes.
    files: int = LOG_FILES
    #: text: a line for people. json: an object on a line, with time (UTC), level, name, message,
    #: and error with its traceback, for programs that collect logs. Lines from before the settings
    #: are read are as DLEDGER_LOG_FORMAT says.
    format: LogFormat = LogFormat.TEXT

    def validate(self) -> None:
        """Raise ValueError for files that would rotate with nearly each line, or none at all."""
        if self.bytes < LOG_BYTES_MIN:
            raise ValueError(f"bytes {self.bytes} must be at least {LOG_BYTES_MIN}")
        if not 1 <= self.files <= LOG_FILES_MAX:
            raise ValueError(f"files {self.files} is not within 1..{LOG_FILES_MAX}")


SECTIONS: dict[str, type] = {
    "raft": RaftConfig,
    "broker": BrokerConfig,
    "admin": AdminConfig,
    "log": LogConfig,
}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Checked settings, ready to start a node with; `shown` are all of them with their origins."""

    raft: RaftConfig
    broker: BrokerConfig
    admin: AdminConfig
    log: LogConfig
    shown: Sequence[Mapping[str, object]] = ()


def read_node(
    file: Path | None, environment: Mapping[str, str], flags: Iterable[str] = ()
) -> Settings:
    """Collect a node's settings; `build_node` checks them."""
    return read(SECTIONS, file, environment, flags)


def build_node(settings: Settings) -> NodeSettings:
    """The settings of one node. Raises SettingsError, which names contradicting values."""
    given = settings.given
    node_id = given.get("raft", {}).get("node_id")
    root = given.get("broker", {}).get("root")
    # Said once, it holds for both sections.
    common = {"node_id": node_id.value} if node_id else {}
    data_dir: dict[str, object] = {}
    if node_id and root:
        data_dir = {"data_dir": Path(str(root.value)) / f"dledger-{node_id.value}"}
    raft = settings.build("raft", RaftConfig, **data_dir)
    broker = settings.build("broker", BrokerConfig, **common)
    admin = settings.build("admin", AdminConfig)
    _check_relations(raft, broker)
    return NodeSettings(raft, broker, admin, settings.build("log", LogConfig), settings.shown())


def _check_relations(raft: RaftConfig, broker: BrokerConfig) -> None:
    if raft.node_id != broker.node_id:
        raise SettingsError(
            f"raft.node_id {raft.node_id} and broker.node_id {broker.node_id} differ; "
            "give both the same"
        )
    strangers = sorted(set(broker.peers) - set(raft.peers))
    if strangers:
        raise SettingsError(
            f"broker.peers names {strangers[0]}, and raft.peers only {', '.join(raft.peers)}; "
            "name the same nodes in both"
        )
    if broker.body_size_max + RECORD_OVERHEAD_MAX > raft.entry_size_max:
        raise SettingsError(
            f"broker.body_size_max {broker.body_size_max} and {RECORD_OVERHEAD_MAX} bytes around "
            f"it do not fit into raft.entry_size_max {raft.entry_size_max}; lower the first or "
            "raise "
            "the second"
        )
    if broker.in_flight_bytes_max > raft.uncommitted_bytes_max:
        raise SettingsError(
            f"broker.in_flight_bytes_max {broker.in_flight_bytes_max} is above "
            f"raft.uncommitted_bytes_max {raft.uncommitted_bytes_max}; lower the first or raise "
            "the "
            "second"
        )
