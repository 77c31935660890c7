"""Raw log files of a stopped node or a RocketMQ store as columns. See README.md."""
