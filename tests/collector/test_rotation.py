"""Which files a log is and was."""

import os
from pathlib import Path

import pytest

from turnlens.collectors.rotation import LogFiles


def test_what_a_rotation_left(tmp_path: Path) -> None:
    """By time, under a number or a date; packed files, others that begin alike, and folders are none."""
    names = ["server.log", "server.log.2", "server.log.1", "server.log-20261128", "server.log.2026-11-27_10"]
    others = ["server.log.1.gz", "server.log.bak", "server.log2", "other.log.1"]
    for age, name in enumerate([*names, *others]):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1_790_000_000 - age, 1_790_000_000 - age))
    (tmp_path / "server.log.9").mkdir()
    files = LogFiles(tmp_path / "server.log")
    assert files.current() == tmp_path / "server.log"
    assert [path.name for path in files.before()] == names[:0:-1]
    inode = (tmp_path / "server.log.1").stat().st_ino
    assert files.with_inode(inode) == tmp_path / "server.log.1"
    assert files.with_inode((tmp_path / "server.log").stat().st_ino) is None
    assert files.with_inode(0) is None


def test_at_most_the_last_eight(tmp_path: Path) -> None:
    for hour in range(12):
        (tmp_path / f"m-{hour:02}.log").write_text("x")
    files = LogFiles(tmp_path / "m-*.log")
    assert files.current().name == "m-11.log"
    assert [path.name for path in files.before()] == [f"m-{hour:02}.log" for hour in range(3, 11)]


def test_a_pattern_of_nothing(tmp_path: Path) -> None:
    files = LogFiles(tmp_path / "m-*.log")
    assert files.before() == []
    with pytest.raises(FileNotFoundError, match="no file has a name of that pattern"):
        files.current()


def test_names_that_follow_each_other_and_the_one_that_was_read_last(tmp_path: Path) -> None:
    for hour in (9, 10):
        (tmp_path / f"m-{hour:02}.log").write_text("x")
    files = LogFiles(tmp_path / "m-*.log")
    assert files.with_inode((tmp_path / "m-09.log").stat().st_ino) == tmp_path / "m-09.log"


def test_a_bracket_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "app[1].log").write_text("x")
    assert LogFiles(tmp_path / "app[1].log").current() == tmp_path / "app[1].log"


def test_all_that_came_since_the_one_that_was_read_last(tmp_path: Path) -> None:
    """A collector that was away for eleven hours."""
    for hour in range(12):
        (tmp_path / f"m-{hour:02}.log").write_text("x")
    files = LogFiles(tmp_path / "m-*.log")
    found = files.before((tmp_path / "m-01.log").stat().st_ino)
    assert [path.name for path in found] == [f"m-{hour:02}.log" for hour in range(1, 11)]
    assert len(files.before((tmp_path / "m-10.log").stat().st_ino)) == 8
