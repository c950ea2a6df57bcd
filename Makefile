# Everything here runs without root and without docker; downloads are kept in BINLOG_CACHE,
# by default ~/.cache/airflow-provider-binlog, and a second run needs no network.

# The newest Python that works: a name on the PATH may be a stub, or lack a module.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python3.14; do \
	$$python -c 'import sqlite3, ssl, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

# How many tests run at once, each process with servers and a Spark of its own.
JOBS ?= 2

# How often make bench takes each measure, if not as often as is best for it.
TIMES = $(if $(ROUNDS),--rounds $(ROUNDS))

UNIT = not slow and not spark and not server and not s3

NEED_PYTHON = test -n '$(PYTHON)' || { \
	echo 'No Python of version 3.11 or newer (with ssl and sqlite3) is on the PATH: install one,' \
	'on Debian 12 "apt-get install python3 python3-venv", or name it with PYTHON=.' >&2; exit 1; }

BIN = .venv/bin
STAMP = .venv/up-to-date

export TARGET SERVER STORE SERVER_DSN

.PHONY: help venv demo ui test test-unit test-slow system lint format docs links bench soak faults fuzz clean distclean
.DEFAULT_GOAL = help

help: ## What can be made.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
	@echo
	@echo 'demo takes TARGET=delta|iceberg|postgresql, SERVER=mysql|mariadb, STORE=file|s3,'
	@echo 'or SERVER_DSN=mysql://user:password@host:port for a server of your own.'

demo: $(STAMP) ## Capture a shop's changes and merge them into lake tables, four times.
	@$(BIN)/python -m dags.demo

ui: $(STAMP) ## Open the Airflow UI on the demo, with writes trickling in.
	@$(BIN)/python -m dags.demo ui

test: $(STAMP) ## Run the tests on real servers, a real S3 server and a real Spark.
	@$(BIN)/python -m tests.services build
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-unit: $(STAMP) ## Run the tests that need no server, no S3 and no Spark, in about two minutes.
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "$(UNIT)" tests/architecture tests/dags tests/unit

test-slow: $(STAMP) ## Run the tests that test leaves out: more servers, formats and places to die.
	@$(BIN)/python -m tests.services build
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

system: $(STAMP) ## Run a whole Airflow for MINUTES (10), under writes, with its page in a browser.
	@$(BIN)/python -m tests.services build
	@MINUTES=$(or $(MINUTES),10) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow tests/integration/test_page_system.py

lint: $(STAMP) ## Check style, types, the imports between rooms, the docs and the changelog.
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/sphinx-build -q -W -b html docs docs/_build
	@said=$$($(BIN)/towncrier build --draft --version next 2>&1) || { echo "$$said" >&2; exit 1; }

format: $(STAMP) ## Lay the code out, and correct what can be corrected.
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

docs: $(STAMP) ## Build the pages into docs/_build.
	@$(BIN)/sphinx-build -q -W -b html docs docs/_build
	@echo 'docs/_build/index.html'

links: $(STAMP) ## Ask whether every link of the pages to another site has an answer.
	@$(BIN)/sphinx-build -q -b linkcheck docs .run/links

bench: $(STAMP) ## Measure reading beside other readers (COMPARE=results.json), snapshots, and merging beside bare MERGEs.
	@failed=0; measure() { $(BIN)/python -m tests.bench "$$@" || failed=1; }; \
	measure readers $(TIMES) $(if $(COMPARE),--compare $(COMPARE)); \
	measure snapshots --rows $(or $(ROWS),10000000); \
	measure merge $(TIMES) $(if $(SCALE),--scale $(SCALE)); \
	measure scheduled $(TIMES); \
	measure scheduled --archive --tables 5 $(TIMES); \
	measure postgresql $(TIMES); \
	measure freshness --every 2 --minutes $(or $(MINUTES),60); \
	measure chart; exit $$failed

soak: $(STAMP) ## Run for a long time under load.
	@$(BIN)/python -m tests.soak.upkeep --days 365
	@$(BIN)/python -m tests.soak.endurance --minutes $(or $(MINUTES),60)
	@$(BIN)/python -m tests.oracle --changes 1000000
	@$(BIN)/python -m tests.random_ddl --changes 1000000 --bulk 2000
	@$(BIN)/python -m tests.random_ddl --changes 1000000 --bulk 2000 --snapshots
	@$(BIN)/python -m tests.random_ddl --options --disturb --formats delta iceberg postgresql --changes 100000
	@$(BIN)/python -m tests.random_ddl --options --disturb --snapshots --formats delta iceberg postgresql --changes 100000
	@$(BIN)/python -m tests.random_ddl --between-tasks --servers mysql97 mariadb118 --minutes $(or $(MINUTES),60)

faults: $(STAMP) ## Kill, cut, delay and conflict at every step, on every server, store and lake.
	@$(BIN)/python -m tests.services build
	@$(BIN)/python -m tests.faults -n $(JOBS) --dist worksteal

fuzz: $(STAMP) ## Feed the decoders damaged input for a long time.
	@$(BIN)/python -m tests.fuzz

venv: $(STAMP) ## Build .venv, which every other target does by itself.

$(STAMP): pyproject.toml tests/constraints.txt tests/hashes.txt
	@$(NEED_PYTHON)
	@$(PYTHON) -m tests.services venv
	@touch $@

clean: ## Stop what runs, and remove what was made (not the downloads).
	@$(NEED_PYTHON)
	@$(PYTHON) -m tests.services stop
	@rm -rf .venv .run build dist docs/_build *.egg-info
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@rm -rf derby.log metastore_db spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: ## Also remove the downloads.
	@$(NEED_PYTHON)
	@$(PYTHON) -m tests.services forget
	@$(MAKE) --no-print-directory clean
