"""Recorded games of the environments, which detect unintended changes of games and observations.

After an intended change, write the file again and give the reason in the commit:

    python tests/ttt_envs/playthroughs.py
"""

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np

from ttt_envs import mnk_v0

FILE = Path(__file__).resolve().parents[1] / "data" / "playthroughs.json"

SINGLE = {
    "by default": {},
    "skips, against win-or-block": {"skip_chance": 0.25, "opponent": "win-or-block", "seat": "alternate"},
    "seen through symmetries": {"size": (3, 4), "symmetry": "random", "seat": "random", "skip_chance": 0.25},
    "illegal actions penalised": {"size": 4, "win_length": 4, "illegal_action": "penalize", "opponent": "self"},
    "as many cells as bits": {"size": (7, 9), "win_length": 5, "skip_chance": 0.1},
    "more cells than bits": {"size": 8, "win_length": 3, "seat": "second", "skip_chance": 0.1},
}
"""by name the settings of ``ttt/MNK-v0``"""
AEC = {
    "by default": {},
    "skips and symmetries": {"size": (4, 3), "skip_chance": 0.25, "symmetry": "random"},
    "more cells than bits": {"size": 8, "win_length": 3, "skip_chance": 0.1},
}
"""by name the settings of ``mnk_v0``"""
GAMES = 2


def written(array):
    """An observation as a line of digits."""
    return "".join(str(int(number)) for number in np.ravel(array))


def choose(mask, turn, stray):
    """An action that depends on nothing but the turn; every seventh is whatever the number says, where it may stray."""
    legal = np.flatnonzero(mask)
    number = (turn + 3) * 7919
    return number % len(mask) if stray and turn % 7 == 6 else int(legal[number % len(legal)])


def single(settings):
    """Lines of games in the Gymnasium environment."""
    env = gymnasium.make("ttt/MNK-v0", render_mode="ansi", dtype="int8", **settings)
    lines, turn = [], 0
    for game in range(GAMES):
        observation, info = env.reset(seed=0) if game == 0 else env.reset()
        lines += [written(observation), env.render()]
        over = False
        while not over:
            action = choose(info["action_mask"], turn, "illegal_action" in settings)
            observation, reward, terminated, truncated, info = env.step(action)
            shown = {name: value for name, value in info.items() if name != "action_mask"}
            lines += [f"{action}: {reward} {shown}", written(observation), written(info["action_mask"]), env.render()]
            turn += 1
            over = terminated or truncated
    env.close()
    return lines


def aec(settings):
    """Lines of games in the PettingZoo environment."""
    env = mnk_v0.env(**settings)
    lines, turn = [], 0
    for game in range(GAMES):
        env.reset(seed=0 if game == 0 else None)
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, info = env.last()
            over = terminated or truncated
            action = None if over else choose(observation["action_mask"], turn, False)
            shown = {name: value for name, value in info.items() if name != "action_mask"}
            seen = written(observation["observation"]), written(observation["action_mask"])
            lines += [f"{agent} {action}: {reward} {shown}", *seen]
            env.step(action)
            turn += 1
    return lines


def played():
    """Everything, as it is kept."""
    return {
        "ttt/MNK-v0": {name: single(settings) for name, settings in SINGLE.items()},
        "mnk_v0": {name: aec(settings) for name, settings in AEC.items()},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(played(), indent=1) + "\n")
    sys.stdout.write(f"{FILE}\n")
