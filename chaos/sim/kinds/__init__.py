"""What each kind of fault does to simulated machines, disks and links."""
