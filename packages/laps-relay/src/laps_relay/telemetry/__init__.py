"""What a relay reports of itself: log lines, Prometheus metrics, and telemetry records.

::

    events of the Edge -----> events.EdgeObserver ------.     .--> logs      standard error
    events of the network --> network.NetworkObserver --+-----+--> metrics   GET /metrics
    tables, every interval -> sampler, NetworkSampler --'     '--> telemetry JSON Lines files
    traffic counters -------> traffic ----------------------------> telemetry
    parsed messages --------> mlog ------------------------------->  qlog files of sessions

Layers, the upper may import the lower::

    traffic
    network
    events, sampler
    logs, metrics, mlog, telemetry

``laps_relay.server`` imports all modules, ``laps_relay.admin`` only ``metrics`` and
``laps_relay.cli`` only ``logs``. ``logs.Names`` hashes names of tracks before they are written. The
records are those of :mod:`laps_wire.telemetry`; docs/reference/telemetry.md lists them.
"""
