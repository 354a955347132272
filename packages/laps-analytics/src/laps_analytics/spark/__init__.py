"""Spark: finds a Java, starts a session and explains faults in one line.

::

    SessionSettings -> session -> launch -> JVM
                                     |
                                    java

Other rooms import ``session`` (how a session is made) and ``launch.fault_of_workers``.
"""
