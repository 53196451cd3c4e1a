# Two targets do all the set-up on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
RULES = mutations/capturegate_mutations/rule_plans

.PHONY: gate test proofs rules lint bench clean

gate: $(VENV)/ready ## environment, then the main job on the fake backend
	$(BIN)/capturegate run

test: $(VENV)/ready ## environment, then the tests
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

proofs: $(VENV)/ready ## environment, then the mutation proofs
	$(BIN)/capturegate mutate --quiet

rules: $(VENV)/ready ## environment, then the proof that each rule of the fake was recorded
	$(BIN)/capturegate mutate $(RULES) --scenarios $(RULES) --quiet

lint: $(VENV)/ready ## formatting, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/ready ## figures and ratios, measured in one run
	$(BIN)/python ci/bench.py

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

clean:
	rm -rf $(VENV)
