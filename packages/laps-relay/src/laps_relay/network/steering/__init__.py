"""The choice of Vias and of dynamic peerings."""
