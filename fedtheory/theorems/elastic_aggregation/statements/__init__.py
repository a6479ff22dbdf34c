"""Elastic Aggregation's statements."""
