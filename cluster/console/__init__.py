"""The console of a cluster: its HTTP API and the pages that use it; see README.md."""
