# The two commands: `make demo` and `make test`. Both set up .venv on a fresh machine with Python 3.11. Another Python:
# `make test PYTHON=python3.13`, beside what is there already with `VENV=.venv-3.13`. `make test-more` is for what has
# browsers, other processes, other libraries and the lowest versions in it, `make slow` for studies and full sizes:
# tests/conftest.py says which test belongs where.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
QUICK ?= .venv-quick
OLDEST ?= .venv-oldest
# The lowest versions of the dependencies are installed for the lowest Python: they have no wheels for newer ones.
OLDEST_PYTHON ?= $(shell python3.11 -c "import sys; print(sys.executable)" 2>/dev/null)

# $(call check_python,FOLDER,NAME): refuse an environment of another Python than the one that is asked for
check_python = @if [ "$(origin PYTHON)" != file ] && [ -x $(1)/bin/python ]; then \
	version='import sys; print("%d.%d" % sys.version_info[:2])'; \
	has=$$($(1)/bin/python -c "$$version"); wants=$$($(PYTHON) -c "$$version") || exit 1; \
	[ "$$has" = "$$wants" ] || { echo "$(1) has Python $$has and PYTHON=$(PYTHON) is $$wants: remove $(1), or name" \
		"another folder with $(2)=$(1)-$$wants" >&2; exit 1; }; fi

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The matrices of this project are small: more threads make their products slower, above all on a busy machine.
export OPENBLAS_NUM_THREADS ?= 1

# One worker per core; tests/conftest.py assigns tests that belong together to one worker.
SIDE_BY_SIDE := -n logical --dist loadgroup

# Files of tests that are quick when NUMBA_DISABLE_JIT=1 runs kernels as plain Python, and the choice of their tests:
# some play thousands of games, and one needs the NumPy number that a compiled kernel returns.
PLAIN_TESTS := $(addprefix tests/ttt_envs/,test_boards.py test_environments.py test_mnk_v0.py test_policy.py test_rules.py \
	test_specs.py)
OLDEST_TESTS := $(addprefix tests/,ttt_envs/test_files.py ttt_envs/test_array_cache.py ttt_envs/test_adapters.py \
	ttt_envs/test_parallel.py ttt_envs/test_render.py learners/test_checkpoint.py)
PLAIN := not infos_have_one_structure and not exact_mean and not canonical and not openspiel and (not test_solver or (expectimax and [2))

FUZZ_SCALE ?= 1

DEMO_LEARNERS := naive-mc q-learning q-net alpha-zero

# $(call count_nodes,FOLDER OF PYTHON): what git does not track, as in an unpacked source distribution, is not counted
count_nodes = test ! -e .git || $(1)/python tools/count_nodes.py

.PHONY: demo test test-more lint unit more quick quick-lint quick-unit oldest slow goldens clients outside bench bench-quick bench-submissions bench-scores \
	docs notebooks play-page pictures clean check-venv check-quick

demo: $(VENV)/.demo
	for learner in $(DEMO_LEARNERS); do $(BIN)/python train.py --learner $$learner --opponent self --skip-chance 0.25 \
		--out runs/demo/$$learner --overwrite || exit; done
	$(BIN)/python evaluate.py compare $(addprefix runs/demo/,$(DEMO_LEARNERS)) --out runs/demo/report.html --overwrite
	$(BIN)/python evaluate.py match run:runs/demo/naive-mc run:runs/demo/q-net --games 10000 --seed 1

# side by side: mypy has one core
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 lint unit

test-more: more oldest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(call count_nodes,$(BIN))

unit: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not more and not slow"

more: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "more and not slow"

# Without torch and TensorFlow, which are most of what `make test` installs: lint, types, environments and solver. Kernels
# run as plain Python, so that none is compiled.
quick: $(QUICK)/.ready
	@$(MAKE) --no-print-directory -j 2 quick-lint quick-unit

# Libraries that are not installed have no types, so mypy does not check classes derived from theirs.
quick-lint:
	$(QUICK)/bin/ruff check .
	$(QUICK)/bin/ruff format --check .
	$(QUICK)/bin/lint-imports
	$(call count_nodes,$(QUICK)/bin)
	$(QUICK)/bin/mypy --ignore-missing-imports --allow-subclassing-any --no-warn-unused-ignores

quick-unit:
	NUMBA_DISABLE_JIT=1 $(QUICK)/bin/python -m pytest -q -m "not more and not slow" $(PLAIN_TESTS) tests/baselines/test_solver.py -k "$(PLAIN)"

# The lowest versions of all dependencies in setup.cfg: this tests that they work together, not the rules again. Interfaces
# are tested as plain Python, and few kernels are compiled, because each version of numba needs its own compiled code.
ifeq ($(OLDEST_PYTHON),)
oldest:
	@echo "The lowest versions are not tested: they need Python 3.11, and there is no python3.11 here"
else
oldest: $(OLDEST)/.ready
	NUMBA_DISABLE_JIT=1 $(OLDEST)/bin/python -m pytest -q -m "not slow" $(PLAIN_TESTS) $(OLDEST_TESTS) -k "$(PLAIN)"
	$(OLDEST)/bin/python -m pytest -q -m "not slow" tests/ttt_envs/test_rules.py
	$(OLDEST)/bin/python train.py --learner q-learning --games 500 --out $(OLDEST)/run --overwrite > /dev/null
	$(OLDEST)/bin/python evaluate.py --quiet exact run:$(OLDEST)/run random > /dev/null
	$(OLDEST)/bin/python evaluate.py --quiet match random win-or-block table --games 40 > /dev/null
endif

slow: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m slow
	TTT_ENVS_FUZZ_SCALE=$(FUZZ_SCALE) $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/test_fuzzing.py

# Results of this version as those that later ones are compared with: tests/goldens
goldens: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/test_goldens.py --write-goldens

# The libraries that the environments are made for, on a wheel of ours, in environments of their own: docs/clients.md
clients: $(VENV)/.dev
	$(BIN)/python tests/clients/run.py

# Searches, learners and advantages of other libraries in our checks, each library in an environment of its own: docs/outside.md
outside: $(VENV)/.dev
	$(BIN)/python tools/outside.py $(if $(ONLY),--only $(ONLY))

# Submissions to the benchmark of all agents of this repository, and their scores, below runs/bench/v1:
# docs/benchmark/index.md. `make bench BENCH_VERSION=v2` is the other version, `make bench BENCH_JOBS=4` runs four at a
# time, and BENCH_OPTIONS are those of `bench run`. Agents in BENCH_TUNED have the settings of BENCH_SETTINGS.
# `make bench-quick` is the form with 4 tasks, 2 seeds and 20,000 steps, of the agents that take seconds. `make
# bench-submissions` is this form of all agents on more tasks, and puts their files into benchmarks/submissions.
# BENCH_AGENTS and BENCH_PYTHON name other agents, and an environment that has their library.
# `make bench-scores` puts the scores of `make bench` into benchmarks/scores. Both write their part of the leaderboard.
BENCH_TUNED ?= q-learning naive-mc ppo q-net alpha-zero sb3-ppo sb3-dqn sb3-maskable-ppo
BENCH_SETTINGS ?= benchmarks/tuning/chosen.json
BENCH_AGENTS ?= random win-or-block exact-pg $(BENCH_TUNED) examples.bench_ppo:PPO examples.bench_dqn:DQN
BENCH_VERSION ?= v1
BENCH_QUICK_AGENTS ?= random win-or-block q-learning naive-mc
BENCH_PYTHON ?= $(BIN)/python
BENCH_TASKS ?= random half-random chance-25 chance-50 self-play self-play-skip masks
BENCH_JOBS ?= 1
BENCH_OPTIONS ?=

# $(call bench_run,AGENTS,FOLDER,OPTIONS)
define bench_run
	$(foreach agent,$(1),$(BENCH_PYTHON) evaluate.py bench run --agent $(agent) --jobs $(BENCH_JOBS) $(3) \
		$(if $(filter $(agent),$(BENCH_TUNED)),--settings $(BENCH_SETTINGS)) --out $(2)/$(subst :,-,$(agent)) &&) true
endef

# $(call bench,AGENTS,FOLDER,OPTIONS)
define bench
	$(call bench_run,$(1),$(2),$(3))
	$(BIN)/python evaluate.py bench score $(addprefix $(2)/,$(subst :,-,$(1))) --out $(2)/scores.json --overwrite
	$(BIN)/python evaluate.py bench report $(2)/scores.json --out $(2)/report.html --markdown $(2)/leaderboard.md \
		--overwrite
endef

# $(call leaderboard,SECTION,SUBMISSIONS AND OPTIONS)
define leaderboard
	$(BIN)/python evaluate.py bench report $(2) --out runs/leaderboard-$(1).html --markdown runs/leaderboard-$(1).md \
		--overwrite
	(echo; cat runs/leaderboard-$(1).md; echo) | sed -i -e '/<!-- $(1) -->/,/<!-- until here -->/{//!d}' \
		-e '/<!-- $(1) -->/r /dev/stdin' docs/benchmark/leaderboard.md
endef

bench: $(VENV)/.dev
	$(call bench,$(BENCH_AGENTS),runs/bench/$(BENCH_VERSION),--benchmark $(BENCH_VERSION) $(strip $(BENCH_OPTIONS)))

bench-quick: $(VENV)/.dev
	$(call bench,$(BENCH_QUICK_AGENTS),runs/bench-quick,--quick)

bench-submissions: $(VENV)/.dev
	$(call bench_run,$(BENCH_AGENTS),runs/bench-submissions,--quick --every 6 --task $(BENCH_TASKS))
	for agent in $(subst :,-,$(BENCH_AGENTS)); do cp runs/bench-submissions/$$agent/submission.npz \
		benchmarks/submissions/$$agent.npz || exit 1; done
	$(BIN)/python evaluate.py bench report benchmarks/submissions/*.npz --task random chance-25 self-play masks \
		--out runs/bench-submissions.html --overwrite

bench-scores: $(VENV)/.dev
	mkdir -p benchmarks/scores/$(BENCH_VERSION)
	for agent in $(subst :,-,$(BENCH_AGENTS)); do $(BIN)/python evaluate.py bench score \
		runs/bench/$(BENCH_VERSION)/$$agent $(if $(filter v1,$(BENCH_VERSION)),--last) \
		--out benchmarks/scores/$(BENCH_VERSION)/$$agent.json --overwrite || exit 1; done
	$(call leaderboard,$(BENCH_VERSION),benchmarks/scores/$(BENCH_VERSION)/*.json)

# The pages of docs/, of the root and of the API as a site, without a warning. To look at it:
# .venv/bin/python -m http.server --directory site
docs: $(VENV)/.dev
	$(BIN)/python docs/make_pages.py
	$(BIN)/zensical build --strict

# The notebooks of examples/, with their outputs
notebooks: $(VENV)/.dev
	$(BIN)/python docs/make_notebooks.py

# The page in which 3 x 3 is played without a server: docs/play.md
play-page: $(VENV)/.base
	$(BIN)/python -m ttt_apps.play_page

# The pictures of the README, taken with chromium
pictures: $(VENV)/.dev
	$(BIN)/python docs/make_pictures.py

check-venv:
	$(call check_python,$(VENV),VENV)

check-quick:
	$(call check_python,$(QUICK),QUICK)

$(VENV)/.base: setup.cfg constraints.txt | check-venv
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.demo: $(VENV)/.base
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[report,tf,explorer]"
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,sb3,render,report,tf,cluster,explorer,llm,docs]"
	touch $@

$(QUICK)/.ready: setup.cfg constraints.txt | check-quick
	test -x $(QUICK)/bin/python || $(PYTHON) -m venv $(QUICK)
	$(QUICK)/bin/python -m pip install --quiet -c constraints.txt -e . hypothesis import-linter mypy pygame-ce pytest \
		pytest-timeout ruff
	touch $@

# `name>=version` there is `name==version` here; constraints.txt holds for the rest but llvmlite, which goes with numba
$(OLDEST)/.ready: setup.cfg constraints.txt
	test -x $(OLDEST)/bin/python || $(OLDEST_PYTHON) -m venv $(OLDEST)
	sed -n '/^install_requires/,/^$$/s/^ *\(.*\)>=/\1==/p' setup.cfg > $(OLDEST)/oldest.txt
	(sed 's/==.*//' $(OLDEST)/oldest.txt; echo llvmlite) | grep -v -i -w -f - constraints.txt > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet -c $(OLDEST)/oldest.txt -c $(OLDEST)/constraints.txt -e . pytest pytest-timeout \
		hypothesis pygame-ce
	touch $@

# not runs/: trainings take hours
clean:
	rm -rf $(VENV) $(QUICK) $(OLDEST) .cache build dist site *.egg-info

# Source distribution and wheel in dist/, checked as the package index checks them: docs/dev/release.md
.PHONY: dist
dist: $(VENV)/.base
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[release]"
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
