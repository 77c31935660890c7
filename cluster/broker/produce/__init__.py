"""Send requests → records → one proposal a turn → answers."""
