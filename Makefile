# `make help` says what there is. Every target makes .venv itself; Python 3.10+ and Java 17+ are all it needs.
SHELL := /bin/bash
unexport PYTHONDONTWRITEBYTECODE  # each process would compile all modules again
.DEFAULT_GOAL := help
PROFILE ?= quick
SEED ?= 1
BIN := .venv/bin
STAMP := .venv/.pktable-stamp
PYSPARKS := 4.0.0 4.1.4 4.2.1 4.3.0
CACHES := $(or $(filter /%,$(XDG_CACHE_HOME)),$(HOME)/.cache)/pktable

.PHONY: help verify test unasked deep room test-oldest test-minors interop conform lint trace tla hunt simulate hammer mutants bench bench-roaring bench-paimon docs clean clean-caches java

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

verify: java $(STAMP)  ## check every promise: histories, the corpus and real input on Spark (PROFILE=quick|deep REPORT=DIR)
	@$(BIN)/python -m model_tests.verify $(PROFILE) $(if $(REPORT),--report $(REPORT))

test: java $(STAMP)  ## run the tests (those marked deep excepted)
	@$(BIN)/python -m model_tests.side_by_side

unasked: java $(STAMP)  ## run the tests under coverage, and list the refusals that none of them asks for (half an hour)
	@$(BIN)/python -m model_tests.unasked

deep: java $(STAMP)  ## check everything there is, by fresh seeds (hours; MINUTES=60 of them hunt)
	@$(BIN)/python -m model_tests.deep --hunt $(or $(MINUTES),60)

room: java $(STAMP)  ## run the tests that guard one folder of reference, in a minute (ROOM=catalog)
	@$(BIN)/python -m model_tests.rooms $(ROOM)

test-oldest: java $(STAMP)  ## run the tests marked versions with the oldest pyspark that is supported
	@$(BIN)/python -m model_tests.pyspark_versions $(firstword $(PYSPARKS))

test-minors: java $(STAMP)  ## run the tests marked versions with each minor version of pyspark
	@$(BIN)/python -m model_tests.pyspark_versions $(PYSPARKS)

interop: java $(STAMP)  ## compare with real Paimon implementations, set up where caches go (PROFILE=small|quick|deep)
	@$(BIN)/python -m model_tests.interop $(PROFILE)

conform: java $(STAMP)  ## give the fixtures of the conformance kit to pktable and to the implementations that make interop has set up
	@$(BIN)/python -m model_tests.conform

lint: $(STAMP)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy

trace: $(STAMP)  ## print who cites which clause; fail on an unknown or an untested one
	@$(BIN)/python -m pktable_spec.trace

hunt: java $(STAMP)  ## spend MINUTES=60 on fresh seeds of everything that draws, on all cores (ONLY=KIND,... SEED=N)
	@$(BIN)/python -m model_tests.hunt --minutes $(or $(MINUTES),60) $(if $(ONLY),--only $(ONLY)) $(if $(findstring command,$(origin SEED)),--seed $(SEED))

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

docs: $(STAMP)  ## build the site into build/site
	@$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[docs]'
	@$(BIN)/python -m docs.site

clean:  ## remove .venv and everything generated, but for the caches
	rm -rf .venv .mutants .sphinx build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks spark-warehouse metastore_db derby.log
	find spec reference model_tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +
	find spec reference -name '*.egg-info' -prune -exec rm -rf {} +
	@[ ! -d "$(CACHES)" ] || echo "caches are left, $$(du -sh "$(CACHES)" | cut -f 1) in $(CACHES); make clean-caches removes them"

clean-caches:  ## remove what is kept for all checkouts, such as the environments of make interop
	rm -rf "$(CACHES)"

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
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile -q -e '.[dev]'
	@touch $@

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	found=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${found:-0}" -ge 17 ] || { echo "make: expected Java 17 or newer on PATH or at JAVA_HOME, found $${found:-none}; Spark and TLC need it (Debian: apt-get install openjdk-17-jre-headless)" >&2; exit 1; }
