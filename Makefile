# make serve   start the gateway on 127.0.0.1:8888
# make test    every check and test
# make bench   measure, print a table, write JSON

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export INTERPRETER_KERNELS_DIR ?= $(CURDIR)/$(VENV)/kernels

.PHONY: serve test check bench clean

serve: $(VENV)/.installed
	@exec $(BIN)/interpreter serve

test: check
	$(BIN)/python -m pytest

check: $(VENV)/.test-installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.test-installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m benchmarks

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.test-installed: $(VENV)/.installed tests/packages
	sh tests/packages
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
