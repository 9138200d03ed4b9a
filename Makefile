# make translate   translate numbers that you type       make bench   ours beside others
# make lab         read and run the course               make site    the course as web pages
# make test        check everything                      make book    the same, and one PDF
# Each sets itself up. Without make: python run.py lab
PYTHON ?= python3
PORT ?= 8888

.PHONY: help translate lab test readme bench site book
help:
	@sed -n 1,4p Makefile

lab:
	@$(PYTHON) run.py lab $(PORT)

translate test readme bench site book:
	@$(PYTHON) run.py $@
