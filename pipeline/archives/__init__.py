"""Archives of `dledger pipeline archive` as DataFrames, batch and stream. See README.md."""
