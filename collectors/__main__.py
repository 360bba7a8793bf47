"""``python -m turnlens.collectors``: a collector without the command line of the dashboard. Flags as in ``Settings``."""

import argparse
import sys
from dataclasses import fields

from turnlens.collectors.errors import CollectorError
from turnlens.collectors.server import Collector, serve
from turnlens.collectors.settings import Settings, flag_of, variable_of
from turnlens.queries.errors import StoreError


def main(arguments: list[str] | None = None) -> int:
    """Parse the flags and serve until a signal comes. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m turnlens.collectors", description="Receive OTLP, store it in DuckDB.")
    for field in fields(Settings):
        parser.add_argument(flag_of(field.name), help=f"{variable_of(field.name)}, default {field.default}")
    given = vars(parser.parse_args(arguments))
    try:
        serve(Settings.load(**given), _announce)
    except (CollectorError, StoreError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _announce(collector: Collector) -> None:
    sys.stdout.write(f"store  {collector.settings.store}\nHTTP   {collector.http_url}\ngRPC   {collector.grpc_endpoint}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
