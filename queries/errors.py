"""What can go wrong with a store or a query. Every message names the thing and the next step.

StoreError
 ├── StoreMissingError    no store at that path or URL
 ├── StoreLockedError     another process has the file open
 ├── StoreVersionError    written by a newer Turnlens, or not by Turnlens at all
 └── QueryError           the SQL was refused or failed
      ├── UnknownCauseError  there is no such cause
      └── UnknownIdError     nothing, or more than one thing, has that id
           ├── UnknownTurnError
           └── UnknownConversationError
"""


class StoreError(Exception):
    """A store could not be used."""


class StoreMissingError(StoreError):
    """There is no store at the path, or no collector at the URL."""


class StoreLockedError(StoreError):
    """Another process has the file open and could not be asked."""


class StoreVersionError(StoreError):
    """The store's tables are of a version that this program does not know."""


class QueryError(StoreError):
    """The SQL was refused, failed or ran too long."""


class UnknownCauseError(QueryError):
    """There is no cause of this name."""


class UnknownIdError(QueryError):
    """Nothing, or more than one thing, has this id. ``nearest`` are ids to try instead."""

    def __init__(self, message: str, nearest: list[str]) -> None:
        super().__init__(message)
        self.nearest = nearest


class UnknownTurnError(UnknownIdError):
    """No turn, or more than one, has this id."""


class UnknownConversationError(UnknownIdError):
    """No conversation has this id, and no turn of one."""
