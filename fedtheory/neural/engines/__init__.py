"""The engines, which compute the gradients of many models at once."""
