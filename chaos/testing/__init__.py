"""Your state machine in the simulator, from one seed. See README.md."""
