"""A server with toxiproxy's HTTP contract, and a client for both. See README.md."""
