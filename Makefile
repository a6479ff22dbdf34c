# Two commands matter: `make verify` runs every statement and writes results/; `make test` runs the test suite.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Where it is set, every process compiles the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: docs lessons verify test fuzz lint formulas figures performance mutants integrations package clean help
.DEFAULT_GOAL := help

help:
	@echo "make verify       run every statement on the whole battery; results/report.html"
	@echo "make test         the test suite on two processes"
	@echo "make fuzz         every parser of files from anyone on files that nobody meant, for minutes (FILES=400: of each, each way)"
	@echo "make lint         style (ruff), long functions (lizard), who imports whom (import-linter), types (mypy)"
	@echo "make formulas     the files from which formulas are shown, after a form is new or changed"
	@echo "make figures      all figures at a paper's resolution; results/paper (ARGS=--quick: at the effort of make verify)"
	@echo "make docs         the documentation as a site: results/site/index.html (QUICK=1: without running the lessons)"
	@echo "make lessons      six lessons as executed Jupyter notebooks: results/lessons (ARGS='--only drift': one of them)"
	@echo "make performance  timings, as ratios within one run"
	@echo "make mutants      which small changes no test notices (PLACE=fedtheory/optimum/duality.py TESTS=tests/optimum)"
	@echo "make integrations the tests with Flower, in a virtual environment of its own: its pins are narrow"
	@echo "make package      sdist and wheel, checked, and the wheel tried on every Python from 3.11 on (ARGS=/path/to/python)"
	@echo "make clean        remove what these commands made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(f"Python 3.11 or later is needed, {sys.executable} is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# The package is installed in place, so that only a change of its dependencies installs again.
$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.linted: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[lint]'
	@touch $@

verify: $(VENV)/.installed
	$(BIN)/fedtheory verify $(ARGS)

test: $(VENV)/.tested
	$(BIN)/python -m pytest -n 2 --dist loadscope $(ARGS)

FILES ?= 400
fuzz: $(VENV)/.tested
	FEDTHEORY_FUZZ=$(FILES) $(BIN)/python -m pytest tests/fuzz -n 2 $(ARGS)

lint: $(VENV)/.linted
	$(BIN)/ruff check .
	$(BIN)/lizard fedtheory validation paper_figures examples --warnings_only -T nloc=80 -T parameter_count=12 --CCN 1000 --length 1000
	$(BIN)/lint-imports
	$(BIN)/mypy

formulas: $(VENV)/.installed
	$(BIN)/python validation/references/shown_formulas.py

figures: $(VENV)/.installed
	$(BIN)/python -m paper_figures $(ARGS)

$(VENV)/.documented: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: $(VENV)/.documented
	$(BIN)/python -m sphinx -b html -W --keep-going -q -d results/.doctrees docs results/site $(if $(QUICK),-t quick) $(ARGS)
	@echo "results/site/index.html"

$(VENV)/.taught: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[lessons]'
	@touch $@

lessons: $(VENV)/.taught
	$(BIN)/python docs/lessons/execute.py $(ARGS)

performance: $(VENV)/.installed
	$(BIN)/python validation/timings/performance.py $(ARGS)

$(VENV)/.mutated: $(VENV)/.tested
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[mutation]'
	@touch $@

mutants: $(VENV)/.mutated
	$(BIN)/python validation/mutations/mutate.py $(PLACE) $(TESTS) $(ARGS)

$(VENV)-flower/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python -m pip install -q --disable-pip-version-check -e '.[flower]' pytest
	@touch $@

integrations: $(VENV)-flower/.installed
	$(VENV)-flower/bin/python -m pytest tests/integrations $(ARGS)

$(VENV)/.packaged: $(VENV)/.installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[package]'
	@touch $@

package: $(VENV)/.packaged
	$(BIN)/cffconvert --validate -i CITATION.cff
	$(BIN)/python validation/release/check_package.py $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-flower $(VENV)-docs dist results .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
