"""A backend without a GPU that captures and replays by CUDA's rules."""
