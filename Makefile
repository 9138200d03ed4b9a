# make lab   read and run the course in JupyterLab      make site   the course as web pages
# make test  everything that must hold                  make book   and as one PDF
# make bench ours beside others                         Each sets itself up. Without make: python run.py lab
PYTHON ?= python3
PORT ?= 8888

.PHONY: help lab test readme bench site book
help:
	@sed -n 1,3p Makefile

lab:
	@$(PYTHON) run.py lab $(PORT)

test readme bench site book:
	@$(PYTHON) run.py $@
