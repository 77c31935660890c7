"""The audit log of a broker: entries written, read, and kept beyond the log's oldest files."""
