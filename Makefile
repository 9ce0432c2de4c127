# Every target sets up its own .venv from requirements.lock: only Python (3.11 or newer), pip and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
DEMO := .venv-core
KERNELS := $(wildcard src/gridveil/solvers/structured/*.py src/gridveil/sectors/power/soc_graph/*.py src/gridveil/programs/*.py)

.PHONY: install compile demo release-check test lint typecheck verify bench fuzz docs browser lock clean

install: $(STAMP)

compile: $(COMPILED)

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Compiled kernels of an older version can neither be loaded nor told apart by numba, so they are removed first.
$(COMPILED): $(STAMP) $(KERNELS)
	find src -name '*.nb[ic]' -delete
	@echo "compiling the solver and the relaxation (a minute, once)"
	$(BIN)/gridveil compile --quiet
	touch $@

# What a user gets: the core alone, in the versions of the lock, in an environment of its own.
$(DEMO)/.installed: requirements.lock pyproject.toml
	test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock -e .
	touch $@

# A real, private release: its ledger lies inside demo-out, so that a demo never touches the user's own.
demo: $(DEMO)/.installed
	$(DEMO)/bin/gridveil inspect veil9
	$(DEMO)/bin/gridveil solve veil9
	rm -rf demo-out
	mkdir demo-out
	GRIDVEIL_HOME=demo-out/home $(DEMO)/bin/gridveil release veil9 --epsilon 1 --alpha 10MVA --beta 1% --budget 3 --out demo-out/released
	cat demo-out/released/public/card.yaml

test: lint typecheck $(COMPILED)
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(STAMP)
	$(BIN)/mypy

verify: $(COMPILED)
	$(BIN)/python bench/verify.py
	$(BIN)/python bench/soc_gaps.py

bench: $(COMPILED) requirements-bench.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.lock
	$(BIN)/gridveil bench

# The browser tests look for Chromium and axe-core, and skip, by name, without them. Installing Chromium takes root.
browser:
	command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium >/dev/null)
	test -d .browser/node_modules/axe-core || npm install --silent --no-audit --no-fund --prefix .browser axe-core@4

docs: $(COMPILED)
	$(BIN)/zensical build --strict
	$(BIN)/python -m pytest -n 2 tests/test_docs.py tests/test_readme.py tests/test_notebooks.py

fuzz: $(COMPILED)
	$(BIN)/python bench/fuzz.py

# Distributions, licences and the README in clean environments, and the table of environments (docs/results/environments.md).
release-check: $(STAMP)
	$(BIN)/python bench/release_check.py --table

lock: pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header \
		--allow-unsafe --extra app --extra study --extra cases --extra exact --extra cluster --extra docs --extra dev --output-file requirements.lock pyproject.toml
	sed -i "s/^nvidia-cuda-nvrtc==.*/& ; sys_platform == 'linux'/" requirements.lock  # pip-compile drops the marker
	$(BIN)/pip-compile --quiet --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header \
		--allow-unsafe --constraint requirements.lock --extra bench --output-file requirements-bench.lock pyproject.toml

clean:
	rm -rf $(VENV) $(DEMO) build dist
