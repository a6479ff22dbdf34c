"""What the figures of trained networks share: small settings, runs that are kept, and the look of their curves."""
