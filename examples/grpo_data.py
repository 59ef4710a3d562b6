"""A dataset and a reward function for reinforcement learning with verifiable rewards, such as GRPO.

    python examples/grpo_data.py --out positions.jsonl

A row has the ``prompt`` as a conversation, the ``position``, the names of its ``legal`` moves, and
their ``regrets``: the values that they lose. :func:`reward` is called as TRL calls the functions of
``reward_funcs``; other trainers can call :func:`score` for each answer.
"""

import json
from pathlib import Path

import numpy as np
import tyro

from baselines.exact import solve
from ttt_envs import Game, from_text, to_text
from ttt_envs.text import Problem, make_presentation, parse_answer, present
from ttt_eval.language_models import reachable_positions

GAME = Game(skip_chance=0.25)
PRESENTATION = make_presentation("grid", GAME)
ILLEGAL = -3.0  # the worst legal move turns a win, 1, into a loss, -1: its reward is -2


def score(answer, position, legal, regrets):
    """Return minus the regret of the move that an answer names, ILLEGAL if it names none."""
    move = parse_answer(answer, PRESENTATION, from_text(position, GAME))
    if isinstance(move, Problem):
        return ILLEGAL
    return -regrets[legal.index(PRESENTATION.move_name(move))]


def reward(prompts, completions, position, legal, regrets, **columns):
    """Return the reward of each completion, text or a conversation that ends with it.

    The other arguments are columns of the dataset, a row for each completion.
    """
    texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
    return [score(*row) for row in zip(texts, position, legal, regrets, strict=True)]


def rows():
    """Yield a row for each position that games can reach."""
    boards = reachable_positions(GAME)
    values = solve(GAME).action_values(boards)
    losses = np.nanmax(values, axis=1, keepdims=True) - values
    for number, regrets in enumerate(losses):
        position = boards.position(number)
        cells = np.flatnonzero(~np.isnan(regrets))
        question = present(GAME, position, PRESENTATION)
        yield {
            "prompt": [{"role": "user", "content": question}],
            "position": to_text(position, GAME),
            "legal": [PRESENTATION.move_name(cell) for cell in cells],
            "regrets": regrets[cells].tolist(),
        }


def main(out: Path):
    """Write the rows.

    Args:
        out: file for the rows, as JSON lines.
    """
    lines = [json.dumps(row) for row in rows()]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines):,} positions of {GAME} in {out}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
