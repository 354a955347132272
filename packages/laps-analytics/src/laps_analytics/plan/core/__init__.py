"""The planner itself: plain data in, plain data out; no Spark, no clock, no dice of its own."""
