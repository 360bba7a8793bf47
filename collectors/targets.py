"""Which Prometheus endpoints and which log files are read, as the settings say it."""

from pathlib import Path
from typing import NamedTuple

from turnlens.collectors.errors import SettingsError


class Target(NamedTuple):
    """One endpoint, and the engine that it is of."""

    engine: str
    url: str


class Followed(NamedTuple):
    """One log file, of which kind it is, and the engine that writes it."""

    engine: str
    kind: str
    path: Path
    ranks: int = 1


KINDS = ("llama", "vllm", "traffic", "sglang", "sparkcache", "flare")


def followed(text: str) -> list[Followed]:
    """The log files of a setting: ``KIND:PATH`` or ``NAME=KIND:PATH`` each, with commas between. Raises SettingsError."""
    found: list[Followed] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        where, path = part.partition(":")[::2]
        name, kind = where.rpartition("=")[::2]
        kind, slash, ranks = kind.partition("/")
        if kind not in KINDS or not path or bool(slash) != (kind == "sparkcache") or (slash and not _count(ranks)):
            raise SettingsError(
                f"--follow (TURNLENS_FOLLOW): {part!r} is no log to follow. Give KIND:PATH or NAME=KIND:PATH, with commas "
                f"between several. Kinds: {', '.join(KINDS)}; of sparkcache with its ranks: sparkcache/4:PATH. Others are "
                "imported: turnlens import --help."
            )
        found.append(Followed(name or kind, kind, Path(path), int(ranks or 1)))
    if len({each.path.absolute() for each in found}) < len(found):
        raise SettingsError("--follow (TURNLENS_FOLLOW): one file is named twice.")
    return found


def targets(text: str) -> list[Target]:
    """The endpoints of a setting: ``NAME=URL`` or ``URL`` each, with commas between. Raises SettingsError."""
    found: list[Target] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, url = part.partition("=")
        if not equals or "://" in name:
            name, url = "", part
        host = url.partition("://")[2].partition("/")[0]
        if not url.startswith(("http://", "https://")) or not host:
            raise SettingsError(
                f"--scrape (TURNLENS_SCRAPE): {part!r} is no URL. "
                "Give NAME=http://host:port/metrics, with commas between several."
            )
        found.append(Target(name or host, url))
    return found


def _count(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) < 100_000
