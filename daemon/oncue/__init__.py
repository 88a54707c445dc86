"""oncue: the daemon. Kept empty of imports: `oncue attach` must start within 60 ms."""
