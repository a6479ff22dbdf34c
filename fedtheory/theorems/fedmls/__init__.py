"""FedMLS and MOPES (gradient sliding): all statements."""
