# Every target sets itself up from nothing; a second call installs nothing again.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Off-screen OpenGL in software for the simulation; a browser to test the report in; a compiler for the file layer
# that fails on request (tests/soak/faults.c).
SYSTEM := libegl1 libgl1 libgl1-mesa-dri chromium gcc libc6-dev
# One thread a test process: the suite runs on all cores side by side.
WORKERS ?= $(shell nproc)
# Of `make soak`.
MINUTES ?= 20
SEED    ?= 0

.PHONY: help setup demo test test-python test-minimal soak bench gpu-check lint docs site results clean
help:
	@echo "make setup   virtual environment with everything that is tested"
	@echo "make demo    three methods in simulation, a table and a report: runs/demo/report.html"
	@echo "make test    linters, types and the whole test suite"
	@echo "make test-python PYTHON=python3.13   the tests that fit another Python, in an environment of its own"
	@echo "make test-minimal   the tests with the oldest dependencies that pyproject.toml allows"
	@echo "make soak    try to break everything for MINUTES=20: docs/reliability.md; a second call goes on"
	@echo "make bench   speed, side by side with what you would use instead"
	@echo "make gpu-check  every preset on a GPU: speed, memory, resume, agreement with the CPU"
	@echo "make lint    ruff and mypy alone"
	@echo "make docs    regenerate the parts of docs/ that commands print"
	@echo "make site    the documentation as a site, built strictly: site/index.html"
	@echo "make results regenerate docs/results.md and its figures from results/"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; install it (Debian: apt-get install python3.11 python3.11-venv) or say make PYTHON=..."; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -q && apt-get install -qy python3-venv; \
	  else echo "make: the venv module is missing; run: sudo apt-get install python3-venv"; exit 2; fi; }
	@scripts/system-packages.sh $(SYSTEM)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,export,metaworld,report,serve,sim,zarr]'
	# Its declared numpy<2 and missing typing_extensions would hold the rest back.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt openpi-client
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/beacon demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test-python:
	scripts/test-python.sh $(PYTHON) -n $(WORKERS)

test-minimal:
	scripts/test-python.sh $(PYTHON) --minimal -n $(WORKERS)

soak: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(MINUTES) --seed $(SEED) --page docs/reliability.md

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/weighting.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/serving.py

gpu-check: $(STAMP)
	$(BIN)/python benchmarks/gpu.py

docs: $(STAMP)
	$(BIN)/python docs/generate.py

site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

results: $(STAMP)
	$(BIN)/beacon suite table --docs docs

clean:
	rm -rf $(VENV) .venv-* site .mypy_cache .ruff_cache .pytest_cache
