"""The output for readers: tables, formulas, curves, and the report of a campaign."""
