"""Settings of every process, their sources and their pages; see README.md."""
