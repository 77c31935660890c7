"""The share of a disk from which on producers are refused, as RocketMQ has it."""

DISK_FULL_RATIO = 0.90
"""Default of `broker.disk_full_ratio` (RocketMQ: diskSpaceWarningLevelRatio). `dledger doctor`
looks at a disk with it before a node is configured there."""
