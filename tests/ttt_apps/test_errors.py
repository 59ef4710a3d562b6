"""Errors of the commands: one sentence, exit code 2, and nothing is written."""

import io
import shlex
import sys
from pathlib import Path

import pytest
from commands import error_of

from ttt_apps import evaluate, play, train

SWEEPS = {
    "option": "fixed = {epsilom = 0.1}",
    "learner": "[[runs]]\ngames = 5\n[[runs]]\nlearner = 'nobody'",
    "value": "fixed = {win_length = 9}",
    "out": "fixed = {out = 'x'}",
}
"""files of sweeps, by what is wrong in them"""
COUNT = "is not a whole number: write for example 10000"
EVALUATE = [
    ("", "a command is missing: choose one of 'book'"),
    ("mtach random random", "there is no command 'mtach': did you mean 'match'?"),
    ("match random", "B another policy. See evaluate.py match --help"),
    ("match random rndom", "there is no policy 'rndom': did you mean 'random'?"),
    ("match random random --games 7", "--games 7 makes no pairs"),
    ("match random random --games 0", "--games 0 makes no pairs"),
    ("match random random --size 0", "rows=0 is not the edge of a board"),
    ("match random run:nowhere", "nowhere is no run: there is no config.json in it"),
    ("match random run", "run needs its argument path: write run:path=..."),
    ("match random random --seed -1", "--seed -1 is no seed: choose 0 or more"),
    ("match random random --jobs 0", "--jobs 0 gives no worker"),
    ("match random random --jobs 3000000000", "--jobs 3000000000 is more than a machine can have"),
    ("match importlib.util:find_spec random", "importlib.util:find_spec made no policy of 3 x 3"),
    ("match random random --openings randm:2", "'randm:2' are not known, and there is no such file: write random:2"),
    ("match random random --openings all:9", "choose 1 to 8 plies"),
    ("match random random --openings . --log log.jsonl", ". is a folder, and neither read nor written"),
    ("match random random --clock soon", "'soon' is no clock: write seconds"),
    ("games nowhere", "No such file"),
    ("games nowhere --number 0", "--number 0 is no game: choose 1 or more"),
    ("solve --size 5", "5 x 5 is too large to solve: its table of 2 x 3**25 values would take 13,556,617"),
    ("solve --position 'ooo/xx./... x'", "the game is over"),
    ("solve --position 'oo./xx. o'", "this game needs 3 x 3"),
    ("exact optimal random --size 5", "5 x 5 is too large to solve"),
    ("exact optimal:epsilon=2 random", "epsilon=2.0 is no probability of a random move: choose 0"),
    ("exact random random --chunk 0", "chunk=0 leaves nothing to ask: choose 1 or more"),
    ("exploitability optimum", "did you mean 'optimal'?"),
    ("exploitability random --size 5", "allow more with --memory"),
    ("prove --skip-chance 0.1", "skip_chance=0.1"),
    ("prove --size 9", "64"),
    ("cost", "cost needs runs: write evaluate.py cost RUN..."),
    ("cost nowhere", "nowhere is no run"),
    ("cost nowhere --repeats 0", "--repeats 0 measures nothing"),
    ("report", "report needs runs"),
    ("report --runs nowhere", "there is no option --runs"),
    ("report nowhere", "is no run"),
    ("compression-levels svd --ranks 82", "0 to 81"),
    ("reproduce learners-nave", "did you mean 'learners-naive'?"),
    ("reproduce learners-cost --jobs 0", "1 or more processes"),
    ("reproduce alpha-zero --part curve", "choose curves, ablation, proved"),
    ("reproduce svd-fig4 --part curve", "it has none"),
    ("sprt random random --games 7", "--games 7 makes no pairs: "),
    ("sprt random random --games 1e9", "is too many: choose up to 10,000,000"),
    ("sprt random random --elo0 20", "elo0=20 is not below elo1=20"),
    ("sprt random rndom", "there is no policy 'rndom': did you mean 'random'?"),
    ("sprt random random --openings nowhere", "nowhere"),
    ("tournament random", "1 player makes no tournament: name two or more"),
    ("tournament random win-or-block random", "random is named twice"),
    ("tournament random win-or-block --anchor optimal", "anchor='optimal' does not play"),
    ("ladder --ladder 9x9", "there is no ladder '9x9': choose 3x3, "),
    ("ladder --ladder nowhere.json", "nowhere.json"),
    ("ladder --size 4", "there is no ladder of 4 x 4, 4 to win: choose one of another game with --ladder"),
    ("ladder --ladder 3x3 --size 4", "--ladder 3x3 is of 3 x 3, 3 to win, not of 4 x 4, 4 to win"),
    ("ladder random --games 7", "--games 7 makes no pairs"),
    ("ladder rndom", "there is no policy 'rndom': did you mean 'random'?"),
    ("ladder random --seed -1", "--seed -1 is no seed"),
    ("ladder random --jobs 0", "--jobs 0 gives no worker"),
    ("ladder random --measure 3x3", "leave out the policy"),
    ("ladder --measure 3x4", "there is no ladder '3x4' to measure: did you mean '3x3'?"),
    ("ladder run:nowhere", "nowhere is no run"),
    ("proved-positions random --size 9", "there are no proved positions of this board: choose one of 5x5-4, 5x6-4"),
    ("proved-positions random --prove-again", "--make and --prove-again ask no policy: leave it out"),
    ("proved-positions --sample 3", "--sample is of positions to be proved again: say --prove-again, too"),
    ("proved-positions --prove-again --sample 0", "sample=0 proves nothing"),
    ("proved-positions randon", "there is no policy 'randon'"),
]
TRAIN = [
    ("--size 20", "rows=20 is not the edge of a board: choose 1 to 19"),
    ("--size '3 by 3'", "--size 3 by 3 is not a board: write an edge such as 3"),
    ("--win-length 4", "win_length=4 does not fit a board of 3 x 3: choose 1 to 3"),
    ("--skip-chance 1", "skip_chance=1.0 is not a probability below 1"),
    ("--opponent randon", "there is no policy 'randon': did you mean 'random'?"),
    ("--opponent 'random:('", "its parentheses do not match"),
    ("--opponent minimax", "there is no policy 'minimax': did you mean 'optimal' or 'expectiminimax'?"),
    ("--opponent runs/first", "the learner of a run is written 'run:runs/first'"),
    ("--opponent pool:every=0", "pool: every=0 does not work"),
    (f"--opponent pool:every={'9' * 30}", "is not a whole number of up to 15 digits"),
    (f"--opponent pool:size={'9' * 5000}", "is no policy, it has 5,010 letters"),
    (f"--opponent mcts:simulations={'9' * 30}", "is not a whole number of 64 bits"),
    ("--learner q-lerning", "there is no learner 'q-lerning': did you mean 'q-learning'?"),
    ("--learner=", "there is no learner ''"),
    ("--learner q-learning --learner x", "there is no learner 'x'"),
    ("--games -5", "games=-5 is negative"),
    ("--games many", f"error: Error parsing --games: many {COUNT}"),
    ("--games 999999999999999999999999999999", "is too large"),
    ("--gamse 5", "there is no option --gamse: did you mean --games? See train.py --help"),
    ("--zzz 5", "error: there is no option --zzz. See train.py --help"),
    ("--epsilon", "--epsilon"),
    ("--hidden 5", "--hidden is an option of alpha-zero, q-net, sb3-dqn, sb3-maskable-ppo, sb3-ppo, value-net"),
    ("--batch 0", "batch=0 leaves nothing to play"),
    ("--log-every 0", "log_every=0 does not work: choose 1 or more games"),
    ("--exact-every -1", "exact_every=-1 does not work: choose 0 (never), 1 or more games"),
    ("--checkpoint-seconds 0", "checkpoint_seconds=0.0 does not work: choose more than 0 seconds"),
    ("--epsilon 2", "epsilon=2.0 does not work for q-learning: choose 0 to 1"),
    ("--bootstrap ply", "which only self-play shows"),
    ("--seed -1", "--seed -1 is no seed: choose 0 or more"),
    ("--memory inf", "memory=inf does not work for q-learning: choose above 0 and at most 1,048,576"),
    ("--memory nan", "memory=nan does not work for q-learning"),
    ("--learner naive-mc --memory 1e300", "memory=1e+300 does not work for naive-mc"),
    ("--sweep option.toml", "run 1 of option.toml: there is no option --epsilom: did you mean --epsilon"),
    ("--sweep learner.toml", "run 2 of learner.toml: there is no learner 'nobody'"),
    ("--sweep value.toml", "run 1 of value.toml: win_length=9"),
    ("--sweep out.toml", "has 'out', which is not for a file to say"),
]
PLAY = [
    ("--opponent optimall", "there is no policy 'optimall': did you mean 'optimal'?"),
    ("--opponent optimal --size 5", "is too large to solve"),
    ("--games 0", "--games 0 leaves nothing to play: choose 1 or more"),
    ("--seed -1", "--seed -1 is no seed"),
    ("--seat third", "--seat"),
    ("--gomocup --size=15", "--size has no effect with --gomocup: the manager chooses the game, leave it out"),
    ("--gomocup --opponent=mcts", "--opponent has no effect with --gomocup"),
    ("--gomocup --games=3", "--games has no effect with --gomocup"),
    ("--gomocup --seed=-1", "--seed -1 is no seed: choose 0 or more"),
    ("--number 1", "--number 1 names no game: choose 1 or more, with --replay FILE"),
    ("--replay nowhere.jsonl", "there is no file nowhere.jsonl with games"),
    ("--log option.toml", "no games can be added to option.toml: it is no file of games"),
    ("--size 20", "rows=20 is not the edge of a board"),
]


@pytest.mark.parametrize(
    ("command", "line", "message"),
    [
        pytest.param(module.main, line, message, id=f"{module.__name__[9:]} {line[:60]}")
        for module, cases in ((evaluate, EVALUATE), (train, TRAIN), (play, PLAY))
        for line, message in cases
    ],
)
def test_an_invalid_command_line_is_one_sentence(command, line, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    files = {f"{name}.toml": content for name, content in SWEEPS.items()}
    for name, content in files.items():
        Path(name).write_text(content)
    out = ["--out", "out"] if command == train.main else []
    assert message in error_of(capsys, command, *shlex.split(line), *out)
    assert {path.name: path.read_text() for path in Path().iterdir()} == files
