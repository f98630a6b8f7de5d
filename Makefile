# The project's commands. `make demo` and `make test` set everything up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test lint types check bench docs clean

help:
	@echo "make demo    the privacy-regret trade-off on one page (sets up $(VENV) by itself)"
	@echo "make test    all tests (sets up $(VENV) by itself)"
	@echo "make setup   only set up $(VENV)"
	@echo "make check   lint, types and tests, as CI runs them"
	@echo "make bench   speed against careful NumPy, as ratios measured in one run"
	@echo "make docs    the documentation as a site, in site/"
	@echo "make clean   remove $(VENV) and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"discreet needs Python 3.11 to 3.13, this is {v[0]}.{v[1]}: run  make PYTHON=python3.12 $(MAKECMDGOALS)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plots,gym,data,dev]'
	@touch $(STAMP)

demo: setup
	$(BIN)/discreet demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

check: lint types test

bench: setup
	$(BIN)/python -m benchmarks.loops

docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
