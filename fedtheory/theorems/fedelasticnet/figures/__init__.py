"""FedElasticNet's theory in pictures."""
