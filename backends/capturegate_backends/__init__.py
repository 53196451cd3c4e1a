"""Backends that can capture, and what real devices answered."""
