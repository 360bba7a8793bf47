"""What an AppTest shows, in short."""

from typing import Any


def traces(chart: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The traces of a chart by name."""
    return {trace.get("name", str(number)): trace for number, trace in enumerate(chart["data"])}


def headers(app: Any) -> list[str]:
    """The headings of a page."""
    return [item.value for item in app.page.subheader]
