"""Moving whole stores in and out: RocketMQ's to ours and back. See README.md."""
