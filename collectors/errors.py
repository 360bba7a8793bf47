"""What can go wrong in the collector. Every message names the thing and the next step.

CollectorError
 ├── SettingsError        a flag or an environment variable has a bad value
 ├── PortInUseError       another process listens on the port
 ├── RequestError         the request is at fault; sending it again will not help
 │    ├── MalformedError       its bytes are not what its content type says           400, INVALID_ARGUMENT
 │    ├── TooLargeError        its body is over the limit, as sent or decompressed    413, RESOURCE_EXHAUSTED
 │    ├── UnsupportedError     its content type or encoding is not known              415
 │    └── RefusedError         the store cannot take these rows                       500, INTERNAL
 └── BusyError            the request may be sent again later                         503, UNAVAILABLE
      ├── QueueFullError       too much is waiting for the writer
      └── UnavailableError     the store cannot be written now, or the collector is shutting down

A store that cannot be opened raises the errors of ``turnlens.queries.errors``.
"""


class CollectorError(Exception):
    """The collector could not do what was asked."""


class SettingsError(CollectorError):
    """A flag or an environment variable has a value that cannot be used."""


class PortInUseError(CollectorError):
    """Another process listens on a port that the collector needs."""


class RequestError(CollectorError):
    """The request is at fault: it must not be sent again as it is. ``status`` is the HTTP answer."""

    status = 400


class MalformedError(RequestError):
    """The body is not what its content type says."""


class TooLargeError(RequestError):
    """The body is over the limit, as it was sent or after decompression."""

    status = 413


class UnsupportedError(RequestError):
    """The content type or the content encoding is not known here."""

    status = 415


class RefusedError(RequestError):
    """The store could not take the rows of this request, while it takes those of others."""

    status = 500


class BusyError(CollectorError):
    """Nothing of the request was stored; it may be sent again after ``retry_after_seconds``."""

    status = 503
    retry_after_seconds = 1


class QueueFullError(BusyError):
    """Too much is waiting for the writer."""


class UnavailableError(BusyError):
    """The store cannot be written now, or the collector is shutting down."""
