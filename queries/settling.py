"""Settle what publishes and evictions left on the device: table ``_device_changes``, and the tables beside it.

How many slots and tokens an event leaves follows from all events before it. Reckoned from the first one each time that takes
longer with every day (view ``_live_changes``). So up to some minutes ago it is settled, a part at a time, and only what came
later is reckoned. ``folding`` unsettles an engine start where an event comes late.
"""

from importlib.resources import files

import duckdb

# Events come in some disorder: from several exporters, after an outage. After this long few are late.
LAG_NS = 600_000_000_000
# An engine start of which nothing has come for so long, while others go on, has ended: all of it is settled.
QUIET_NS = 3_600_000_000_000
# So many events must wait before they are settled: all that is on the device is written anew each time.
DUE = 50_000
# So many are settled at once. It takes a second or two.
MOST = 100_000


def settle_all(connection: duckdb.DuckDBPyConnection) -> None:
    """Settle whatever is due. Raises duckdb.Error where the database is at fault."""
    while settle(connection):
        pass


def settle(connection: duckdb.DuckDBPyConnection) -> bool:
    """Settle a part of what is due, of one engine start, in one transaction of this connection (which must not be in one).
    Returns whether there may be more. Raises duckdb.Error where the database is at fault; then nothing has changed."""
    due = connection.execute(
        "select resource_id, upto_ns, last_ns, ended from ("
        "  select *, last_ns < (select max(last_ns) from _settled) - ? as ended from _settled"
        ") where told >= due or (ended and upto_ns < last_ns) order by told - due desc limit 1",
        [QUIET_NS],
    ).fetchall()
    if not due:
        return False
    resource, after, last, ended = due[0]
    until = last if ended else last - LAG_NS
    connection.execute("begin")
    try:
        ((upto, events),) = connection.execute(
            "select max(end_ns), count(*) from (select end_ns from spans where resource_id = ? and tier = 'device' and "
            "name in ('snapshot.publish', 'snapshot.evict') and end_ns > ? and end_ns <= ? order by end_ns limit ?)",
            [resource, after, until, MOST],
        ).fetchall()
        if events:
            more = events == MOST
            connection.execute("set variable settled_resource = ?", [resource])
            for name, value in {"after": after, "upto": upto, "due": 0 if more else DUE}.items():
                connection.execute(f"set variable settled_{name} = {int(value)}")
            connection.execute(files("turnlens.queries").joinpath("facts").joinpath("settle.sql").read_text())
        else:
            connection.execute(
                "update _settled set due = told + ?, upto_ns = case when ? then last_ns else upto_ns end where resource_id = ?",
                [DUE, ended, resource],
            )
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise
    return True
