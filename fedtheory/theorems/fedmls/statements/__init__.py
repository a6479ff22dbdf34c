"""FedMLS's statements, in the order of the poster."""
