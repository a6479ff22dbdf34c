"""FedElasticNet's statements, in the order of the paper: Appendix B and (11) to (17) first, then the rest of the main text and B.3."""
