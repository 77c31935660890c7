"""Process entry of a name server: dledger nameserver --listen HOST:PORT, or python -m this."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.local import service
from cluster.nameserver.kv_config import LocalKvConfig
from cluster.nameserver.listen import NameServerConfigError, check_reach, parse_listen
from cluster.nameserver.server import NameServer
from cluster.nameserver.used_seals import FILE_NAME
from cluster.settings.namesrv_keys import NamesrvConf, read_namesrv_conf
from cluster.settings.settings import SettingsError

if TYPE_CHECKING:
    from cluster.nameserver.replicated_kv import ReplicatedKvConfig


class _Service:
    def __init__(self, server: NameServer, replicated: ReplicatedKvConfig | None) -> None:
        self._server, self._replicated = server, replicated

    async def close(self) -> None:
        await self._server.close()
        if self._replicated is not None:
            self._replicated.close()

    async def failed(self) -> BaseException:
        return await service.never()


def _add_sharing(arguments: argparse.ArgumentParser) -> None:
    """Where configuration is kept, and with which other name servers it is shared."""
    arguments.add_argument("--kv-folder", type=Path, help="keep the configuration here")
    arguments.add_argument(
        "--kv-listen", metavar="HOST:PORT", help="this server's address for the other name servers"
    )
    arguments.add_argument("--kv-peers", default="", metavar="HOST:PORT,…", help="the others'")
    arguments.add_argument(
        "--kv-password-file", type=Path, help="what proves that a name server is one of them"
    )


def _own(options: argparse.Namespace) -> LocalKvConfig:
    """This server's alone."""
    if options.kv_folder is None:
        return LocalKvConfig()
    options.kv_folder.mkdir(parents=True, exist_ok=True)
    return LocalKvConfig(options.kv_folder / "kvConfig.json")


def _shared(options: argparse.Namespace) -> ReplicatedKvConfig | None:
    """Shared with others, when there are any. Raises NameServerConfigError."""
    if options.kv_listen is None:
        return None
    if options.kv_folder is None or options.kv_password_file is None:
        raise NameServerConfigError(
            "--kv-listen needs --kv-folder and --kv-password-file; give both"
        )
    check_reach(parse_listen(options.kv_listen)[0], open_to_network=options.open_to_network)
    # Not loaded by a name server that is alone: nothing but this needs pysyncobj (R26).
    from cluster.nameserver.replicated_kv import ReplicatedKvConfig, ReplicationConfig

    return ReplicatedKvConfig(
        ReplicationConfig(
            options.kv_listen,
            [peer for peer in options.kv_peers.split(",") if peer],
            options.kv_folder,
            options.kv_password_file.read_text().strip(),
        )
    )


def _cluster_secret(path: Path | None) -> str | None:
    """Raises NameServerConfigError."""
    if path is None:
        return None
    secret = path.read_text().strip()
    if not secret:
        raise NameServerConfigError(f"{path} is empty; write the brokers' cluster_secret into it")
    return secret


def arguments_of(program: str | None = None) -> argparse.ArgumentParser:
    """The options of a name server. `program`: its name in the help."""
    arguments = service.parser("Run one name server.", program)
    arguments.add_argument(
        "--listen", metavar="HOST:PORT", help="where clients and brokers dial; needed"
    )
    arguments.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="RocketMQ's namesrv.conf for --listen, --warm-up and --kv-folder; options count more",
    )
    # In a local cluster the brokers start with the name server: nothing is to be waited for.
    arguments.add_argument(
        "--warm-up",
        type=float,
        metavar="SECONDS",
        help="answer that little is known yet for so long, until brokers have registered",
    )
    arguments.add_argument(
        "--open-to-network",
        action="store_true",
        help="listen beyond this machine, where anybody who reaches the port may register brokers",
    )
    arguments.add_argument("--tls-certificate", metavar="PEM", help="take TLS, too, on the port")
    arguments.add_argument("--tls-key", metavar="PEM", help="the certificate's key")
    arguments.add_argument("--tls-enforced", action="store_true", help="TLS and nothing else")
    arguments.add_argument(
        "--acl-file", type=Path, metavar="YAML", help="accounts, as a broker's (plain_acl.yml)"
    )
    arguments.add_argument(
        "--cluster-secret-file", type=Path, help="what brokers prove themselves with, in a file"
    )
    arguments.add_argument(
        "--no-relays", action="store_true", help="show stock clients no relays of brokers"
    )
    arguments.add_argument(
        "--notify-routes",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="tell stock Java consumers of a new leader",
    )
    _add_sharing(arguments)
    return arguments


def main(given: Sequence[str] | None = None, program: str | None = None) -> int:
    """Run it in the foreground until SIGTERM; returns the exit code. `given`: instead of argv."""
    arguments = arguments_of(program)
    options = arguments.parse_args(given)
    try:
        conf = read_namesrv_conf(options.config) if options.config else NamesrvConf()
    except OSError as error:
        arguments.error(f"{options.config} cannot be read: {error.strerror}; name another file")
    except SettingsError as error:
        arguments.error(str(error))
    for name in ("listen", "warm_up", "kv_folder"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(conf, name))
    if options.listen is None:
        arguments.error("--listen is needed; give HOST:PORT, or --config with listenPort")
    if options.tls_enforced and not (options.tls_certificate and options.tls_key):
        arguments.error("--tls-enforced needs --tls-certificate and --tls-key")

    async def start() -> _Service:
        replicated = _shared(options)
        server = NameServer(
            *parse_listen(options.listen),
            kv_config=replicated or _own(options),
            warm_up_seconds=options.warm_up,
            open_to_network=options.open_to_network,
            tls_certificate=options.tls_certificate,
            tls_key=options.tls_key,
            tls_enforced=options.tls_enforced,
            acl_file=options.acl_file,
            cluster_secret=_cluster_secret(options.cluster_secret_file),
            relays=not options.no_relays,
            notify_routes=options.notify_routes,
            seals_file=options.kv_folder / FILE_NAME if options.kv_folder else None,
        )
        await server.start()
        return _Service(server, replicated)

    return service.run(start, options.parent_fd)


if __name__ == "__main__":
    sys.exit(main())
