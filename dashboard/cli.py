"""The ``turnlens`` command."""

import sys


def main() -> None:
    """Run the command line, or say which extra is missing."""
    try:
        from turnlens.dashboard.commands import turnlens
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("turnlens"):
            raise
        sys.stderr.write(
            f"The turnlens command needs the package {error.name}, which is not installed. "
            'Install it with: pip install "turnlens[dashboard]"\n'
        )
        sys.exit(2)
    turnlens()
