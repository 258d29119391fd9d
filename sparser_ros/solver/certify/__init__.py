"""How good a solution is: certificate, Riemannian staircase, marginal covariances."""
