"""A language model as a player: it reads the position as text, and its answer is parsed.

A model is a function from a prompt to an answer, both text. The one below is a stand-in that needs
no network: it overlooks the opponent's stones, so it often names an occupied cell. Replace it by
your own.

A first answer without a legal move is counted, and the model is asked again with a remark; after
three failures the first legal move is played. The stand-in's answer is a function of the position,
so its strength is exact: it answers once for every reachable position. (A model that samples its
words can only be sampled, in games: `evaluate.py llm`.)

    python examples/text_observations.py
"""

import re
from collections import Counter

import numpy as np

from ttt_envs import Game, as_policy, cell_at
from ttt_envs.envs import Scene, text
from ttt_eval.exact import cached, exploitability, match_outcome

GAME = Game(3, 3, 3)
TASK = (
    "You play tic-tac-toe and have the stones o. Answer with the cell of your move, such as b2.\n\n"
)
REMARK = "\n{!r} names no legal move. Choose one of the legal actions.\n"
LIKED = ("b2", "a1", "c3", "c1", "a3", "b1", "b3", "a2", "c2")


def model(prompt):
    """Return the stand-in's answer to a prompt; it uses nothing but the text."""
    if "names no legal move" in prompt:
        return (
            f"I beg your pardon. Then {re.search('legal actions: [0-9]+ .(..)', prompt)[1]} it is."
        )
    rows = [line.split()[1:] for line in prompt.splitlines() if re.match("[0-9] ", line)]
    choice = next(name for name in LIKED if rows[int(name[1]) - 1]["abc".index(name[0])] != "o")
    return f"I looked at the board for a while and move to {choice.upper()}."


def prompt_of(observation):
    """Format the position as text: coordinates, stones, the mover, and the legal actions by number
    and name.
    """
    own = observation[..., 0].ravel()
    other = observation[..., 1].ravel()
    return TASK + text(GAME, Scene((own + 2 * other).astype(np.int8), mover=0))


def named(answer):
    """Return the last cell that an answer names, or None."""
    names = re.findall(r"\b[a-c][1-3]\b", answer.lower())
    return cell_at(names[-1], GAME) if names else None


count = Counter()


def agent(observation, mask):
    """Return the action chosen by the model."""
    prompt = prompt_of(observation)
    for attempt in range(3):
        answer = model(prompt)
        cell = named(answer)
        if cell is not None and mask[cell]:
            break
        count["illegal"] += attempt == 0
        prompt += REMARK.format(answer)
    else:
        count["given up"] += 1
        cell = int(np.flatnonzero(mask)[0])
    count["moves"] += 1
    return cell


print(prompt_of(np.zeros((3, 3, 2), np.int8)))
policy = cached(as_policy(agent, GAME, "planes"), GAME)  # caches its answers
exploited = exploitability(GAME, policy)
result = match_outcome(GAME, policy, "random")
print(
    f"{count['moves']} positions, {count['illegal']} first answers illegal, {count['given up']} "
    "moves given up"
)
print(f"against random: {result.win:.2%} won, {result.draw:.2%} drawn, {result.loss:.2%} lost")
print(f"exploitability: {exploited:.4f}")
