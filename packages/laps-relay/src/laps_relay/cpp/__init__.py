"""Sessions with C++ LAPS relays, which speak a dialect of their own (docs/spec/laps-cpp.md).

To our Edge a C++ relay is one client with a whole network behind it; to that network we are one
node that has everything ours has::

    C++ relay == peering session == CppPeer --- Upstream --- EdgeRelay
                                      |-- CppLink: announces, subscribes, node sets
                                      |-- CppFeed, CppStreams: objects, in draft 16
                                      '-- Directory: names of our clients and of our network

Modules, all of which may be imported from outside:

- ``cpp_peer``: :class:`~laps_relay.cpp.cpp_peer.CppPeer`, one C++ relay.
- ``cpp_link``: what the two have advertised to each other over one session.
- ``cpp_data``: the headers of its streams and datagrams.
- ``cpp_words``: its hashes, announces and subscribes, made from ours.
- ``directory``: all names that an Edge can give others.
"""
