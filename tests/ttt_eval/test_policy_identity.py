"""Identities of policies: a change of any relevant file changes them."""

from ttt_eval.policy_identity import policy_identity


def test_policy_identity_covers_its_files(tmp_path, monkeypatch):
    """It changes with a continued run, or an edited class."""
    assert policy_identity("random") == policy_identity("expectiminimax:depth=3,leaf=(optimal)") == ""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    (run / "checkpoint.npz").write_bytes(b"1")
    identities = [policy_identity(f"run:{run}"), policy_identity(f"expectiminimax:leaf=(run:{run},w={'0' * 1000})")]
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
