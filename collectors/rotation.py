"""Which file a log is now, and which ones it was before: moved away under a number or a date, or one of a pattern's names."""

import errno
import re
from pathlib import Path

# What a rotation adds to a name: .1, -20261129, .2026-11-29_10. Packed files are not read.
_ROTATED = re.compile(r"[.-]\d[\d._:T-]{0,40}")
_MOST_BEFORE = 8


class LogFiles:
    """The files of one path. With ``*`` or ``?`` in its name it means files that follow each other, by their names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_pattern = any(sign in path.name for sign in "*?")

    def current(self) -> Path:
        """The file that is written now. Raises FileNotFoundError."""
        if not self._is_pattern:
            return self._path
        found = self._matching()
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no file has a name of that pattern", str(self._path))
        return found[-1]

    def before(self) -> list[Path]:
        """The files that were written before, the oldest first, at most the last eight."""
        if self._is_pattern:
            return self._matching()[:-1][-_MOST_BEFORE:]
        name = self._path.name
        beside = [path for path in self._path.parent.glob("*") if path.name.startswith(name) and path.is_file()]
        rotated = [path for path in beside if _ROTATED.fullmatch(path.name.removeprefix(name))]
        return sorted(rotated, key=lambda path: (path.stat().st_mtime_ns, path.name))[-_MOST_BEFORE:]

    def with_inode(self, inode: int) -> Path | None:
        """The file that was the current one once, wherever it is by now in its folder."""
        current = self.current()
        if not inode or not current.exists() or current.stat().st_ino == inode:
            return None
        if self._is_pattern:
            beside = self._matching()
        else:
            beside = [path for path in current.parent.glob("*") if path.name.startswith(current.name) and path.is_file()]
        return next((path for path in beside if path != current and path.stat().st_ino == inode), None)

    def _matching(self) -> list[Path]:
        return sorted(path for path in self._path.parent.glob(self._path.name) if path.is_file())
