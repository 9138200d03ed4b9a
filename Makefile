# make lab: read and run the course in JupyterLab.   make test: everything that must hold.   make bench: ours beside others.
# Each sets itself up.
PYTHON ?= python3
PORT ?= 8888
BIN := .venv/bin
# Two threads; freed memory is kept (see 16_engine). No busy waiting between parallel sections: tests and notebooks
# share the machine. A benchmark has it for itself.
export OMP_NUM_THREADS ?= 2
lab test readme: export GOMP_SPINCOUNT ?= 2000
export THP_MEM_ALLOC_ENABLE ?= 1

.PHONY: help lab test readme bench
help:
	@sed -n 1p Makefile

.venv/.installed: settings.ini setup.py constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $(PYTHON) is older: make PYTHON=python3.12 …"; exit 1; }
	@echo "== making .venv (once; about 1.5 GB, most of it PyTorch)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

lab: .venv/.installed
	@$(BIN)/python .ci/port.py $(PORT)
	@$(BIN)/jupyter lab --port=$(PORT) --ServerApp.port_retries=0 $(if $(filter 0,$(shell id -u)),--allow-root) --LabApp.default_url=/lab/tree/nbs/index.ipynb

test: .venv/.installed
	@$(BIN)/python .ci/check.py

bench: .venv/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python benchmarks/train.py
	@$(BIN)/python benchmarks/decode.py
	@$(BIN)/python benchmarks/report.py benchmarks/results/train.json benchmarks/results/decode.json

readme: .venv/.installed
	@$(BIN)/python .ci/readme.py
