# make demo and make test are all a newcomer needs; both install what they need into .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
AXE := .venv/node/node_modules/axe-core/axe.min.js
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.PHONY: demo test soak mutants check docs bench clean help system

help:  ## say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: .venv/.base  ## the main job on the embedded data
	$(BIN)/epicrec demo

test: .venv/.dev system  ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadscope --cov=epicrec --cov-report=term:skip-covered $(ARGS)

soak: .venv/.dev system  ## what takes long: kills by the hundred, big data
	$(BIN)/python -m pytest -n 2 --dist load -m soak $(ARGS)

mutants: .venv/.dev  ## small faults planted one by one: which does no test notice?
	$(BIN)/python tests/mutants/run.py $(ARGS)

check: .venv/.dev  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.dev  ## the documentation, into site/
	$(BIN)/mkdocs build --strict

bench: .venv/.dev  ## speed beside peers, as ratios in one run
	$(BIN)/epicrec bench

# what only the system has, where it may be installed; tests that need it skip with a message where not
system: .venv/bin/python
	@missing=; \
	for p in chromium firefox-esr npm; do command -v $$p >/dev/null || missing="$$missing $$p"; done; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qqy install $$missing; } >/dev/null 2>&1 || \
	  echo "cannot install$$missing here: the tests that need them are skipped"
	@[ -e $(AXE) ] || ! command -v npm >/dev/null || \
	  npm install --silent --no-audit --no-fund --prefix .venv/node axe-core@4 >/dev/null 2>&1 || \
	  echo "cannot fetch axe-core here: the tests of accessibility are skipped"

clean:  ## remove what the commands above made
	rm -rf .venv site build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.base: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[client,server,papers]'
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@ .venv/.base
