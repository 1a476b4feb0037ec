# Everything happens in .venv. PYTHON names the interpreter that makes it: make lab PYTHON=python3.12
PYTHON ?= python3
# where torch comes from: auto (a CPU build where there is no NVIDIA device), pip, or the address of an index
TORCH_INDEX ?= auto
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# what is installed: enough for learning, or everything, which includes that
LEARNING := $(VENV)/.installed-lab
ALL := $(VENV)/.installed
EXTENT ?= $(if $(CHAPTER),thorough,sample)
PYTEST := $(BIN)/python -m pytest -n 5 --no-loadscope-reorder --by-group --nbval
# else each of a test run's many processes compiles the course anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install lab test test-all replay versions colab build site links bench lint release lock clean
.NOTPARALLEL:

install: $(ALL)

lab: $(LEARNING)
	$(BIN)/torchkata lab $(ARGS)

# proves the course on this machine; CHAPTER=06 proves one chapter, EXTENT=thorough each of them so
test: lint
	$(PYTEST) $(if $(CHAPTER),--chapter $(CHAPTER)) --extent $(EXTENT) $(ARGS)

# every check
test-all: lint
	$(PYTEST) --extent all $(ARGS)

# proves the course on releases of torch, each in an environment of its own; TORCH="2.14.1 newest" chooses them
versions: install
	$(BIN)/python -m tests.versions $(TORCH)

# runs the notebooks for Colab where Colab's own versions are: make colab PYTHON=python3.12 CHAPTER=06
colab: install
	$(BIN)/python -m tests.colab --python $(PYTHON) $(CHAPTER)

# says which verdicts on answers have changed since a commit, by default the last release; AGAINST=main CHAPTER=06 ANSWER=words
replay: install
	$(BIN)/python -m tests.replay $(if $(AGAINST),--against '$(AGAINST)') $(if $(CHAPTER),--chapter '$(CHAPTER)') $(if $(ANSWER),--answer '$(ANSWER)') $(ARGS)

build: install
	$(BIN)/torchkata build $(ARGS)

# the website, in build/site; SERVE=1 shows it
site: install
	$(BIN)/python -m torchkata.tools.site $(if $(SERVE),--serve) $(ARGS)

# asks for every address that the course links to; ARGS=onnx for those with a word in them
links: install
	$(BIN)/python -m tests.links $(ARGS)

bench: install
	$(BIN)/python -m tests.bench.learning
	$(BIN)/python -m tests.bench.latency
	$(BIN)/python -m tests.bench.browser
	$(BIN)/python -m tests.bench.explorers
	$(BIN)/python -m tests.bench.grading $(ARGS)
	$(BIN)/python -m tests.tools.grading.hostile.compare

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# makes dist/: make release VERSION=0.2.0
release: install
	$(BIN)/python -m torchkata.tools.publishing $(VERSION)

# makes the lock files and environment.yml anew
lock:
	$(PYTHON) src/torchkata/tools/lock.py

# leaves the workbook alone
clean:
	rm -rf $(VENV) build dist src/torchkata.egg-info .mypy_cache .pytest_cache .ruff_cache

# pip would compile everything on one core; torch has a file that only later Pythons can compile
define set_up
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make lab PYTHON=python3.12")'
	@echo "Setting up .venv; the first time this takes some minutes."
	$(PYTHON) -m venv $(VENV)
	options=$$($(PYTHON) src/torchkata/tools/torch_index.py $(1) $(TORCH_INDEX)) && $(PIP) --no-compile $$options -r $(1)
	$(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
endef

$(LEARNING): requirements-lab.lock pyproject.toml
	$(call set_up,requirements-lab.lock)
	touch $(LEARNING)

$(ALL): requirements.lock pyproject.toml
	$(call set_up,requirements.lock)
	touch $(LEARNING) $(ALL)
