"""The effect of each kind of fault on simulated machines, disks and links."""
