# The project's commands. Every one sets up what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_ALL := $(VENV)/.installed-all

EXTRAS := plots,gym,data,ledger,serve,dev
# What the tests of `make test-all` need besides; Spark also needs a Java runtime (.ci/ensure-java), and ledgers on a
# server need PostgreSQL (.ci/ensure-postgresql), pages a browser (.ci/ensure-browser).
EXTRAS_ALL := $(EXTRAS),icu,spark,dask,bench,browser

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# The environment is as it was left, in the folder where it was made: neither moved nor interrupted.
UNFINISHED := $(VENV)/.unfinished
WHOLE := $(shell { test ! -e $(UNFINISHED) && if test -e $(STAMP); \
  then test "$$(cat $(STAMP))" = "$$(pwd -P)" && $(BIN)/python -c 'import pip'; else $(BIN)/pip --version; fi; \
  } >/dev/null 2>&1 && echo whole)
# An interrupted installation leaves a mark, and the environment is made anew; a refused one leaves what was there.
INSTALL = touch $(UNFINISHED) && $(ALIVE) $(PIP) --editable '.[$(1)]' --editable ./experiments; \
  code=$$?; test $$code -gt 128 || rm -f $(UNFINISHED); exit $$code
# Of make fuzz; SEED=n repeats a run.
INPUTS ?= 1000000

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help anew setup demo study browser-study test-quick test test-all mutants fuzz lint types check bench docs clean

help:
	@echo "make demo        the privacy-regret trade-off on one page (sets up $(VENV) by itself)"
	@echo "make study       a study with simulated people as real HTTP clients, and what they met: about a minute"
	@echo "make browser-study  a study to play in a browser on this machine, with a simulated crowd; Ctrl-C ends it"
	@echo "make test-quick  the fast tests: a minute or two, the first time up to ten, because code is compiled once"
	@echo "make test        linters, types and all tests that need no services: minutes (sets up $(VENV) by itself)"
	@echo "make test-all    only the tests that make test leaves out: Spark, Dask, other solvers, a browser, long schedules"
	@echo "make mutants     break compiled code on purpose, in copies of the source, and expect tests to fail there"
	@echo "make fuzz        a million wrong inputs with a fresh seed, 12 minutes: only errors in one sentence may come out"
	@echo "make lint        ruff, and how many lines of code there are; make types: mypy alone; make check: the same as make test"
	@echo "make setup       only set up $(VENV)"
	@echo "make bench       speed against careful NumPy, as ratios measured in one run"
	@echo "make docs        the documentation as a site, in site/"
	@echo "make gallery     the pictures of the documentation, drawn anew by the lines that stand beside them"
	@echo "make package     a wheel and a source archive, in dist/"
	@echo "make test-oldest a smoke test and quick tests with the oldest versions of what discreet needs"
	@echo "make clean       remove $(VENV) and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml experiments/pyproject.toml constraints.txt $(if $(WHOLE),,anew)
	@.ci/check-python '$(PYTHON)' $(MAKECMDGOALS)
	@echo "Installing discreet and what it needs into $(VENV): a minute or two, once."
	@test -n '$(WHOLE)' || $(ALIVE) $(PYTHON) -m venv --clear $(VENV)
	@$(call INSTALL,$(EXTRAS))
	@pwd -P > $(STAMP)

$(STAMP_ALL): $(STAMP)
	@$(call INSTALL,$(EXTRAS_ALL))
	@touch $(STAMP_ALL)

demo: setup
	$(BIN)/discreet demo

study: setup
	$(BIN)/discreet crowd examples/study/riverswim.toml --world river-swim --states 4 --horizon 6

browser-study: setup
	$(BIN)/python examples/browser_study/run.py

test-quick: setup
	$(PYTEST) -m 'not slow and not long and not service'

test: lint types
	$(PYTEST) -m 'not long and not service'

test-all: $(STAMP_ALL)
	$(PYTEST) -m 'long or service' --dist loadgroup

mutants: setup
	$(BIN)/python tests/audit/source_mutants.py

fuzz: setup
	$(BIN)/python -m tests.fuzz.fuzzer --inputs $(INPUTS) $(if $(SEED),--seed $(SEED))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/size.py

# Types are those of Python 3.11; the stubs of the NumPy that Python 3.15 needs are written in a newer language.
types: setup
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 15))'; then $(BIN)/mypy; \
	else echo "types: not checked on Python 3.15 or later; 3.11 to 3.14 check them"; fi

check: test

bench: setup
	$(BIN)/python -m experiments.loops

docs: setup
	@$(call INSTALL,docs)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: gallery package test-oldest

gallery: setup
	$(BIN)/python docs/draw_gallery.py
	$(BIN)/discreet demo --out $(VENV)/demo.html --plot docs/regret.png
	$(BIN)/discreet demo --out $(VENV)/demo.html --plot docs/regret-dark.png --theme dark

package: setup
	$(BIN)/python -m build

# An environment of its own; on Python 3.11, which all of the oldest versions know. The tests are of what touches other
# packages most: about five minutes on one core, after compiling.
OLDEST := $(addprefix tests/,noise privacy mechanisms tables/read ledger study/service learners) \
	tests/cli/test_cli_mistakes.py tests/base/test_notebook.py
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	@$(ALIVE) .venv-oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable '.[$(EXTRAS)]' --editable ./experiments
	.venv-oldest/bin/python tests/packaging/smoke.py
	.venv-oldest/bin/python -m pytest -m 'not slow and not long and not service' $(OLDEST)

clean:
	rm -rf $(VENV) .venv-oldest build dist src/*.egg-info experiments/*.egg-info .pytest_cache .mypy_cache .ruff_cache
