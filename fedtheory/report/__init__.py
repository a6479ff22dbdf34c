"""What a reader sees: tables, formulas, curves, and the report of a campaign."""
