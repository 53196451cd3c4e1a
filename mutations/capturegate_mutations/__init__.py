"""Mutation proofs: named defects, and exactly which verdicts they change."""
