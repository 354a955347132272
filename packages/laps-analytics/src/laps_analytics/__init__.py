"""LAPS analytics: tables, reports and plans from the telemetry of relays, on Spark.

::

    telemetry files -> ingest -> silver tables -> gold -> gold tables -+-> report -> HTML
                         (lake holds every table)                     +-> plan   -> signed plan
                                                                       +-> cli   -> SQL, bills
    retention removes old days of the lake; synth writes telemetry of a network made from a seed

``cli`` is the command ``laps-analytics``. ``spark`` starts a session, ``schema`` has the types of
the telemetry for Spark, and ``errors`` has every exception of the package.
"""
