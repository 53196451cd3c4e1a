"""Compares backends by call programs: against recordings, and against each other."""
