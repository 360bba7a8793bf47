"""A reference engine in virtual time: snapshots in a radix tree, a slot limit, a token pool, a host tier, and no GPU.

It is instrumented with the public calls of the recorder only (all in :mod:`tracer`), and keeps its own account of every turn
beside it (:mod:`truth`), so that the two can be compared. ``workload.run_demo`` serves the demo, ``engine.Engine`` anything.
"""
