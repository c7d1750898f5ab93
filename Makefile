# make demo   install into .venv and run the demonstration
# make test   install with the development tools, lint, then run all tests
# make test-lowest   some tests with the lowest versions allowed (Python 3.11 or 3.12)
# make test-torch   what runs on devices, with PyTorch on the processor
# make coverage   the tests, and the share of the lines that they run
# make docs   the documentation site in docs/_build/html, all examples run
# make docs-test   the built site in a headless browser
# make dist   wheel and sdist, checked, and the wheel tried in an empty environment
# make bench   which results are older than the code, then the quick benchmarks
# make lint | format | clean
#
# Another interpreter: make demo PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_DOCS := $(VENV)/.installed-docs
CACHE_READY := $(VENV)/.numba-cache-ready

# numba looks only at the file of the outermost function when it decides whether
# cached machine code is still good, so the cache is kept apart from the sources
# and emptied whenever a hot loop changes; under $CI it always starts empty.
export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/numba-cache

# Counting lines costs next to nothing since Python 3.12, a quarter of the time before:
# make test counts where it is cheap, make coverage everywhere.
CHEAP := $(shell $(PYTHON) -c 'import sys; print(int(sys.version_info >= (3, 12)))')
COUNTED := --cov=manykernels --cov-report=
ifeq ($(CHEAP),1)
export COVERAGE_CORE := sysmon
COUNT ?= $(COUNTED)
endif

.PHONY: help demo test test-lowest test-torch coverage lint format bench docs \
	docs-test dist clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

demo: $(INSTALLED) $(CACHE_READY)
	$(BIN)/manykernels demo

test: lint $(CACHE_READY)
	$(BIN)/python -m pytest -n auto $(COUNT) $(PYTEST_ARGS)
	@$(if $(COUNT),echo "covered: $$($(BIN)/python -m coverage report --format=total) % of the lines outside compiled loops")

# What meets other libraries: tables, files, commands, pictures, every estimator once.
LOWEST := $(VENV)-lowest
LOWEST_TESTS := tests/test_lowest.py tests/cli/test_data_files.py \
	tests/cli/test_kernel_files.py tests/cli/test_fit.py tests/cli/test_errors.py \
	tests/cli/test_predict.py tests/mkl/test_classifier.py \
	tests/mkl/test_frames.py tests/kernels/test_columns.py tests/kernels/test_values.py \
	tests/report tests/files/test_all_estimators.py -k "not to_the_bit"

test-lowest: $(LOWEST)/.installed
	NUMBA_CACHE_DIR="$(CURDIR)/$(LOWEST)/numba-cache" $(LOWEST)/bin/python -m pytest \
		-n auto $(LOWEST_TESTS)

$(LOWEST)/.installed: pyproject.toml tests/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --constraint tests/lowest.txt \
		--editable '.[all]' pytest pytest-xdist hypothesis polars
	@touch $@

# What runs on devices, here on PyTorch's "cpu"; one thread, for its threads wait for
# each other where tests run side by side.
TORCH := $(VENV)-torch
TORCH_TESTS := tests/device tests/banks/test_device_banks.py tests/solvers/test_device_blocks.py \
	tests/mkl/test_device.py tests/mkl/test_device_checks.py \
	tests/mkl/test_device_search.py \
	tests/solvers/regression/test_ridge_system.py \
	tests/solvers/regression/test_gradient_targets.py \
	tests/products/test_device_pricing.py tests/products/test_device_checks.py \
	tests/losses/test_device_losses.py tests/solvers/test_smooth_device.py

test-torch: $(TORCH)/.installed
	OMP_NUM_THREADS=1 SCIPY_ARRAY_API=1 \
		NUMBA_CACHE_DIR="$(CURDIR)/$(TORCH)/numba-cache" \
		$(TORCH)/bin/python -m pytest -n auto $(TORCH_TESTS)

$(TORCH)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --editable '.[torch]' pytest \
		pytest-xdist hypothesis array-api-strict
	@touch $@

coverage:
	$(MAKE) test COUNT="$(COUNTED)"

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED_DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) $(CACHE_READY)
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

# Pages of names that are gone would stay; unchanged examples are not run again.
docs: $(INSTALLED_DOCS) $(CACHE_READY)
	rm -rf docs/api/generated
	$(BIN)/python -m sphinx --builder html --jobs auto --nitpicky \
		--fail-on-warning --keep-going --doctree-dir docs/_build/doctrees \
		docs docs/_build/html

docs-test: $(INSTALLED_DEV)
	$(BIN)/python -m pytest -n auto tests/site

# The wheel is installed where nothing else is, and used far from the sources.
TRIAL := $(CURDIR)/build/trial

TOOLS := $(CURDIR)/build/tools

dist: $(CREATED)
	rm -rf dist build
	$(BIN)/python -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet build twine check-wheel-contents
	$(TOOLS)/bin/python -m build
	$(TOOLS)/bin/python -m twine check --strict dist/*
	$(TOOLS)/bin/check-wheel-contents dist/*.whl
	$(BIN)/python -m venv $(TRIAL)
	$(TRIAL)/bin/python -m pip install --quiet "$$(ls dist/*.whl)[all]" pytest
	cd build && trial/bin/manykernels demo
	cd build && trial/bin/python -m pytest -q -p no:cacheprovider \
		--doctest-modules --pyargs manykernels.norms manykernels.mkl

clean:
	rm -rf $(VENV) $(LOWEST) $(TORCH) .coverage build dist .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis docs/_build docs/auto_examples docs/api/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "manykernels needs Python 3.11 or newer, and '$(PYTHON)' is older" \
			"or missing; name another one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(INSTALLED): pyproject.toml | $(CREATED)
	@echo "Installing manykernels into $(VENV) (a minute or two, only once) ..."
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	@touch $@

$(INSTALLED_DEV): pyproject.toml | $(CREATED)
	@echo "Installing manykernels and its development tools into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(INSTALLED)

$(INSTALLED_DOCS): pyproject.toml | $(CREATED)
	@echo "Installing manykernels and what draws its documentation into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(CACHE_READY): $(wildcard src/manykernels/hot/*.py) | $(CREATED)
	@rm -rf "$(NUMBA_CACHE_DIR)"
	@touch $@

ifneq ($(strip $(CI)),)
.PHONY: $(CACHE_READY)
endif
