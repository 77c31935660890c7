"""Who may do what: accounts, signatures, permissions. See README.md."""
