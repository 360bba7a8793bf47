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

    def before(self, inode: int = 0) -> list[Path]:
        """The files that were written before, the oldest first: the last eight, and all from the one that was read last."""
        if self._is_pattern:
            found = self._matching()[:-1]
        else:
            found = [path for path in self._beside() if _ROTATED.fullmatch(path.name.removeprefix(self._path.name))]
            found.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
        last = next((number for number, path in enumerate(found) if path.stat().st_ino == inode), len(found))
        return found[max(0, min(last, len(found) - _MOST_BEFORE)) :]

    def with_inode(self, inode: int) -> Path | None:
        """The file that was the current one once, wherever it is by now in its folder."""
        current = self.current()
        if not inode or not current.exists() or current.stat().st_ino == inode:
            return None
        beside = self._matching() if self._is_pattern else self._beside()
        return next((path for path in beside if path != current and path.stat().st_ino == inode), None)

    def _beside(self) -> list[Path]:
        return [path for path in self._path.parent.glob("*") if path.name.startswith(self._path.name) and path.is_file()]

    def _matching(self) -> list[Path]:
        return sorted(path for path in self._path.parent.glob(self._path.name) if path.is_file())
