"""Elastic Aggregation: all statements."""
