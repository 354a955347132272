"""From gold tables to plans: which Via to insert, move or drop."""
