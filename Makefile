# make lab: read and run the course in JupyterLab.   make test: everything that must hold.   make bench: ours beside others.
# Each sets itself up. Without make: python run.py lab
PYTHON ?= python3
PORT ?= 8888

.PHONY: help lab test readme bench
help:
	@sed -n 1p Makefile

lab:
	@$(PYTHON) run.py lab $(PORT)

test readme bench:
	@$(PYTHON) run.py $@
