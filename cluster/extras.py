"""Which extra of dledger brings which module, and the error that says so.

`pip install dledger` brings the log and the store, which need the standard library only. Each extra
brings distributions of ours, and what they need; what is missing is named where it is asked for:

    dledger[client]   cluster.client; dledger produce, consume, topic, group, message, leader
    dledger[server]   brokers, name servers, every other command
    dledger[chaos]    the simulator, live faults, the demo
    dledger[spark]    the pipeline
    dledger[otel]     spans of messages for OpenTelemetry
    dledger[backup]   backups in a store that speaks S3
    dledger[fast]     nothing new: numpy, orjson, zlib-ng and uvloop: the same in less time
    dledger[all]      all of these
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from commitlog.advice import with_advice

#: Top-level module → the smallest extra that brings it and needs it.
EXTRA_OF: Mapping[str, str] = {
    "aiohttp": "server",
    "boto3": "backup",
    "botocore": "backup",
    "chaos": "chaos",
    "click": "client",
    "cryptography": "server",
    "numpy": "spark",  # elsewhere it only makes things quicker
    "opentelemetry": "otel",
    "orjson": "client",
    "pandas": "spark",
    "pipeline": "spark",
    "prometheus_client": "server",
    "psutil": "server",
    "pyarrow": "spark",
    "pyspark": "spark",
    "pysyncobj": "server",
    "rich": "client",
    "yaml": "server",
}

#: Parts of this package that dledger-server brings; dledger-client brings the others.
SERVER_PARTS = frozenset(
    {
        "backup",
        "bench",
        "broker",
        "console",
        "health",
        "limits",
        "local",
        "metrics",
        "move",
        "nameserver",
        "reference",
        "security",
        "settings",
    }
)

#: Commands of distributions of our own that an extra brings → that extra.
COMMANDS_OF_EXTRAS: Mapping[str, str] = {
    "chaos": "chaos",
    "demo": "chaos",
    "mutants": "chaos",
    "mutants-drawn": "chaos",
    "pipeline": "spark",
    "sim": "chaos",
}


class MissingExtra(ModuleNotFoundError):
    """A module of an extra that was not installed; `extra` is the extra's name."""

    def __init__(self, module: str, extra: str) -> None:
        what = f"{module} is not installed, and dledger was installed without the extra {extra}"
        attempt = f"pip install 'dledger[{extra}]'"
        ours = f"dledger-{extra}"
        if module.startswith(f"{__package__}.") and _is_installed(ours):
            what = f"{module} is missing, although {ours} is installed"
            attempt = f"pip install --force-reinstall --no-deps {ours}=={version(ours)}"
        super().__init__(with_advice(what, attempt), name=module)
        self.extra = extra


def missing_command(name: str) -> MissingExtra | None:
    """The error for a command that an extra brings; None for any other name."""
    extra = COMMANDS_OF_EXTRAS.get(name)
    return None if extra is None else MissingExtra(f"the command {name}", extra)


def missing_extra(error: ImportError) -> ImportError:
    """The error to raise instead of an import's: MissingExtra when an extra brings the module,
    a part of this package or another one; `error` itself for any other module."""
    if isinstance(error, MissingExtra) or not isinstance(error, ModuleNotFoundError):
        return error
    module, _, below = (error.name or "").partition(".")
    if module == __package__:
        return MissingExtra(f"{module}.{below}", _extra_of_part(below.partition(".")[0]))
    extra = EXTRA_OF.get(module)
    return error if extra is None else MissingExtra(module, extra)


def _extra_of_part(part: str) -> str:
    return "server" if part in SERVER_PARTS else "client"


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
