"""What the pipeline can do, measured: `dledger bench spark-source`."""
