#!/bin/sh
# Compiles the machine code of environments, opponents, exact values and learners: tools/warm_up.sh [PYTHON]. It is cached
# on disk: run this once on each machine, or once with NUMBA_CACHE_DIR on a folder that machines of the same kind share.
set -e
cd "$(dirname "$0")/.."
python=${1:-python}
runs=$(mktemp -d)
trap 'rm -r "$runs"' EXIT
export TTT_ENVS_INTERPRET=0

for game in "--size 3" "--size 3 --skip-chance 0.25" "--size 4 --win-length 4" "--size 7 --win-length 5"; do
	for players in "random win-or-block" "mcts:simulations=20 expectiminimax:depth=2"; do
		$python evaluate.py match $players --games 4 $game > /dev/null
	done
	for opponent in random win-or-block self; do
		$python train.py --learner q-learning --opponent $opponent --games 8 --batch 4 --no-report $game \
			--out "$runs/run" --overwrite > /dev/null
	done
done
$python -c "from ttt_envs import mnk_v0; env = mnk_v0.env(); env.reset(seed=0); env.step(0); env.last()"
for game in "--size 3" "--size 3 --skip-chance 0.25"; do
	for policy in random optimal table; do
		$python evaluate.py exploitability $policy $game > /dev/null
	done
done
$python evaluate.py exact table svd:rank=18 > /dev/null
$python evaluate.py solve --size 1x3 --win-length 3 > /dev/null
$python evaluate.py solve --size 3 --gravity > /dev/null
$python evaluate.py solve --size 5 --win-length 4 --nodes 100 > /dev/null
$python train.py --learner naive-mc --games 8 --batch 4 --out "$runs/run" --overwrite > /dev/null
$python evaluate.py bench run --agent q-learning --task random --seeds 1 --steps 200 --out "$runs/bench" > /dev/null
