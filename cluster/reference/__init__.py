"""Pages of `docs/reference`, made from the code."""
