"""Benchmarks of the pipeline: `dledger bench spark-source`."""
