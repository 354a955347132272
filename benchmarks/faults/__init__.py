"""Faults on real QUIC: what becomes of every object when relays die, drain, stall or lag.

``python -m faults`` starts relays and clients as processes on loopback, applies one kind of fault
several times, and accounts for every object at every subscriber (docs/reference/faults.md)::

    __main__   arguments, one run for each kind, table and JSON, exit code
       |
    run        one run: starts everything, applies the fault, stops everything
       |    \
       |   kinds      the faults and the load that each of them needs
       |
    processes  relays and clients as processes; all of them are stopped at the end
       |
    client     ``python -m faults.client``: publishes or subscribes with the SDK, writes a history
       |
    history    the records of a history
       |
    checker    histories -> published, delivered, missing, doubled, pauses (pure functions)
"""
