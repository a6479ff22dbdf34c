"""Rounds to epsilon, measured: FedMLS beside its competitors."""
