"""Identities of policies: a change of any relevant file changes them."""

import dataclasses

import numpy as np
import plain

from learners import CONFIG, QLearningConfig
from learners.checkpoint import new_config, save_checkpoint
from ttt_envs import Game
from ttt_envs.agents.simple import Random, WinOrBlock
from ttt_envs.core.files import write_json
from ttt_eval.exact import exploitability
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.matches.luck import make_correction
from ttt_eval.store.policy_identity import policy_identity


def test_policy_identity_covers_its_files(tmp_path, monkeypatch):
    """It changes with a continued run, or an edited class."""
    assert (
        policy_identity("random") == policy_identity("expectiminimax:depth=3,leaf=(optimal)") == ""
    )
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    (run / "checkpoint.npz").write_bytes(b"1")
    identities = [
        policy_identity(f"run:{run}"),
        policy_identity(f"expectiminimax:leaf=(run:{run},w={'0' * 1000})"),
    ]
    assert identities[0] == identities[1] != ""
    (run / "metrics.jsonl").write_text("what happened")
    assert policy_identity(f"run:{run}") == identities[0]
    (run / "checkpoint.npz").write_bytes(b"2")
    identities.append(policy_identity(f"run:{run}"))
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("a = 1", "a = 2"):
        (tmp_path / "of_the_user.py").write_text(text)
        identities.append(policy_identity("of_the_user:Class:key=1"))
    assert len(set(identities)) == 4
    (tmp_path / "script.py").write_text("raise SystemExit")
    for spec in ("gomocup:python,arguments=(script.py -o mcts:rollouts=2)", "script.inner:Class"):
        assert policy_identity(spec) == ""  # without running it


def test_run_that_is_trained_on_is_made_anew(tmp_path):
    """In one process: its policy, and the luck correction by its values; until then each is made
    once.
    """
    spec = f"run:{tmp_path}"
    boards = plain.from_texts("oo./xx./... o", game=Game())  # o wins
    config = QLearningConfig()
    fields = {"learner": "q-learning", "seed": 0, "opponent": "self", "games": 4000}
    training = config.training(Game(), 4000, batch=16, seed=0, opponent="self")
    values = []
    write_json(tmp_path / CONFIG, new_config(Game(), dataclasses.asdict(config), **fields))
    for games in (100, 4000):
        while training.done.games < games:
            training.step()
        save_checkpoint(tmp_path, learner=training.learner.state)
        policy = make_policy_once(Game(), spec)
        correction = make_correction(spec, Game())
        assert policy is make_policy_once(Game(), spec)
        assert correction is make_correction(spec, Game())
        values.append((float(correction.values(boards)[0]), -exploitability(Game(), policy)))
    assert np.all(np.diff(values, axis=0) > 0)


def test_class_that_a_notebook_defines_again_is_made_anew(monkeypatch):
    for kind in (Random, WinOrBlock):
        monkeypatch.setattr("__main__.Mine", kind, raising=False)
        assert isinstance(make_policy_once(Game(), "__main__:Mine"), kind)
