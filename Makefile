# Everything happens in .venv. PYTHON names the interpreter that makes it: make lab PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install lab test build bench lint lock clean

install: $(STAMP)

lab: install
	$(BIN)/torchkata lab $(ARGS)

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --nbval $(ARGS)

build: install
	$(BIN)/torchkata build $(ARGS)

bench: install
	$(BIN)/python tests/bench.py
	$(BIN)/python tests/bench_grading.py $(ARGS)
	$(BIN)/python tests/hostile/compare.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# makes requirements.lock and environment.yml anew
lock:
	$(PYTHON) src/torchkata/tools/lock.py

# leaves the workbook alone
clean:
	rm -rf $(VENV) build src/torchkata.egg-info .pytest_cache .ruff_cache

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make lab PYTHON=python3.12")'
	@echo "Setting up .venv; the first time this takes some minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)
