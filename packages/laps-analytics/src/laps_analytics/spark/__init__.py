"""Spark: find Java, start a session, and explain its faults in one line.

::

    SessionSettings -> session.spark_session -> launch.find_java, start_context -> JVM
                                                                         |
                                                  JvmOutput: buffers what the JVM prints

Other rooms import ``session`` and ``launch.fault_of_workers``.
"""
