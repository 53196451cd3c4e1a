"""Recordings of real devices."""
