# make serve   start the gateway on 127.0.0.1:8888
# make test    every check and test
# make bench   measure, print a table, write JSON
# make chaos   random work and random kills for half an hour (docs/chaos.md)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export INTERPRETER_KERNELS_DIR ?= $(CURDIR)/$(VENV)/kernels

HALVES := test-with-engine test-without-engine

.PHONY: serve test $(HALVES) check bench chaos clean

serve: $(VENV)/.installed $(VENV)/.page-built
	@exec $(BIN)/interpreter serve

# Real kernels, engines and browsers on a machine that has other things to do: a test that fails is named,
# and run once more by itself. Only what fails again is taken for broken. What needs a Docker engine runs
# beside what does not.
test: check
	@$(MAKE) --no-print-directory --jobs 2 $(HALVES)

$(HALVES): SHELL := /bin/bash
$(HALVES): .SHELLFLAGS := -o pipefail -c
$(HALVES): test-%-engine:
	@tests="$(BIN)/python -m pytest --engine $* -o cache_dir=.pytest_cache/$*"; \
	{ $$tests || $$tests --last-failed --last-failed-no-failures=none -x; } 2>&1 | sed -u 's/^/$* engine: /'

check: $(VENV)/.test-installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.test-installed
	sh benchmarks/packages
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m benchmarks

CHAOS_MINUTES ?= 30
CHAOS_KILLS ?= 500
CHAOS_RUNTIME ?= embedded

chaos: $(VENV)/.test-installed
	$(BIN)/python -m chaos --minutes $(CHAOS_MINUTES) --kills $(CHAOS_KILLS) \
		--runtime $(CHAOS_RUNTIME) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

# The page that the gateway serves, from its TypeScript sources. Node is taken from PyPI if it is missing.
WEB := interpreter/gateway/web
$(VENV)/.page-built: $(wildcard $(WEB)/*.json $(WEB)/*.mjs $(WEB)/build_page.py) $(shell find $(WEB)/src -type f) | $(VENV)/.installed
	$(BIN)/python $(WEB)/build_page.py
	touch $@

$(VENV)/.test-installed: $(VENV)/.installed tests/packages | $(VENV)/.page-built
	sh tests/packages
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info $(WEB)/dist $(WEB)/node_modules
