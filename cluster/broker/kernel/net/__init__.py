"""The client port: sockets, routing of requests, the way to the leader."""
