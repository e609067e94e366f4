# On a fresh machine with Python >= 3.11: `make demo` installs into .venv and compares schedulers in about two minutes.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo gpu test soak fuzz bench lint clean

# Two stamps: the package alone, for the demo, and the package with what tests, training and replays need.
.venv/package: pyproject.toml
	@echo "installing gpushare-bench and its solvers into .venv: about 0.9 GB, two to five minutes"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --editable .
	touch $@

.venv/installed: .venv/package
	@echo "installing PyTorch and the tests' tools into .venv: about 1.3 GB more, one to three minutes"
	$(BIN)/pip install --editable '.[test]'
	touch $@

# Only some schedulers, because each one adds its compilation to the time of the first demo.
HEURISTICS := igniter,ffd+,ffd++,gpu-lets+,gslice+,local-search
demo: .venv/package
	$(BIN)/bench run --instances 64gpu-cost,igniter-12 --schedulers $(HEURISTICS),cpsat,colgen --ledger results/demo.sqlite
	$(BIN)/bench run --instances igniter-12 --schedulers minlp --time-limit 45 --ledger results/demo.sqlite
	$(BIN)/bench run --instances igniter-12-hold --schedulers igniter,local-search,colgen --check-holds --ledger results/demo.sqlite
	$(BIN)/bench prove igniter-12 -o results/proof.json --ledger results/demo.sqlite
	$(BIN)/bench check results/proof.json
	$(BIN)/bench figures igniter-fig14 exact-gap --quick --ledger results/demo.sqlite --out results/figures
	$(BIN)/bench report results/demo.sqlite --output results/site
	@echo "ledger: results/demo.sqlite    figures: results/figures/    page: results/site/index.html"
	$(BIN)/bench show 64gpu-cost igniter-12 igniter-12-hold --best --ledger results/demo.sqlite
	@echo "next: . .venv/bin/activate, and then bench --help"

# On a host with one GPU: profile, fit, plan, replay and report in at most 25 minutes. On other hosts: print the steps.
gpu: .venv/installed
	$(BIN)/bench gpu -o results/gpu

# Tests run on several cores, file by file. Those that time, kill or wait for processes of their own run afterwards.
# They start hundreds of processes, which would each compile the project's source anew without bytecode files.
# One process more than there are cores runs while another one waits for a kernel that a third one compiles.
PROCESSES := tests/bench/runner tests/bench/replay
WORKERS := $(shell $(PYTHON) -c "import os; print(min(4, (os.cpu_count() or 1) + 1))")
test: export PYTHONDONTWRITEBYTECODE :=
test: .venv/installed
	$(BIN)/pytest -m "not soak" --numprocesses $(WORKERS) --dist loadfile $(PROCESSES:%=--ignore=%)
	$(BIN)/pytest -m "not soak" --numprocesses 4 --dist loadfile $(PROCESSES)

soak: .venv/installed
	$(BIN)/pytest -m soak

# Fuzz the file readers for FUZZ_S seconds, guided by coverage.
FUZZ_S ?= 120
fuzz: .venv/installed
	$(BIN)/pip install --quiet --editable '.[test,fuzz]'
	$(BIN)/python -m tests.fuzz.coverage_guided -max_total_time=$(FUZZ_S)

bench: .venv/installed
	$(BIN)/pytest tests/benchmarks --benchmark-enable --benchmark-only

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv build results *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
