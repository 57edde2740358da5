# One command to try it, one to test it. Every target sets up what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PACKAGES := reverser webhooks watchers gitwriter
TESTERS ?= 2

.PHONY: demo story test acceptance check bench soak format clean help

help: ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): requirements.txt requirements-dev.txt
	@command -v git >/dev/null || { echo "error: git is not installed" >&2; exit 2; }
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is not installed; Python 3.11 or newer is needed, name one with make PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed, $(PYTHON) is older; name one with make PYTHON=..." >&2; exit 2; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing dependencies (once; a minute or two) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	@touch $(STAMP)

demo: $(STAMP) ## see it work: a cluster and a repository of its own
	@$(BIN)/python manage.py demo

story: $(STAMP) ## the scripted story: every step checked in Git, ends by itself
	@$(BIN)/python manage.py demo --once

test: $(STAMP) ## the suite, the core of the end-to-end scenarios included
	@$(BIN)/python -m pytest -n $(TESTERS) --dist loadgroup

acceptance: $(STAMP) ## every end-to-end scenario, and a short soak; half an hour or more
	@$(BIN)/python -m pytest tests/e2e tests/soak tests/watchers/test_surroundings.py tests/git/test_long_history.py --acceptance -p no:randomly

check: $(STAMP) ## formatting, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP) ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP) ## the figures behind the claims; results go to build/
	@$(BIN)/python -m tests.bench

soak: $(STAMP) ## kills, pauses and outages for SECONDS (default 600)
	@$(BIN)/python -m tests.soak --seconds $${SECONDS_TO_RUN:-600}

clean: ## remove what was made here, the virtual environment and state included
	@rm -rf $(VENV) .state build
