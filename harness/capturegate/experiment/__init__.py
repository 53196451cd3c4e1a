"""Pre-registered experiments: two arms, one variable, and what each outcome would mean."""
