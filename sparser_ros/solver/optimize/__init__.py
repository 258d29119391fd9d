"""The Riemannian trust region, the paper's four formulations, and where both run."""
