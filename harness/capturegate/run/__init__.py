"""Executing cases: children, engines, verdicts."""
