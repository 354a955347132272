"""Spark: find Java, start a session, and explain its faults in one line.

::

    SessionSettings -> session.spark_session -> launch.start_context -> JVM
                              |                        |
                     java.find_java            JvmOutput: buffers what the JVM prints

Other rooms import ``session`` and ``launch.fault_of_workers``.
"""
