"""Topics, groups and messages as administrators see them; housekeeping; admin HTTP."""
