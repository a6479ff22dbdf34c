"""Algorithm 2 and the threshold epsilon: rounds, points of rest, stability and runs, on separable quadratics in fractions."""
