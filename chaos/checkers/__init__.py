"""Judge a history. See README.md."""
