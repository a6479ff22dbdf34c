"""An algorithm's view of the clients in one round, and what it can ask them for."""

from fedtheory.clients.clients import Clients

__all__ = ["Clients"]
