"""Every option once: default, range, help, and the closed choices."""
