"""Reports: they read results and change nothing."""
