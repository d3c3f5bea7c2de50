# Every target installs its packages into .venv, again after a change of pyproject.toml. You need make, Python 3.11 or later
# with its venv module, and a connection to the package index while something is installed.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

READY_DEMO := .venv/.ready-demo
READY := .venv/.ready
BENCH := .venv/.ready-bench
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
ARGS ?=
# A file's tests share their set-up, so it stays in one process. tests/conftest.py sorts the files: otherwise, files with few
# long tests would come last, and leave a core idle.
PARALLEL ?= --numprocesses auto --dist loadfile --no-loadscope-reorder
SECONDS ?= 600
PYTHON ?=

# Tests start hundreds of processes. If none may cache bytecode, each compiles the library again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test coverage quick assumptions environments upstream check docs bench search chaos clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY_DEMO) ## run the demo; ARGS="..." is passed on, try ARGS=--help
	@$(BIN)/python -m pynamodb_tracker demo $(ARGS)

# Tests for both engines run on dynoxide here, or on moto without it, and in `make quick` through one client.
test: $(READY) ## run all tests; ARGS="..." runs pytest with these arguments; COVERAGE=yes does what coverage does
	$(if $(COVERAGE),@$(BIN)/coverage erase)
	$(BIN)/$(if $(COVERAGE),coverage run,python) -m pytest $(or $(ARGS),--one-engine $(PARALLEL))
	$(if $(COVERAGE),@$(BIN)/coverage combine --quiet)
	$(if $(COVERAGE),$(BIN)/coverage report)

coverage: COVERAGE = yes
coverage: test ## run all tests and measure their branch coverage; less than 95 % is an error

quick: $(READY) ## run the tests of the inner loop, within half a minute; ARGS="..." goes to pytest
	@$(BIN)/python -m pytest --quick --one-engine $(PARALLEL) $(ARGS)

assumptions: $(READY) ## test what we assume about DynamoDB; TRACKER_TEST_ENDPOINT=aws does it with your AWS account
	@$(BIN)/python -m pytest --assumptions $(ARGS)

environments: $(READY) ## run the tests in memory against the wheel, on other Pythons and lowest versions; ARGS="3.13 lowest"
	@.ci/environments $(ARGS)

upstream: $(READY) ## run APScheduler's own tests of job stores against ours; downloads its release the first time
	@$(BIN)/python -m tests.upstream

check: $(READY) ## check format, lint, types, layers, workflows and language
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/python -m tests.language

docs: $(READY) ## build the documentation site into build/site, and test it; a broken link or anchor is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --config-file .mkdocs.yml --strict
	@SITE=build/site $(BIN)/python -m pytest --quiet tests/docs/test_site.py tests/docs/test_images.py
	@echo "build/site/index.html"

bench: $(BENCH) ## run the benchmarks, 20 minutes; ARGS="cpu" runs one of them, ARGS=--help lists them
	@$(BIN)/python -m tests.benchmarks $(ARGS)

search: $(READY) ## search more states of the protocol, some minutes; ARGS=traces shows what each guard prevents
	@$(BIN)/python -m tests.search $(ARGS)

chaos: $(READY) ## run new random sequences and a long random history, 15 minutes; SECONDS=60 for less, ARGS="--seed ..."
	@MACHINE_EXAMPLES=$$(($(SECONDS) / 3 + 1)) $(BIN)/python -m pytest -q tests/machine
	@$(BIN)/python -m tests.chaos --seconds $(SECONDS) $(ARGS)

clean: ## remove everything that these targets made, and .venv
	rm -rf .venv .cache .coverage .coverage.* htmlcov build dist .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Make .venv, unless it has a recent Python. A command of that name may be a stub that only says it is not installed, so
# check each one's version.
define make_venv
@if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
    for python in $(PYTHON) python3.13 python3.12 python3.11 python3.14 python3 python; do \
        if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then break; fi; \
        python=; \
    done; \
    if [ -z "$$python" ]; then \
        echo "make: found no Python 3.11 or later with its venv module. Install one (on Debian and Ubuntu: apt-get" >&2; \
        echo "make: install python3 python3-venv), and put it on the PATH as python3.11 or later, or as python3." >&2; \
        exit 1; \
    fi; \
    echo "creating .venv with $$python"; \
    $$python -m venv --clear .venv; \
fi
endef

$(READY_DEMO): pyproject.toml
	$(make_venv)
	@echo "installing the demo's packages into .venv: about half a minute the first time"
	@$(INSTALL) '.[cli,local,web]'
	@touch $@

$(READY): pyproject.toml
	$(make_venv)
	@echo "installing packages for tests, checks and docs into .venv: one to two minutes the first time"
	@$(INSTALL) '.[dev]'
	@touch $(READY_DEMO) $@

# The libraries that the benchmarks compare ours with.
$(BENCH): $(READY)
	@$(INSTALL) '.[dev,bench]'
	@touch $@
