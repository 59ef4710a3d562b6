"""Errors of the commands: one sentence, exit code 2, and nothing is written."""

import errno
import io
import re
import shlex
import sys
from pathlib import Path

import pytest
from commands import error_of

from ttt_apps import evaluate, play, train
from ttt_apps.messages import print_error

SWEEPS = {
    "option": "fixed = {epsilom = 0.1}",
    "learner": "[[runs]]\ngames = 5\n[[runs]]\nlearner = 'nobody'",
    "value": "fixed = {win_length = 9}",
    "out": "fixed = {out = 'x'}",
    "help": "fixed = {help = true}",
    "completion": "fixed = {tyro-write-completion = ['bash', 'written']}",
}
"""files of sweeps, by what is wrong in them"""
COUNT = "is not a whole number: write for example 10000"
EVALUATE = [
    ("", "a command is missing: choose one of 'audit'"),
    ("mtach random random", "there is no command 'mtach': did you mean 'match'?"),
    ("exploit random", "there is no command 'exploit': did you mean 'exploitability'?"),
    ("match random", "match needs B: another policy. See evaluate.py match --help"),
    ("match random rndom", "there is no policy 'rndom': did you mean 'random'?"),
    ("match random random --games 7", "--games 7 makes no pairs"),
    ("match random random --size 0", "--size 0 is not a board: choose edges from 1 to 19"),
    ("match random run:nowhere", "nowhere is no run: there is no config.json in it"),
    ("match random run", "run does not take these arguments"),
    ("match random random --seed -1", "--seed -1 is no seed: choose 0 or more"),
    ("match random random --jobs 0", "jobs"),
    ("match random random --jobs 3000000000", "choose 1 to 1024"),
    ("match importlib.util:find_spec random", "importlib.util:find_spec made no policy of 3 x 3"),
    (
        "match random random --openings randm:2",
        "error: --openings randm:2 are not known, and there is no such file: write random:2",
    ),
    ("match random random --openings all:9", "choose 1 to 8 plies"),
    ("match random random --openings . --log log.jsonl", ". is a folder, not a regular file"),
    ("match random random --clock soon", "'soon' is no clock: write seconds"),
    (
        "match random random --size 6 --luck-correction exact",
        "correct luck with the values of a policy, such as run:PATH",
    ),
    (
        "match random random --luck-correction random",
        "random has no values of positions to correct luck with: choose exact",
    ),
    ("match random random --luck-correction exakt", "there is no policy 'exakt'"),
    ("database", "a command is missing: choose one of 'build'"),
    ("database build --stones 12", "--stones 12 are not on a board of 9 cells"),
    ("database build --size 6", "too large"),
    ("database build --size 2 --win-length 2 --folder option.toml", "option.toml"),
    ("database verify /dev/null", "/dev/null"),
    ("database verify option.toml", "option.toml"),
    ("database probe nowhere x", "nowhere"),
    ("games option.tmol", "error: there is no file or folder option.tmol: did you mean option.toml?"),
    ("book", "a command is missing: choose one of 'build', 'leaves', 'show'"),
    ("book build", "name either"),
    ("book build nowhere --search optimal", "name either"),
    ("book build --search random --out a.book", "random has no values, which a book needs"),
    ("book show nowhere/x.npz", "there is no file or folder nowhere"),
    ("exploitability run:runs/frist", "runs/frist is no run: there is no config.json in it. Did you mean runs/first?"),
    ("exploitability run:runs/first/config.json", "Did you mean runs/first?"),
    ("plot", "plot needs runs"),
    ("plot runs/frist", "there is no run and no file runs/frist: did you mean runs/first?"),
    ("report runs", "It contains runs: choose one, such as runs/first"),
    ("match human random", "there is no policy 'human'"),
    ("random", "'random' is a policy, and a command comes before it: did you mean evaluate.py exploitability random?"),
    ("runs/first", "did you mean evaluate.py exploitability run:runs/first?"),
    ("solve --skip-chance 25%", "error: --skip-chance 25% is not a number: write for example 0.25. See"),
    ("--json solve", "--json stands before the command: write evaluate.py COMMAND ... --json"),
    ("exploitability random --memory lots", "error: --memory lots is not a number: write for example 0.25"),
    ("solve --skip-chance 0,3", "--skip-chance 0,3 is not a number: write for example 0.3"),
    ("match random --gams 4", "error: B is missing. See evaluate.py match --help"),
    ("compression-levels sdv", "METHOD sdv is not known: did you mean svd?"),
    ("solve --memory inf", "--memory inf is no amount of GiB"),
    ("solve --size 4 --skip-chance 0.1 --nodes 3", "--nodes 3 limits a proof"),
    ("games nowhere --number 0", "--number 0 is no game: choose 1 or more"),
    ("games nowhere --explain 1 --text", "--text has no effect with --explain"),
    ("games nowhere --out new --json", "--json has no effect with --out"),
    ("games nowhere --text --json", "--json has no effect with --text"),
    ("solve --position 'ooo/xx./... x'", "the game is over"),
    ("solve --position 'oo./xx. o'", "this game needs 3 x 3"),
    ("exact optimal:epsilon=2 random", "epsilon=2.0 is no probability of a random move: choose 0"),
    ("exact random random --chunk 0", "--chunk 0 leaves nothing to ask: choose 1 or more"),
    ("exploitability mcts", "error: mcts is not pure: its moves depend on more than the board"),
    ("exact random mcts", "error: mcts is not pure"),
    ("compare nowhere runs/first", "nowhere is no run"),
    ("compare runs/first runs/first --out a.pdf", "end its name in .html"),
    ("exploitability random --size 5", "allow more with --memory"),
    ("cost", "cost needs runs"),
    ("cost nowhere --repeats 0", "--repeats 0 measures nothing"),
    ("report", "report needs runs"),
    ("report --runs nowhere", "there is no option --runs"),
    ("compression-levels svd --ranks 82", "0 to 81"),
    ("reproduce learners-nave", "did you mean 'learners-naive'?"),
    ("sprt random random --games 1e9", "is too many: choose up to 10,000,000"),
    ("sprt random random --elo0 20", "--elo0 20 is not below elo1=20"),
    ("sprt random random --games 200 --model trinomial --luck-correction exact", "choose one of the two"),
    ("tournament random", "1 player makes no tournament: name two or more"),
    ("tournament random win-or-block random", "random is named twice"),
    ("tournament random win-or-block --anchor optimal", "--anchor optimal does not play"),
    ("ladder --ladder 9x9", "there is no ladder '9x9': choose 3x3, "),
    ("ladder --ladder nowhere.json", "nowhere.json"),
    ("ladder --size 4", "there is no ladder of 4 x 4, 4 to win: choose one of another game, 3x3"),
    ("ladder --ladder 3x3 --size 4", "--ladder 3x3 is of 3 x 3, 3 to win, not of 4 x 4, 4 to win"),
    ("ladder rndom", "there is no policy 'rndom': did you mean 'random'?"),
    ("ladder --out new", "--out has no effect without a POLICY"),
    ("proved-positions random --size 9", "there are no proved positions of this board: choose one of 5x5-4, 5x6-4"),
    ("solve --gravity --size 4 --position '..../x.../..../.... x'", "cells holds a stone above an empty cell"),
    (
        "solve --gravity --size 6x7 --position '......./......./......./..xo.../..ox.../..oxox. x'",
        "o is to move: choose another, or a skip chance, such as --skip-chance 0.25",
    ),
    ("bench rn", "there is no command 'rn': did you mean 'run'?"),
    ("bench run --agent q-lerning", "there is no agent 'q-lerning': did you mean 'q-learning'?"),
    ("bench run --agent random --task chance25", "there is no task 'chance25': did you mean 'chance-25'?"),
    ("bench run --agent random --steps 7", "7 is no number of steps of a run: choose 200 or more"),
    ("bench run --agent random --seeds 101", "101 is no number of seeds: choose 1 to 100"),
    ("bench run --agent random --seeds 0", "--seeds 0 makes no run: choose 1 or more"),
    ("bench run --agent random --every 0", "--every 0 keeps no checkpoint"),
    ("bench run --agent random --steps 0", "--steps 0 teaches nothing: choose 1 or more"),
    ("match random random --phantom classic", "docs/phantom.md lists, such as evaluate.py exact and exploitability"),
    ("bench score nowhere", "nowhere is no submission: there is no such file"),
    ("bench score runs/first --add", "--add needs one submission and --out FILE"),
    ("bench run --agent json:loads --steps 300", "json:loads is no function of a task and a seed: write make(task"),
    ("bench score", "bench score needs submissions"),
    ("bench score runs/first", "runs/first/submission.npz is no submission: there is no such file"),
    ("bench report", "bench report needs submissions"),
    ("bench report nowhere.json", "there is no file or folder nowhere.json"),
    ("bench report nowhere.json --out page.pdf", "end its name in .html"),
    ("bench report nowhere.json --section full", "--section is of the file of --markdown FILE: write both"),
    ("audit gea", "there is no estimator 'gea': did you mean 'gae'?"),
    ("audit gae:lambda=0.9", "gae has no setting 'lambda': did you mean 'lam'?"),
    ("audit gae:lam=2 --episodes 10", "error: gae:lam=2 failed: lam=2 is no weight of longer returns: choose 0 to 1"),
    ("audit gae --critic exat --episodes 10", "there is no critic 'exat': did you mean 'exact'?"),
    ("audit gae --episodes 0", "--episodes 0 cannot be sampled"),
    ("llm --games 2", "llm needs --model NAME"),
    ("llm --model m --endpoint http://127.0.0.1:9 --prompts p", "--prompts p has no effect with --endpoint"),
    ("llm --model m --fields 3", "--fields 3 is no JSON object"),
    ("llm --model m --presentation gird", "'gird' is no presentation: did you mean 'grid'?"),
    ("llm --model m --size 5 --presentation words", "presentation words is of 3 x 3"),
    ("positions", "positions needs --out FILE.jsonl"),
    ("positions --out p.jsonl --held-out 2", "--held-out 2 is no share"),
    ("positions --out p.jsonl --size 5", "has too many positions"),
    ("positions --out .", ". is a folder: name a file"),
    ("puzzles --gravity", "--gravity has no effect without a POLICY"),
    ("puzzles random --log x", "puzzles come from one source"),
    ("puzzles --opponent random", "--opponent has no effect without a POLICY"),
    ("puzzles --player human", "--player has no effect without --log"),
    ("puzzles random --count 0", "--count 0 gives no puzzle: choose 1 or more"),
    ("puzzles random --size 5", "puzzles have boards of up to 16 cells"),
    ("solve --threads 0", "--threads 0 is no number of threads: choose 1 to 1024, or auto"),
]
TRAIN = [
    ("--size 20", "--size 20 is not a board: choose edges from 1 to 19"),
    ("--size '3 by 3'", "--size 3 by 3 is not a board: write an edge such as 3"),
    ("--win-length 4", "--win-length 4 does not fit a board of 3 x 3: choose 1 to 3"),
    ("--skip-chance 1", "--skip-chance 1 is not a probability below 1"),
    ("--opponent randon", "there is no policy 'randon': did you mean 'random'?"),
    ("--opponent 'random:('", "'random:(' is no policy"),
    ("--opponent minimax", "there is no policy 'minimax': did you mean 'expectiminimax'?"),
    ("--opponent runs/first", "the learner of a run is written 'run:runs/first'"),
    ("--opponent pool:every=0", "every=0"),
    (f"--opponent pool:every={'9' * 30}", "is not a whole number of 64 bits"),
    (f"--opponent pool:size={'9' * 5000}", "is no policy"),
    (f"--opponent mcts:simulations={'9' * 30}", "is not a whole number of 64 bits"),
    ("--learner q-lerning", "there is no learner 'q-lerning': did you mean 'q-learning'?"),
    ("--learner=", "there is no learner ''"),
    ("--learner q-learning --learner x", "there is no learner 'x'"),
    ("--games -5", "--games -5 is negative"),
    ("--games many", f"error: --games many {COUNT}"),
    ("--games", "error: --games needs a value: write one behind it. See train.py --help"),
    ("--seat thrid", "--seat thrid is not known: choose first, second, random or alternate"),
    ("--symmetries al", "--symmetries al is not known: did you mean all?"),
    ("--checkpoint-seconds soon", "--checkpoint-seconds soon is not a number: write for example 0.25"),
    ("q-learning", "'q-learning' is one word too many: did you mean --learner q-learning?"),
    ("learner q-learning", "'learner' is one word too many: did you mean --learner?"),
    ("win-or-block", "did you mean --opponent win-or-block?"),
    ("runs/first", "did you mean --resume runs/first?"),
    ("--hiden 5", "there is no option --hiden: --hidden is an option of alpha-zero"),
    ("--resume runs/first --learner q-net", "--learner has no effect with --resume, where the settings come"),
    ("--resume runs/frist", "Did you mean runs/first?"),
    ("--sweep", "--sweep needs a value: write one behind it"),
    ("--sweep optoin.toml", "there is no file optoin.toml: did you mean option.toml?"),
    ("--sweep nowhere", "there is no file nowhere: write one as docs/scale.md tells"),
    ("--sweep option.toml --epsilon 1", "--epsilon has no effect with --sweep, where the settings come from the file"),
    ("--opponent optimal:epsilon=2", "error: epsilon=2.0 is no probability of a random move"),
    ("--games 999999999999999999999999999999", "is too large"),
    ("--gamse 5", "there is no option --gamse: did you mean --games? See train.py --help"),
    ("--zzz 5", "error: there is no option --zzz. See train.py --help"),
    ("--epsilon", "--epsilon"),
    ("--hidden classic", "not of q-learning; stones are hidden by --phantom"),
    ("--learner alpha-zero --threads 0", "error: --threads 0 does not work for alpha-zero: choose"),
    ("--batch 0", "--batch 0 leaves nothing to play"),
    ("--log-every 0", "--log-every 0 does not work: choose 1 or more games"),
    ("--exact-every -1", "--exact-every -1 does not work: choose 0 (never), 1 or more games"),
    ("--checkpoint-seconds 0", "--checkpoint-seconds 0 does not work: choose more than 0 seconds"),
    ("--epsilon 2", "error: --epsilon 2 does not work for q-learning: choose a number"),
    ("--backup negamax", "which only self-play shows: choose self-play, or --backup agent against another"),
    ("--seed -1", "--seed -1 is no seed: choose 0 or more"),
    ("--memory inf", "--memory inf does not work for q-learning: choose a number"),
    ("--memory nan", "--memory nan does not work for q-learning"),
    ("--sweep option.toml", "run 1 of option.toml: there is no option --epsilom: did you mean --epsilon"),
    ("--sweep learner.toml", "run 2 of learner.toml: there is no learner 'nobody'"),
    ("--sweep value.toml", "run 1 of value.toml: --win-length 9"),
    ("--sweep out.toml", "has 'out', which is not for a file to say"),
    ("--sweep help.toml", "has 'help', which is not for a file to say"),
    ("--sweep completion.toml", "has 'tyro-write-completion', which is not for a file to say"),
]
PLAY = [
    ("--opponent human", "there is no policy 'human'"),
    ("--opponent run:runs/frist", "Did you mean runs/first?"),
    ("optimal", "'optimal' is one word too many: did you mean --opponent optimal?"),
    ("runs/first", "did you mean --opponent run:runs/first?"),
    ("--opponent optimall", "there is no policy 'optimall': did you mean 'optimal'?"),
    ("--opponent optimal --size 5", "is too large to solve"),
    ("--games 0", "--games 0 leaves nothing to play: choose 1 or more"),
    ("--seed -1", "--seed -1 is no seed"),
    ("--seat third", "--seat third is not known: choose first, second, random or alternate"),
    ("--gomocup --size=15", "--size has no effect with --gomocup, where the manager chooses the game"),
    ("--gomocup --opponent=mcts", "--opponent has no effect with --gomocup"),
    ("--gomocup --seed=-1", "--seed -1 is no seed: choose 0 or more"),
    ("--web --no-browser --port 70000", "--port 70000 is no port: choose 0, for a free one, to 65535"),
    ("--web --no-browser --open #moves=b2", "is no link: write the part after #, as in skip=0.25&moves=b2.a1"),
    ("--web --no-browser --runs nowhere", "nowhere is no folder: choose one that holds runs"),
    ("--web --no-browser --prot 1", "did you mean --port?"),
    ("--number 1", "--number 1 names no game: choose 1 or more, with --replay FILE"),
    ("--input nowhere.txt", "there is no file or folder nowhere.txt"),
    ("--replay nowhere.jsonl", "there is no file nowhere.jsonl with games: name a log of games"),
    ("--replay option.tmol", "there is no file option.tmol with games: did you mean option.toml?"),
    ("--log option.toml", "no games can be added to option.toml: it is no file of games"),
    ("--size 20", "--size 20 is not a board: choose edges from 1 to 19"),
]


@pytest.mark.parametrize(
    ("command", "line", "message"),
    [
        pytest.param(
            module.main,
            line,
            message,
            id=f"{module.__name__[9:]} {line[:60]}",
            marks=pytest.mark.needs("fastapi", "uvicorn") if "--no-browser" in line else (),
        )
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
    Path("runs", "first").mkdir(parents=True)
    Path("runs", "first", "config.json").write_text("{}")
    out = ["--out", "out"] if command == train.main else []
    out = [] if "--resume" in line or line.startswith("--sweep option.toml --") else out
    said = error_of(capsys, command, *shlex.split(line), *out)
    assert message in said
    assert "secret" not in said
    assert not re.search(r"Error parsing|\[Errno|__init__|could not convert|\w=\"", said)
    options = [word.partition("=")[0] for word in shlex.split(line) if word.startswith("--")]
    assert [name for name in options if f" {name[2:].replace('-', '_')}=" in said] == []  # arguments belong to the API
    assert {path.name: path.read_text() for path in Path().iterdir() if path.is_file()} == files
    assert [path.name for path in Path().rglob("*") if path.is_dir()] == ["runs", "first"]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "none/a/b"), "there is no file or folder none"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "runs"), "runs is a folder: name a file"),
        (PermissionError(errno.EACCES, "Permission denied", "a.json"), "a.json may not be read or written by you"),
        (OSError(errno.ENOSPC, "No space left", "a.json"), "a.json does not fit on the disk, which is full"),
        (OSError(errno.EIO, "Input/output error", "a.json"), "a.json cannot be used: Input/output error"),
        (OSError("the port is taken"), "the port is taken"),
        (ValueError("a\nb\x1b[2J\udcff.json is no run"), "a\\nb\\x1b[2J\\udcff.json is no run\n"),
    ],
)
def test_problems_name_the_file_on_one_line(problem, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert print_error(problem) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
