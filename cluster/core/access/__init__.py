"""Access control: accounts, signatures, permissions. See README.md."""
