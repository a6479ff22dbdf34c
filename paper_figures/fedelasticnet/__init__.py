"""FedElasticNet's figures and experiments, the finding on it, and what its reviewers asked."""
