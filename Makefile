# make demo and make test are all a newcomer needs; both install what they need into .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.PHONY: demo test check docs bench clean help

help:  ## say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: .venv/.base  ## the main job on the embedded data
	$(BIN)/epicrec demo --once

test: .venv/.dev  ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadscope --cov=epicrec --cov-report=term:skip-covered $(ARGS)

check: .venv/.dev  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.dev  ## the documentation, into site/
	$(BIN)/mkdocs build --strict

bench: .venv/.dev  ## speed beside peers, as ratios in one run
	$(BIN)/epicrec bench

clean:  ## remove what the commands above made
	rm -rf .venv site build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.base: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@ .venv/.base
