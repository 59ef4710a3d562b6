"""Submissions for the grader: solutions, planted errors, and files that break rules."""

import tomllib
from itertools import product
from pathlib import Path

from processes import ROOT

SOLUTIONS = ROOT / "examples" / "grading"
MUTANTS = {
    ("gae", "alive[step + 1]", "alive[step]"): "ends",
    ("value-iteration", "discount * expected", "expected"): "discount",
}
"""(solution, its text, the wrong text in its place) -> a row that fails."""
MORE_MUTANTS = {
    ("gae", "discount * lam * alive[step + 1]", "discount * lam"): "ends",
    ("gae", "discount * lam", "discount"): "lambda",
    ("gae", "discount * alive", "alive"): "discount",
    ("gae", "next_value])", "0 * next_value])"): "cut",
    ("gae", "next_done])", "0 * next_done])"): "next_done",
    ("gae", "reversed(range(len(rewards)))", "range(len(rewards))"): "past",
    ("value-iteration", "[:, :, 0]", "[:, :, 1]"): "skips",
    ("value-iteration", "- (1 -", "+ (1 -"): "discount",
    ("value-iteration", "if np.abs(improved - values)[:-1].max() < 1e-6:", "if True:"): "skips",
    ("ppo", "-gain * ratio", "gain * ratio"): "bandit",
    ("ppo", 'rewards"][t] + rollout', 'rewards"][t] - rollout'): "credit",
    ("alpha-zero", "again else -next_value", "again else next_value"): "self-play",
    ("alpha-zero", "scores = totals", "scores = -totals"): "self-play",
}
"""The same for ``make test-more``."""
ENDS = {
    "def minimax(board)": "SyntaxError: expected ':' (line 1)",
    "def other(board): pass": (
        "AttributeError: define a function named minimax; yours defines other"
    ),
    "import gymnasium": (
        "line 1: it imports gymnasium; the task allows Python's standard library and numpy only"
    ),
    "from ttt_eval import checks": "line 1: it imports ttt_eval; the task allows",
    "__import__('base' + 'lines')": "PermissionError: the task forbids other files",
    f"exec(open({str(SOLUTIONS / 'minimax.py')!r}).read())": "PermissionError: the task forbids",
    "\0": "SyntaxError: source code string cannot contain null bytes (line 1)",
    "raise SystemExit(3)": "SystemExit: 3 (line 1)",
    "input()": "it calls input(), but nobody can type: take all from the arguments",
    "1 / 0": "ZeroDivisionError: division by zero (line 1)",
    "while True: pass": "it took more than 1 s of CPU time",
    "import time\ntime.sleep(99)": "it waited for more than 1 s",
    "import os\nos._exit(5)": "its process ended with code 5",
}
"""Submissions that cannot be loaded, and the remark."""
CALLS = {
    "return {(-1, 0, 0, 0, 0, -1, 0, 0, 1): (6, 0)}[tuple(board)]": "its table has no entry",
    "while True: pass": "it took more than 1 s of CPU time",
    "while True: print('words ' * 1000)": "it took more than 1 s",
    "while True: os.fork()": "it starts a process, or opens a connection: PermissionError",
    "os.system('true') and 1 / 0": "ZeroDivisionError",
    "subprocess.run(['true'])": "it starts a process, or opens a connection: PermissionError",
    "os.kill(os.getppid(), 9)": "it starts a process, or opens a connection: PermissionError",
    "socket.create_connection(('127.0.0.1', 80))": "it starts a process, or opens a connection",
    "bytearray(1 << 40)": "it needs more memory than it has: MemoryError",
    "open('large', 'wb').write(bytes(1 << 21))": "it writes more than 1 MiB: OSError",
    "sys.exit()": "SystemExit: (line 4)",
    "os._exit(0)": "its process ended with code 0",
    "os.abort()": "its process ended with code -",
    "return object()": "TypeError: object is no number, list, array or function",
    "return {'array': [[1], 2]}": "it sends no message",
    "return float('nan'), float('nan')": "likely: answers are illegal moves, errors",
    "return 'x' * (1 << 26)": "it sends more than 64 MiB",
    "return 9, 0": "likely: answers are illegal moves, errors, or of another form",
    "return None": (
        "return a pair (cell, value), the cell a number from 0 to 8; yours returned None"
    ),
    "return 4": "return a pair (cell, value), the cell a number from 0 to 8; yours returned 4",
    "return (1, 1), 0": (
        "return a pair (cell, value), the cell a number from 0 to 8; yours returned [[1, 1], 0]"
    ),
    "raise KeyError('\\x1b[31m')": "KeyError: '\\x1b[31m'",
}
"""What the function does, and the beginning of the remark."""

TRAININGS = {
    "environment.reset()\n    environment.step([9] * 16)": (
        "its call of step fails: game 0: action 9 is no cell"
    ),
    "environment.step(None)": "its call of step fails: ",
    "environment.reset('first')": "its call of reset fails: ",
    "environment.reset({'array': [1, [2]]})": "it sends no message",
    "info = environment.reset(seed)[1]\n    environment.step(info['action_mask'].argmin(axis=1))": (
        "its call of step fails: game 0: action 0 is illegal, the cell holds a stone: choose an "
        "empty one"
    ),
    "info = environment.reset(seed)[1]\n"
    "    while True: info = environment.step(info['action_mask'].argmax(axis=1))[4]": (
        "its call of step fails: it makes more than 1.25 times the 2,000 moves that it is given: "
        "call environment.step 125 times"
    ),
    "environment.moves": "AttributeError: ",
    "return None": "train returned None: return a function of observations",
    "return 1": "train returned 'int'",
    "return {(0, 1): 2}": "train returned 'dict': return a function",
    "return lambda observations: observations": "scores have the shape",
    "return lambda observations: None": "scores have the shape",
    "return lambda observations: 1 / 0": "ZeroDivisionError",
    "return lambda observations: {}[0, 1]": "its table has no entry for a position",
}
"""The same of a learner."""

SETTINGS = [
    ("q-learning", {"EPSILON = 0.3": "EPSILON = 0.1", "1e-6 *": "0 *"}),
    *(
        (
            "q-learning",
            {"STEP_SIZE = 0.1": f"STEP_SIZE = {step}", "EPSILON = 0.3": f"EPSILON = {epsilon}"},
        )
        for step, epsilon in product((0.05, 0.1, 0.2, 0.5), (0.1, 0.3, 0.6, 1.0))
    ),
    *(
        ("monte-carlo", {"EPSILON = 0.2": f"EPSILON = {epsilon}"})
        for epsilon in (0.05, 0.1, 0.3, 0.5)
    ),
    *(
        (
            "ppo",
            {
                "LEARNING_RATE = 5e-3": f"LEARNING_RATE = {rate}",
                "COEFFICIENT = 0.02": f"COEFFICIENT = {entropy}",
            },
        )
        for rate, entropy in product((2e-3, 5e-3, 1e-2), (0.0, 0.01, 0.03))
    ),
]
"""(solution, its texts and those of other sensible settings in their place)"""
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SHEET = TABLES["sheet"]
"""{task: {error, in the words of the teacher's sheet: texts of the solution and wrong ones}}"""
NAMED = TABLES["named"]
"""errors of minimax that the student is told by name"""
MORE_NAMED = TABLES["more_named"]
"""Others, also of searches by simulations and of loops, for ``make test-more`` or ``make slow``."""


def change(name: str, texts: dict[str, str]) -> str:
    """Return the source of a solution with other texts in place of its own."""
    source = TABLES["sources"].get(name) or (SOLUTIONS / f"{name}.py").read_text()
    for right, other in texts.items():
        assert right in source
        source = source.replace(right, other)
    return source
