# On a fresh machine with Python >= 3.11: `make demo` installs into .venv and runs the main benchmark.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test soak bench lint clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

demo: .venv/installed
	$(BIN)/bench run --instances 64gpu --ledger results/demo.sqlite
	$(BIN)/bench figures igniter-fig14 igniter-fig18 igniter-fig21 exact-gap \
		--ledger results/demo.sqlite --out results/figures
	@echo "ledger: results/demo.sqlite    figures: results/figures/"

test: .venv/installed
	$(BIN)/pytest -m "not soak"

soak: .venv/installed
	$(BIN)/pytest -m soak

bench: .venv/installed
	$(BIN)/pytest tests/benchmarks --benchmark-enable --benchmark-only

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv build results *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
