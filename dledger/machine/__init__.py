"""State machines on a replicated log. See README.md."""
