"""Scenario files: reading, the grammar of expectations, checks against engine and gates."""
