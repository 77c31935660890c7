"""Parts that every feature of the broker uses; the kernel imports no feature. See README.md."""
