"""Spark: finds a Java, starts a session and explains faults in one line.

::

    SessionSettings -> session -> launch -> JVM
                          |          |
                        files       java

Other rooms import ``session`` (how a session is made) and ``faults`` (errors of a cluster).
"""
