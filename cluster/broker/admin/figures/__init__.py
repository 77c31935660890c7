"""See the README of cluster.broker."""
