"""Numbers in sentences."""


def counted(count: float, noun: str, several: str | None = None) -> str:
    """A number of things, in the singular where there is one: ``1 turn``, ``1,200 turns``, ``2 publishes`` (``several``)."""
    return f"{count:,.0f} {noun if count == 1 else several or f'{noun}s'}"
