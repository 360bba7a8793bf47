"""Numbers in sentences."""

import pytest

from turnlens.queries.words import counted


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 turns"), (1, "1 turn"), (1.0, "1 turn"), (2, "2 turns"), (12_000, "12,000 turns")],
)
def test_one_is_singular(number: float, said: str) -> None:
    assert counted(number, "turn") == said


def test_a_plural_that_is_not_regular() -> None:
    assert (counted(1, "publish", "publishes"), counted(2, "publish", "publishes")) == ("1 publish", "2 publishes")
