"""The real backend, through CuPy and cuda-python."""
