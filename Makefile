# Two commands matter: `make demo` shows the whole thing in a minute, `make test` is what CI runs. `make help` lists
# the rest. Each makes the environments that it needs under .venv-*; a machine with Python 3.11 and make is enough.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first interpreter that is new enough, whatever it is called. Or say which: make PYTHON=/path/to/python3
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$name"; break; }; done)

USER_ENV := .venv-user/ready
TEST_ENV := .venv-test/ready
ENGINE_ENV := .venv-engine/ready
FUZZ_ENV := .venv-fuzz/ready
PEERS_ENV := .venv-peers/ready
USER_BIN := .venv-user/bin
TEST_BIN := .venv-test/bin
ENGINE_BIN := .venv-engine/bin
FUZZ_BIN := .venv-fuzz/bin
PEERS_BIN := .venv-peers/bin

ROOMS := schemas ledger verify rescore engine kernels
WHEEL := $(shell find $(ROOMS) -type f -not -path '*/__pycache__/*') pyproject.toml README.md LICENSE
PINS := constraints.txt constraints-engine.txt .ci/environments.py
# To look closer: make unit TESTS=tests/house COVERAGE= PYTEST_OPTIONS=--durations=20
TESTS ?=
PYTEST_OPTIONS ?=
COVERAGE ?= --cov --cov-report=term:skip-covered
PYTEST := -m pytest --installed $(PYTEST_OPTIONS)

# Typed beside torch: engine and kernels. Everything else is checked where torch is absent.
PACKAGES := $(foreach room,schemas ledger verify rescore,-p k3_ledger.$(room)) -p k3_ledger.cli
TORCH_PACKAGES := -p k3_ledger.engine -p k3_ledger.kernels

# Tests that read clocks have the machine to themselves.
CLOCKED := tests/engine/cheats tests/engine/runner

.PHONY: help demo demo-engine test environments lint format types imports generated unit engine-types engine-unit \
	generate attacks faults fuzz published gpu-check bench peers newer fix clean
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

demo: $(USER_ENV) ## a ledger made, sealed, proved and tampered with, on a scratch folder
	@$(USER_BIN)/python docs/examples/demo.py

test: | python ## everything CI runs, stage by stage, with a summary at the end
	@"$(PYTHON)" .ci/stages.py

demo-engine: $(ENGINE_ENV) ## a model made, run, graded, sealed, verified, scored and reconciled on two cores
	@$(ENGINE_BIN)/python docs/examples/demo_engine.py

environments: $(USER_ENV) $(TEST_ENV) ## the environments of all stages but the engine's

lint: $(TEST_ENV) ## ruff, every rule, with a reason beside each exception
	@$(TEST_BIN)/ruff check .

format: $(TEST_ENV) ## is everything formatted?
	@$(TEST_BIN)/ruff format --check .

types: $(TEST_ENV) ## mypy --strict on every room without torch, pyright on the public API sample
	@$(TEST_BIN)/mypy $(PACKAGES)
	@$(TEST_BIN)/mypy docs/examples .ci
	@$(TEST_BIN)/pyright --pythonpath $(TEST_BIN)/python tests/typing/api_sample.py

imports: $(TEST_ENV) ## the directions between rooms
	@$(TEST_BIN)/lint-imports --no-logo --no-cache

generated: $(TEST_ENV) ## do generated files agree with what they are generated from?
	@PYTHONPATH=schemas $(TEST_BIN)/python -m k3_ledger.schemas.generate --check
	@$(TEST_BIN)/python .ci/commands.py --check

unit: $(TEST_ENV) $(USER_ENV) ## tests against the installed wheel, with branch coverage
	@rm -f .coverage .coverage.*
	@$(TEST_BIN)/python $(PYTEST) -n 2 --dist loadgroup --plain-python=$(USER_BIN)/python \
		--ignore=tests/engine --ignore=tests/kernels $(COVERAGE) $(TESTS)

engine-types: $(ENGINE_ENV) ## mypy --strict on the engine and its kernels
	@$(ENGINE_BIN)/mypy $(TORCH_PACKAGES)

engine-unit: $(ENGINE_ENV) ## tests of the engine and its kernels, on the CPU
	@status=0; \
	$(ENGINE_BIN)/python $(PYTEST) -n 2 tests/engine tests/kernels $(CLOCKED:%=--ignore=%) || status=1; \
	$(ENGINE_BIN)/python $(PYTEST) $(CLOCKED) || status=1; \
	exit $$status

generate: $(TEST_ENV) ## write generated files again: JSON Schemas, structs, findings, commands, what documents show
	@PYTHONPATH=schemas $(TEST_BIN)/python -m k3_ledger.schemas.generate
	@$(TEST_BIN)/python .ci/commands.py
	@$(TEST_BIN)/python -m tests.docs.transcripts $$(grep -l '^```console' *.md docs/*.md)

FUZZ_RUNS ?= 20000
attacks: $(TEST_ENV) $(USER_ENV) $(FUZZ_ENV) ## every known attack, every fault of the system (strace), every parser fuzzed; figures
	@PYTEST_OPTIONS="--installed $(PYTEST_OPTIONS)" $(TEST_BIN)/python .ci/attacks.py \
		--fuzz-python $(FUZZ_BIN)/python --fuzz-runs $(FUZZ_RUNS)

published: $(USER_ENV) ## verify this project's own ledger against its root key, and the figures of README and docs/published.md
	@$(USER_BIN)/k3-ledger verify published --trust published.toml
	@$(USER_BIN)/k3-ledger claims check README.md --against published --trust published.toml
	@$(USER_BIN)/k3-ledger claims check docs/published.md --against published --trust published.toml

faults: $(TEST_ENV) ## fail or kill every system call of every writing command in turn, with strace
	@$(TEST_BIN)/python -m tests.faults

fuzz: $(FUZZ_ENV) ## every parser, FUZZ_RUNS executions each, guided by coverage; .fuzz keeps what was reached
	@$(FUZZ_BIN)/python -m tests.fuzz --runs $(FUZZ_RUNS)

GPU_PYTHON ?= python3
gpu-check: ## what CI cannot run, on a GPU: kernels compiled, whole runs graded, times; GPU_PYTHON has torch and triton
	@"$(GPU_PYTHON)" .ci/gpu_check.py --out bundles/gpu-check --node "$${NODE:-gpu}"

BENCHMARKS ?= verify append startup decode rescore
bench: $(TEST_ENV) ## measure again what published/ holds: raw samples go into bundles/, ratios to the terminal
	@mkdir -p bundles
	@for name in $(BENCHMARKS); do echo "== $$name"; PATH=$(CURDIR)/$(TEST_BIN):$$PATH $(TEST_BIN)/python \
		benchmarks/$$name.py --node "$${NODE:-local}" --bundle bundles/$$name || exit 1; done

PEERS := tests/ledger/core/test_peer.py tests/ledger/witness/test_other_makers.py tests/cli/test_s3.py
newer: | python ## a plain installation on every newer Python of this machine: every module, --version, verify published
	@"$(PYTHON)" .ci/newer.py

peers: | python ## Debian's Go, another witness, a store that speaks S3: do notes, proofs and mirrors agree with them?
	@"$(PYTHON)" .ci/peers.py
	@$(MAKE) $(PEERS_ENV)
	@$(PEERS_BIN)/python $(PYTEST) -rs $(PEERS)

fix: $(TEST_ENV) ## format, and repair what ruff can repair
	@$(TEST_BIN)/ruff check --fix . ; $(TEST_BIN)/ruff format .

clean: ## remove environments and caches
	@rm -rf .venv-* .fuzz .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist .coverage .coverage.*

.PHONY: python
python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer with venv and pip was found" >&2; \
		echo "hint: install one (Debian: apt-get install python3-venv) or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }

.venv-%/ready: $(WHEEL) $(PINS) | python
	@"$(PYTHON)" .ci/environments.py $*
