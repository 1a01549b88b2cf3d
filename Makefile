# Short names for what a developer does; everything works without make, too.
PYTHON := .venv/bin/python

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo:  ## the README's first command: index a folder of source code on SQLite
	sh scripts/demo

test:  ## the README's second command: install what the tests need and run everything
	sh scripts/test

coverage:  ## the same, and what the tests have run, in forked processes, too
	COVERAGE=1 sh scripts/test

quick:  ## tests that need no server and no process
	$(PYTHON) -m pytest tests/pure tests/architecture

sqlite:  ## all tests, on SQLite alone
	$(PYTHON) -m pytest --db sqlite

all-pythons:  ## what differs between Python 3.11, 3.12 and 3.13, on each that is installed, warnings as errors
	sh scripts/all-pythons

check:  ## style and types
	$(PYTHON) -m ruff check . && $(PYTHON) -m ruff format --check . && $(PYTHON) -m mypy && $(PYTHON) -m pyright

format:  ## put the sources into shape
	$(PYTHON) -m ruff format . && $(PYTHON) -m ruff check --fix .

diagram:  ## write the state machine into ARCHITECTURE.md
	$(PYTHON) scripts/diagram.py

shares:  ## draw docs/shares.svg, the plot of docs/scheduling.md
	$(PYTHON) -m scripts.plot_shares

bench:  ## the tick on 300,000 rows against the tick on 1,000, on SQLite
	$(PYTHON) -m stress.benchmarks.tick

clean:  ## what builds and tests leave behind
	rm -rf build dist *.egg-info .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help demo test coverage quick sqlite all-pythons check format diagram shares bench clean
