"""The commands of `dledger`; see README.md."""
