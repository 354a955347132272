"""What a relay reports of itself: log lines, Prometheus metrics, and telemetry records.

::

    events of the Edge -----> events.EdgeObserver ------.     .--> logs      standard error
    events of the network --> network.NetworkObserver --+-----+--> metrics   GET /metrics
    tables, every interval -> sampler, network_sampler -'     '--> telemetry JSON Lines files
    traffic counters -------> traffic, clients -------------------> telemetry
    parsed messages --------> mlog ------------------------------->  qlog files of sessions

Layers, the upper may import the lower::

    events, network, network_sampler, traffic
    network_records, rows, sampler
    clients, logs, metrics, mlog, names, telemetry

``laps_relay.server`` imports all modules, ``laps_relay.admin`` only ``metrics`` and
``laps_relay.cli`` only ``logs``. Names of tracks are hashed by ``names`` before they are written.
The records are those of :mod:`laps_wire.telemetry`; docs/reference/telemetry.md lists them.
"""
