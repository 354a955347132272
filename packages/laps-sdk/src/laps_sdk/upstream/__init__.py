"""The seam between an Edge and what is above it: the network or a parent relay."""
