"""A synthetic world, made from a seed."""
