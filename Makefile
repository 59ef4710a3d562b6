# The two commands: `make demo` and `make test`. Both set up .venv on a fresh machine with Python 3.11.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
OLDEST := .venv-oldest

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# matrices here are small: threads for them only wait for each other, for longest where other work runs beside
export OPENBLAS_NUM_THREADS ?= 1

# a worker for each core; who has which tests is said in tests/conftest.py
SIDE_BY_SIDE := -n logical --dist loadgroup

.PHONY: demo test lint unit oldest slow clients docs play-page pictures clean

demo: .venv/.demo
	$(BIN)/python -m ttt_apps.demo

test: lint unit oldest

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow"

# The environments and two commands with the lowest version of all that setup.cfg requires. Kernels have a folder of their
# own there, for every version of numba takes the other's as out of date.
oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python -m pytest -q -m "not slow" tests/ttt_envs tests/learners/test_checkpoint.py
	$(OLDEST)/bin/python train.py --help > /dev/null
	$(OLDEST)/bin/python evaluate.py --quiet exact random random > /dev/null

slow: .venv/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m slow

# The libraries that the environments are made for, on a wheel of ours, in environments of their own: docs/clients.md
clients: .venv/.dev
	$(BIN)/python tests/clients/run.py

# The pages of docs/, of the root and of the API as a site, without a warning. To look at it:
# .venv/bin/python -m http.server --directory site
docs: .venv/.dev
	$(BIN)/python docs/make_pages.py
	$(BIN)/zensical build --strict

# The page in which 3 x 3 is played without a server: docs/play.md
play-page: .venv/.base
	$(BIN)/python -m ttt_apps.play_page

# The pictures of the README, taken with chromium
pictures: .venv/.dev
	$(BIN)/python docs/make_pictures.py

.venv/.base: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

.venv/.demo: .venv/.base
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[report,tf]"
	touch $@

.venv/.dev: .venv/.base
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,sb3,render,report,tf,cluster,explorer,docs]"
	touch $@

# `name>=version` there is `name==version` here; constraints.txt holds for the rest but llvmlite, which goes with numba
$(OLDEST)/.ready: setup.cfg constraints.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	sed -n '/^install_requires/,/^$$/s/^ *\(.*\)>=/\1==/p' setup.cfg > $(OLDEST)/oldest.txt
	(sed 's/==.*//' $(OLDEST)/oldest.txt; echo llvmlite) | grep -v -i -w -f - constraints.txt > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet -c $(OLDEST)/oldest.txt -c $(OLDEST)/constraints.txt -e . pytest hypothesis pygame-ce
	touch $@

clean:
	rm -rf .venv $(OLDEST) .cache runs build dist site *.egg-info
