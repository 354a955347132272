"""Sessions with C++ LAPS relays, which speak a dialect of their own (docs/spec/laps-cpp.md).

Our Edge treats a C++ relay, with the network behind it, as one client. That network sees our Edge
as one node that announces every name of our network::

    C++ relay == peering session == CppPeer --- Upstream --- EdgeRelay
                                      |-- CppLink: announces, subscribes, node sets
                                      |-- CppFeed, CppStreams: objects, in draft 16
                                      '-- Directory: names of our clients and of our network

Modules, all of which may be imported from outside:

- ``cpp_peer``: :class:`~laps_relay.cpp.cpp_peer.CppPeer`, one C++ relay.
- ``cpp_link``: the announces and subscribes that both ends advertised over one session.
- ``cpp_data``: the headers of streams and datagrams in the C++ dialect.
- ``cpp_words``: hashes, announces and subscribes in the C++ dialect, converted from and to ours.
- ``directory``: all names that an Edge can announce to foreign peers.
"""
