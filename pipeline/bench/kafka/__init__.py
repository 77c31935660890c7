"""Kafka's Spark connector and ours, side by side: `dledger bench spark-kafka`. See README.md."""
