# Two commands matter: `make demo` and `make test`. Both work from a fresh clone with Python 3.11+, make and git.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# `make test` runs the unit tests on this Python, and `make test-all` on the others.
HOST := $(shell $(PYTHON) -c 'import sys; print("py%d%d" % sys.version_info[:2])')
# Two gates at a time: with more, tests with real sockets wait for longer than they should.
TOX := LAPS_WORKERS=$${LAPS_WORKERS:-0} $(BIN)/tox run-parallel --parallel 2 --parallel-no-spinner --skip-missing-interpreters true
# An interpreter that is not here is skipped, not fetched.
export UV_PYTHON_DOWNLOADS ?= never

# pyenv hides its interpreters behind shims that answer only when named: name all that we support.
PYENV_NAMES := $(shell command -v pyenv >/dev/null 2>&1 && pyenv versions --bare 2>/dev/null | grep -E '^3\.1[1-3]\.[0-9]+$$' | paste -sd: -)
ifneq ($(PYENV_NAMES),)
export PYENV_VERSION := $(PYENV_NAMES)
endif

.PHONY: help demo test test-all dev clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

# A stamp file is made last, so an interrupted install is done again.
$(VENV)/.gates: Makefile
	@$(PYTHON) -c 'import sys; sys.exit("LAPS needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet "tox>=4.30,<5" "tox-uv>=1.37,<2"
	@touch $@

$(VENV)/.packages: $(VENV)/.gates $(wildcard packages/*/pyproject.toml)
	$(BIN)/python -m pip install --quiet $(addprefix -e ,$(wildcard packages/laps-*))
	@touch $@

demo: $(VENV)/.packages  ## Show what works: a network of five relays, a moving picture, a relay that dies
	$(BIN)/python demo/network.py

test: $(VENV)/.gates  ## Run the short gates before a commit: lint, types, layers, unit, sockets, seeds, pages, docs, analytics
	$(TOX) -m short

test-all: $(VENV)/.gates  ## Run the long gates: 300 seeds, coverage, other Pythons, interop, fuzz, packaging, long Spark cases
	TOX_SKIP_ENV=$(HOST) $(TOX) -m long

dev: $(VENV)/.packages  ## Make .venv ready for quick loops: editable packages and every tool
	$(BIN)/python -m pip install --quiet -e "packages/laps-sdk[cli,tokens,turbo,uvloop,plot]" -e "packages/laps-relay[sim]" -e "packages/laps-analytics[all]" --group test --group lint --group types --group analytics "nox>=2025.5"

clean:  ## Remove environments and build output
	rm -rf $(VENV) .tox .nox build dist docs/_build .coverage .coverage.*
