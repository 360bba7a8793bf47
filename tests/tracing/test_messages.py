"""What is left out of messages before they are compared without times, or without thinking."""

import pytest

from turnlens.tracing.messages import without_thinking, without_times


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("It is 10:02.", "It is \0."),
        ("It is 10:02:33.125 PM UTC now", "It is \0 now"),
        ("2026-11-30T10:02:33Z", "\0"),
        ("at 2026-11-30T10:02:33.5+01:00, then", "at \0, then"),
        ("2026-11-30 10:02 and 2026/1/2", "\0 \0 and \0"),
        ("on 30.11.2026 or 11/30/26", "on \0 or \0"),
        ("Monday, November 30th, 2026", "\0, \0"),
        ("Mon 30 Nov 2026", "\0 \0"),
        ("Sept. 3 in the morning", "\0 in the morning"),
        ("since 1790000000, 1790000000123 and 1790000000123456789", "since \0, \0 and \0"),
        ("version 1.2.3, 17 files, a ratio of 3:2, id 4711", "version 1.2.3, 17 files, a ratio of 3:2, id 4711"),
        ("d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427e"),
        ("mayor 5, 12 decimals, Sunderland", "mayor 5, 12 decimals, Sunderland"),
    ],
)
def test_dates_and_times(text: str, left: str) -> None:
    assert without_times(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", "Yes."),
        ("A <think>b</think>c <think>d</think>e", "A c e"),
        ("<thinking>a</thinking> b <reasoning>c</reasoning>", "b "),
        ("<think>never closed", "<think>never closed"),
        ("</think>Yes.", "</think>Yes."),
        ("Yes.", "Yes."),
    ],
)
def test_thinking(text: str, left: str) -> None:
    assert without_thinking(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>" * 100_000, "<think>" * 100_000),
        ("1:" * 300_000, "1:" * 300_000),
        ("1" * 600_000, "1" * 600_000),
        ("mon" * 200_000, "mon" * 200_000),
        ("1-1-" * 150_000, "1-1-" * 150_000),
        ("10:11," * 100_000, "\0," * 100_000),
    ],
)
def test_what_is_hostile_comes_to_an_end(text: str, left: str) -> None:
    """Of 600,000 characters in a moment; if it took the square of that, this would not end."""
    assert without_thinking(without_times(text)) == left
