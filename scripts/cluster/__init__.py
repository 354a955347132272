"""What ``scripts/try_cluster.py`` is made of: machines, the chain of commands, and comparing."""
