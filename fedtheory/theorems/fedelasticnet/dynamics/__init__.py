"""FedElasticNet in the long run with everyone: Algorithm 3's runs, Algorithm 1's fixed points."""
