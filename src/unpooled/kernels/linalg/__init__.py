"""Dense and sparse linear algebra: products, eigenpairs, random features, polynomials."""
