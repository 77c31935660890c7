"""What every feature of the broker stands on; it imports no feature. See README.md."""
