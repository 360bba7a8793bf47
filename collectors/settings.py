"""How the collector is set up: from flags, else from the environment, else from the defaults below."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from turnlens.collectors.errors import SettingsError
from turnlens.collectors.targets import followed, targets

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Everything that can be set. ``Settings.load(store="x.duckdb")`` takes the rest from the environment."""

    store: Path = Path("turnlens.duckdb")
    host: str = "127.0.0.1"
    http_port: int = 4318
    grpc_port: int = 4317
    token: str | None = None
    # The OTLP specification recommends 20 MiB. It holds for a body as sent and for what it decompresses to.
    max_body_bytes: int = 20 * MIB
    # What may wait for the writer. Decoded rows take several times the bytes of the body that is counted here.
    queue_bytes: int = 128 * MIB
    queue_requests: int = 1024
    query_seconds: float = 30.0
    query_rows: int = 1_000_000
    query_bytes: int = 1024 * MIB
    query_workers: int = 2
    # DuckDB's own default is 80 % of the machine, which the engine beside it needs. It spills to disk past this.
    memory: str = "4GB"
    # Prometheus endpoints of engines: NAME=URL each, with commas between.
    scrape: str = ""
    scrape_seconds: float = 15.0
    # Logs that are read as they grow: KIND:PATH or NAME=KIND:PATH each, with commas between.
    follow: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", Path(self.store))
        for name, low, high in (("http_port", 0, 65535), ("grpc_port", 0, 65535)):
            if not low <= getattr(self, name) <= high:
                raise SettingsError(f"{_names(name)}: {getattr(self, name)} is not a port; give a number from {low} to {high}.")
        for name in (
            "max_body_bytes",
            "queue_bytes",
            "queue_requests",
            "query_seconds",
            "query_rows",
            "query_bytes",
            "query_workers",
            "scrape_seconds",
        ):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{_names(name)}: {getattr(self, name)} is not a limit; give a number above 0.")
        targets(self.scrape)
        followed(self.follow)
        if not self.memory:
            raise SettingsError(f"{_names('memory')} is empty; give a size such as 4GB.")
        if self.queue_bytes < self.max_body_bytes:
            raise SettingsError(
                f"{_names('queue_bytes')}: {self.queue_bytes} is less than one body may have ({self.max_body_bytes}); "
                f"raise it, or lower {_names('max_body_bytes')}."
            )
        if self.http_port and self.http_port == self.grpc_port:
            raise SettingsError(f"{_names('http_port')} and {_names('grpc_port')} are both {self.http_port}; choose two ports.")
        if not self.loopback and not self.token:
            raise SettingsError(
                f"{_names('host')}: {self.host} can be reached from other machines, and anyone there could read and write the "
                f"store. Set a token ({_names('token')}), or listen on 127.0.0.1."
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the collector."""
        return loopback(self.host)

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None, **given: Any) -> "Settings":
        """Settings from keyword arguments, where one is absent or None from ``TURNLENS_...``, else the default. Text is read as
        what the setting is. Raises SettingsError that names the flag or the variable."""
        environment = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        for field in fields(cls):
            value, origin = given.pop(field.name, None), flag_of(field.name)
            if value is None:
                origin = variable_of(field.name)
                value = environment.get(origin) or None
            if isinstance(value, str):
                try:
                    value = _READERS[field.name](value)
                except ValueError:
                    kind = "a whole number" if _READERS[field.name] is int else "a number"
                    raise SettingsError(f"{origin}: {value!r} is not {kind}.") from None
            if value is not None:
                values[field.name] = value
        if given:
            raise TypeError(f"unknown settings: {', '.join(sorted(given))}")
        return cls(**values)


_READERS: dict[str, Callable[[str], Any]] = {
    "store": Path,
    "host": str,
    "http_port": int,
    "grpc_port": int,
    "token": str,
    "max_body_bytes": int,
    "queue_bytes": int,
    "queue_requests": int,
    "query_seconds": float,
    "query_rows": int,
    "query_bytes": int,
    "query_workers": int,
    "memory": str,
    "scrape": str,
    "scrape_seconds": float,
    "follow": str,
}


def loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"TURNLENS_{name.upper()}"


def flag_of(name: str) -> str:
    """The command line flag of a setting."""
    return f"--{name.replace('_', '-')}"


def _names(name: str) -> str:
    return f"{flag_of(name)} ({variable_of(name)})"
