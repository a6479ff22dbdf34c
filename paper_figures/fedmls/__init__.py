"""FedMLS's figures and measured rates, and the finding on it."""
