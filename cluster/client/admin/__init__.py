"""Topics, groups, members and status; see README.md."""
