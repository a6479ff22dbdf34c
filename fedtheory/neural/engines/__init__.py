"""How the gradients of many models are computed at once."""
