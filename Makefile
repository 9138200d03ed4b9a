# make lab: read and run the course in JupyterLab.   make test: everything that must hold.   make bench: ours beside others.   make site: the course as web pages.
# Each sets itself up. Without make: python run.py lab
PYTHON ?= python3
PORT ?= 8888

.PHONY: help lab test readme bench site
help:
	@sed -n 1p Makefile

lab:
	@$(PYTHON) run.py lab $(PORT)

test readme bench site:
	@$(PYTHON) run.py $@
