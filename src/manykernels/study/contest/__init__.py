"""Several methods on the same splits of the same rows."""
