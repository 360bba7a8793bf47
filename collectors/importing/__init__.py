"""Reading what engines that do not import our recorder leave behind: logs, records, requests with their responses.

Each kind of source turns what it reads into the same events (``turnlens.tracing.Recorder``) that an instrumented engine
records, so that one ledger decides and every view works on all of them. All that is read is data: what cannot be understood is
counted and shown, and changes nothing else.
"""
