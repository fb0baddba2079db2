# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo    sets up .venv and shows the main job on a small example
#   make test    completes .venv and runs every check
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# What only Debian has and some test needs: hosts and links on one machine (tests/network).
DEBIAN_PACKAGES := iproute2 nftables

# Tests start dozens of programs: what Python makes of the sources is kept for the next one.
export PYTHONDONTWRITEBYTECODE :=
# Tests run beside each other: more threads than one in each would wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: demo test quick lint interpreted test-long test-deps install bench bench-all fuzz docs pages clean

demo: .venv/.demo
	$(BIN)/unpooled demo

test: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --jobs 2 quick lint interpreted

lint: .venv/.test
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

quick: .venv/.test
	$(ONE_THREAD) $(BIN)/pytest --numprocesses 2 --dist worksteal

# Compiled code again with the compiler switched off.
interpreted: .venv/.test
	NUMBA_DISABLE_JIT=1 $(ONE_THREAD) $(BIN)/pytest --quiet -m "long or not long" \
	  $(addprefix tests/kernels/compiled/test_,assign.py cells.py rounds.py restarts.py)

test-long: .venv/.test
	$(BIN)/pytest -m long --numprocesses 2 --dist loadfile

test-deps:
ifneq ($(strip $(DEBIAN_PACKAGES)),)
	apt-get update -qq && apt-get install -qq --yes --no-install-recommends $(DEBIAN_PACKAGES)
endif

install: .venv/.test

bench: .venv/.bench
	$(BIN)/python benchmarks/page.py

bench-all: bench
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/exponents.py
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/deep.py

# Seconds for each thing that parses bytes.
FUZZ_SECONDS ?= 60
fuzz: .venv/.fuzz
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest tests/messages/test_codec.py
	$(BIN)/python fuzz/run.py --seconds $(FUZZ_SECONDS)

MODULES = $(shell cd src && find unpooled -name '*.py' ! -name '__main__.py' | sort \
  | sed 's,/__init__,,; s,\.py$$,,; s,/,.,g')
# What of README.md, ARCHITECTURE.md and docs/API.md follows from the code.
pages: .venv/.test
	$(BIN)/python -m tests.pages

docs: .venv/.test
	$(BIN)/pdoc --docformat numpy --template-directory docs --output-directory build/docs $(MODULES)

clean:
	rm -rf .venv build dist

# One stamp per set of extras, remade when the project's requirements change.
.venv/.python:
	$(PYTHON) -c 'import sys; sys.exit("unpooled needs Python 3.11 or newer: make PYTHON=python3.12 demo" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	touch $@

.venv/.demo: .venv/.python pyproject.toml constraints.txt
	$(PIP) --editable '.[report]'
	$(BIN)/python -m unpooled.kernels.compiled.ahead
	touch $@

.venv/.test: .venv/.demo
	$(PIP) --editable '.[network,flower,deep,report,dev]'
	touch $@

.venv/.bench: .venv/.test
	$(PIP) --editable '.[network,flower,deep,report,dev,bench]'
	touch $@

.venv/.fuzz: .venv/.test
	$(PIP) --editable '.[network,flower,deep,report,dev,fuzz]'
	touch $@
