# make demo and make test are all a newcomer needs; both install what they need into .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PYTHONS ?= 3.11 3.12 3.13
VENV ?= .venv
BIN := $(VENV)/bin
AXE := $(VENV)/node/node_modules/axe-core/axe.min.js
LINTER := $(VENV)/node/node_modules/.bin/addons-linter
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.PHONY: demo test coverage matrix soak mutants check audit audit-deps docs bench extension clean help system

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.base  ## the main job on the embedded data
	$(BIN)/epicrec demo

# three tests at a time, as some wait: each with one thread for its matrices, or threads wait for each other
test coverage soak mutants: export OPENBLAS_NUM_THREADS = 1
test: $(VENV)/.dev system  ## all tests
	$(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder $(ARGS)

coverage: $(VENV)/.dev system  ## all tests, and which lines none of them runs
	$(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder --cov=epicrec --cov-report=term:skip-covered $(ARGS)

matrix:  ## all tests on each Python we support that is here, each with its own .venv-3.x
	@failed=; \
	for version in $(PYTHONS); do \
	  python=$$(python$$version -c 'import sys; print(sys.executable)' 2>/dev/null || \
	    PYENV_VERSION=$$version pyenv which python 2>/dev/null) || \
	    { echo "no Python $$version here: skipped"; continue; }; \
	  echo "Python $$version: $$python"; \
	  $(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON=$$python || failed="$$failed $$version"; \
	done; \
	[ -z "$$failed" ] || { echo "failed on Python$$failed"; exit 1; }

soak: $(VENV)/.dev system  ## what takes long: kills by the hundred, big data
	$(BIN)/python -m pytest -n 2 --dist load -m soak $(ARGS)

mutants: $(VENV)/.dev  ## small faults planted one by one: which does no test notice?
	$(BIN)/python tests/mutants/run.py $(ARGS)

check: $(VENV)/.dev  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: $(VENV)/.dev  ## every claim attacked, in full, and known attacks; writes the figures into the docs
	$(BIN)/epicrec audit --all --json > docs/figures/audit.json
	$(BIN)/epicrec audit --attacks --json > docs/figures/attacks.json
	$(BIN)/python docs/build.py audit

audit-deps: $(VENV)/.dev  ## known vulnerabilities of what we depend on, where the data can be had
	@$(BIN)/python .ci/audit_deps.py

docs: $(VENV)/.dev  ## the documentation, into site/
	$(BIN)/mkdocs build --strict

extension: $(VENV)/bin/python  ## the browser extension as one zip, the same bytes every time, into dist/
	@$(BIN)/python .ci/extension.py

bench: $(VENV)/.dev  ## speed beside peers, as ratios in one run; epicrec bench lists more
	$(BIN)/epicrec bench models
	$(BIN)/epicrec bench noise
	$(BIN)/epicrec bench service --quick

# what only the system has, where it may be installed; tests that need it skip with a message where not
system: $(VENV)/bin/python
	@missing=; \
	for p in chromium firefox-esr npm; do command -v $$p >/dev/null || missing="$$missing $$p"; done; \
	command -v java >/dev/null || missing="$$missing default-jre-headless"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qqy install $$missing; } >/dev/null 2>&1 || \
	  echo "cannot install$$missing here: the tests that need them are skipped"
	@[ -e $(LINTER) ] || ! command -v npm >/dev/null || \
	  npm install --silent --no-audit --no-fund --prefix $(VENV)/node addons-linter@10 >/dev/null 2>&1 || \
	  echo "cannot fetch addons-linter here: the extension is not linted"
	@[ -e $(AXE) ] || ! command -v npm >/dev/null || \
	  npm install --silent --no-audit --no-fund --prefix $(VENV)/node axe-core@4 >/dev/null 2>&1 || \
	  echo "cannot fetch axe-core here: the tests of accessibility are skipped"

clean:  ## remove what the commands above made
	rm -rf .venv .venv-3.* site build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[client,server,papers]'
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.base
