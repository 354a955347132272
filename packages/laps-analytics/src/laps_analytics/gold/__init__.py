"""Gold tables: DataFrame in, DataFrame out, by the contracts of :mod:`.gold.tables`."""
