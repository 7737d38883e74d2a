# `make help` says what there is. Every target makes .venv itself; Python 3.10+ and Java 17+ are all it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PROFILE ?= quick
SEED ?= 1
BIN := .venv/bin
STAMP := .venv/.pktable-stamp
OLDEST := .venv-oldest
OLDEST_PYSPARK := 4.0.0

.PHONY: help verify test test-deep test-oldest interop lint trace tla simulate hammer mutants bench bench-roaring bench-paimon clean java

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

verify: java $(STAMP)  ## check every promise: histories, the corpus and real input on Spark (PROFILE=quick|deep)
	@$(BIN)/python -m model_tests.verify $(PROFILE)

test: java $(STAMP)  ## run the tests (those marked deep excepted)
	$(BIN)/python -m pytest -q -n logical -m "not spark and not deep"
	$(BIN)/python -m pytest -q -m "spark and not deep"

test-deep: java $(STAMP)  ## run the tests marked deep
	$(BIN)/python -m pytest -q -m deep

# Histories, replays and stored tables ask Spark for nothing that other tests do not.
test-oldest: java $(STAMP)  ## run the Spark tests with the oldest pyspark that is supported, in .venv-oldest
	@[ -x $(OLDEST)/bin/python ] || $(BIN)/python -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --disable-pip-version-check -q -e '.[dev]' 'pyspark[connect]==$(OLDEST_PYSPARK)'
	$(OLDEST)/bin/python -m pytest -q -m "spark and not deep" $(addprefix --ignore model_tests/,histories tlc replay vectors format)

interop: java $(STAMP)  ## compare with real Paimon implementations, set up in .interop (PROFILE=quick|deep)
	@$(BIN)/python -m model_tests.interop $(PROFILE)

lint: $(STAMP)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy

trace: $(STAMP)  ## print who cites which clause; fail on an unknown or an untested one
	@$(BIN)/python -m pktable_spec.trace

simulate: $(STAMP)  ## run writers, compactors, expiries and readers over a store that fails, in many orders (SEEDS=1000 PREEMPTIONS=1)
	@$(BIN)/python -m model_tests.simulation $(or $(SEEDS),1000) --preemptions $(or $(PREEMPTIONS),1)

hammer: $(STAMP)  ## let real processes work on one table, and kill some of them (SECONDS=60 WORKERS=8, for one bucket and for eight)
	@$(BIN)/python -m model_tests.processes --seconds $(if $(findstring command,$(origin SECONDS)),$(SECONDS),60) --workers $(or $(WORKERS),8) --kill

tla: java $(STAMP)  ## check the TLA+ modules with TLC whatever is on record, hold the oracle against them, and record the results
	@$(BIN)/python -m model_tests.tlc

bench: java $(STAMP)  ## run the benchmarks, and compare them with the last run (half an hour, and ten minutes more to make data)
	@$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[bench]'
	$(BIN)/python -m pytest -q benchmarks --benchmark-only --benchmark-autosave --benchmark-compare \
		--benchmark-columns=min,median,rounds
	$(BIN)/python -m benchmarks.summary
	$(BIN)/python -m benchmarks.compaction
	$(BIN)/python -m benchmarks.engines
	$(BIN)/python -m benchmarks.growth

mutants: java $(STAMP)  ## put in each of some bugs that table formats have had, and measure how soon it is found (RANDOM=N: N random changes)
	@$(BIN)/python -m model_tests.mutants $(if $(findstring command,$(origin RANDOM)),--random $(RANDOM) --seed $(SEED))
	@$(if $(findstring command,$(origin RANDOM)),,$(BIN)/python -m model_tests.mutants.append_tables)

bench-roaring: java $(STAMP)  ## measure the RoaringBitmap table of PIP-16 again (hours; ROARING='--max 20000000' for less)
	@$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[bench]'
	@$(BIN)/python -m benchmarks.roaring $(ROARING)
	@$(BIN)/python -m benchmarks.dv_layouts

bench-paimon: java $(STAMP)  ## do the same work on Paimon's Spark connector and on pktable, and compare (PAIMON='--rows 500000 --rounds 1' for less)
	@$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[bench]'
	@$(BIN)/python -m benchmarks.paimon_spark $(PAIMON)

clean:  ## remove .venv and everything generated
	rm -rf .venv .venv-oldest .interop .mutants build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks spark-warehouse metastore_db derby.log
	find spec reference model_tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
	find spec reference -name '*.egg-info' -prune -exec rm -rf {} +

# The newest Python that has what it takes: a name on PATH need not run (pyenv's shims), nor have venv (Debian).
$(STAMP): pyproject.toml
	@if ! $(BIN)/python -c '' 2>/dev/null; then \
	  for python in python3.13 python3.12 python3.11 python3.10 python3 ''; do \
	    [ -n "$$python" ] || { echo "make: expected Python 3.10 or newer with venv on PATH, found none; install one (Debian: apt-get install python3 python3-venv)" >&2; exit 1; }; \
	    "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && break; \
	  done; \
	  echo "making .venv with $$("$$python" --version)"; \
	  "$$python" -m venv --clear .venv; \
	fi
	@echo "installing pktable and its dependencies into .venv (a few minutes the first time; pyspark is 450 MB)"
	@$(BIN)/python -m pip install --disable-pip-version-check -e '.[dev]'
	@touch $@

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	found=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${found:-0}" -ge 17 ] || { echo "make: expected Java 17 or newer on PATH or at JAVA_HOME, found $${found:-none}; Spark and TLC need it (Debian: apt-get install openjdk-17-jre-headless)" >&2; exit 1; }
