"""Elastic Aggregation's figures and the finding on it."""
