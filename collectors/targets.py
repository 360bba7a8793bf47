"""Which Prometheus endpoints are read, as the setting says it."""

from typing import NamedTuple

from turnlens.collectors.errors import SettingsError


class Target(NamedTuple):
    """One endpoint, and the engine that it is of."""

    engine: str
    url: str


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
