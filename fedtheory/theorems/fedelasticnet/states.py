"""States of Algorithm 3 before a round."""

from fedtheory.algorithms.fedelasticnet_dyn import CompressedElasticDynState, FedElasticNetDynState
from fedtheory.errors import InvalidInput

__all__ = ["State", "uncompressed"]

State = FedElasticNetDynState | CompressedElasticDynState


def uncompressed(state: State) -> FedElasticNetDynState:
    """The state, where messages are sent whole, as the theorem has it.

    Raises
    ------
    InvalidInput
        That of a method with a compressor.
    """
    if isinstance(state, CompressedElasticDynState):
        raise InvalidInput("a method with a compressor: the theorem is about messages that are sent whole; leave the compressor out")
    return state
