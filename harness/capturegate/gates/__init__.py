"""Gates: one file a gate, each one rule over the evidence of a case."""
