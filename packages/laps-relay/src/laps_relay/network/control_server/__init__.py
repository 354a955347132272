"""Control servers, the sharding of entries over them, and redirects of clients.

::

    Edge --announces--> every control server           sharding   the servers that are known,
         --subscribe--> the replicas of its key                   and those that hold a key
                             |
                             v
                        ControlServer: matches subscribes with announces, forwards them to Edges

    redirect   the relay to which the clients of a draining Edge go (MoQT GOAWAY)

From outside import ``control_server.ControlServer``, ``sharding`` and ``redirect``.

The specification is seed 000 and docs/spec/laps-2.md.
"""
