"""HTTP for operators: health, metrics, tables, orders and pages."""
