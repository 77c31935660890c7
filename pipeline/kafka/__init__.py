"""Jobs that were written for Kafka's connector: its options, and its rows in our messages."""
