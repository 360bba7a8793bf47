"""What is raised where nothing can be read of a source."""

from turnlens.collectors.errors import CollectorError


class SourceError(CollectorError):
    """A file that cannot be read, is empty, or is none of its kind. The message names it and says what to do."""
