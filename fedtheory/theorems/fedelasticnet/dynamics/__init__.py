"""What FedElasticNet does in the long run when everyone takes part: runs of Algorithm 3, fixed points of Algorithm 1, in fractions."""
