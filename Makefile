# The two commands: `make demo` and `make test`. Both set up .venv on a fresh machine with Python 3.11.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
OLD := .venv-pettingzoo-1.24

# numba does not see edits in kernels that a kernel imports: a folder of its own for each state of the sources
export NUMBA_CACHE_DIR ?= $(CURDIR)/.cache/numba/$(shell cat ttt_envs/*.py baselines/*.py learners/*.py evaluation/*.py | sha256sum | cut -c1-16)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# matrices here are small: threads for them only wait for each other, for longest where other work runs beside
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test lint unit old-pettingzoo slow clean

demo: .venv/.demo
	$(BIN)/python -m ttt_apps.demo

test: lint unit old-pettingzoo

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/.dev
	$(BIN)/python -m pytest -m "not slow"

# The AEC environment beside the oldest PettingZoo that is supported
old-pettingzoo: $(OLD)/.ready
	$(OLD)/bin/python -m pytest -q -m "not slow" tests/ttt_envs/test_mnk_v0.py

slow: .venv/.dev
	$(BIN)/python -m pytest -m slow

.venv/.base: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

.venv/.demo: .venv/.base
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[report,tf]"
	touch $@

.venv/.dev: .venv/.base
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,sb3,render,report,tf]"
	touch $@

$(OLD)/.ready: setup.cfg constraints.txt
	test -x $(OLD)/bin/python || $(PYTHON) -m venv $(OLD)
	grep -v -i '^pettingzoo' constraints.txt > $(OLD)/constraints.txt
	$(OLD)/bin/python -m pip install --quiet -c $(OLD)/constraints.txt -e . "pettingzoo==1.24.*" pytest hypothesis pygame-ce
	touch $@

clean:
	rm -rf .venv $(OLD) .cache runs build dist *.egg-info
