"""Topics as DataFrames: `format("dledger")`, batch and streaming reads. See README.md."""
