# What people type most. `make help` lists it.
PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help install run demo test slow lint format ci snapshot clients bench proofs

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: ## Create .venv with everything that runs, tests, and checks
	python3 -m venv .venv
	.venv/bin/pip install -q -r requirements-dev.txt

run: ## Run the whole service
	$(PYTHON) manage.py up

demo: ## Run it with three products of invented data
	$(PYTHON) manage.py up --demo

test: ## Run nearly all tests (three to six minutes)
	$(PYTHON) -m pytest -q

slow: ## Run the tests that start services, browsers, and other programs (about seven minutes more)
	$(PYTHON) -m pytest -q -m slow

lint: ## Check formatting, lint, types, and missing migrations
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy .
	$(PYTHON) manage.py makemigrations --check --dry-run

format: ## Format the code
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

ci: ## Run every check in a fresh environment
	.ci/run

snapshot: ## Write the tables of a first start again, after a change to migrations
	$(PYTHON) -m harness.snapshot

clients: ## Test with other people's SDKs, generated clients, and axe-core (needs Node.js)
	PATH="$(CURDIR)/.venv/bin:$$PATH" tests/clients/run

bench: ## Measure every promise about speed (an hour and more)
	$(PYTHON) -m benchmarks

proofs: ## Kill processes for five minutes and check that nothing is lost
	$(PYTHON) -m proofs.durability --minutes 5
