"""Fingerprints of code and policies: a change of any relevant file changes them."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from evaluation import code_fingerprint
from evaluation.code_fingerprint import code_hash, policy_identity
from ttt_apps.studies import STUDIES
from ttt_envs.agents.specs import load_object

HERE = Path(code_fingerprint.__file__).parents[1]


def reached(module, packages):
    """Return the modules of some packages that a loaded module refers to, directly or indirectly."""
    found, waiting = set(), [module]
    while waiting:
        one = waiting.pop()
        name = one.__name__
        if name.partition(".")[0] in packages and name not in found and code_fingerprint.determines_results(name):
            found.add(one.__name__)
            for value in vars(one).values():
                name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
                waiting += [sys.modules[name]] if isinstance(name, str) and name in sys.modules else []
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_fingerprint_includes_all_modules_of_a_study(name):
    study = load_object(STUDIES[name])
    files = {str(path.relative_to(HERE)) for path in code_fingerprint.source_files(study.units.__module__)}
    for one in reached(sys.modules[study.units.__module__], {"ttt_apps", "evaluation", *code_fingerprint.BY_NAME}):
        assert str(Path(sys.modules[one].__file__).relative_to(HERE)) in files, one


def test_hash_covers_contents_and_names(tmp_path, monkeypatch):
    for name in ("ttt_envs", "baselines", "learners", "evaluation"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(code_fingerprint, "__file__", str(tmp_path / "evaluation" / "code_fingerprint.py"))
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "a_package_of_studies"
    (package / "inner").mkdir(parents=True)
    texts = {
        "__init__.py": "",
        "study.py": "def measure():\n    from a_package_of_studies.inner import helper\n    return helper.one()\n",
        "other.py": "",
        "inner/__init__.py": "X = 1\n",
        "inner/helper.py": "from a_package_of_studies.last import one\n",
        "last.py": "def one():\n    return 1\n",
    }
    for name, text in texts.items():
        (package / name).write_text(text)
    before = code_hash("a_package_of_studies.study")
    assert code_hash("a_package_of_studies.study") == before
    for name, text in texts.items():
        (package / name).write_text(f"{text}# edited\n")
        assert (code_hash("a_package_of_studies.study") == before) == (name == "other.py"), name
        (package / name).write_text(text)
    assert code_hash("a_package_of_studies.study") == before
    # the end of one file moved to the start of the next
    (package / "inner/__init__.py").write_text("")
    (package / "inner/helper.py").write_text(texts["inner/__init__.py"] + texts["inner/helper.py"])
    assert code_hash("a_package_of_studies.study") != before


def test_policy_identity_covers_its_files(tmp_path, monkeypatch):
    """It changes with a continued run, or an edited class."""
    assert policy_identity("random") == policy_identity("expectiminimax:depth=3,leaf=(optimal)") == ""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    (run / "checkpoint.npz").write_bytes(b"1")
    seen = [policy_identity(f"run:{run}"), policy_identity(f"expectiminimax:leaf=(run:{run})")]
    assert seen[0] == seen[1] != ""
    (run / "metrics.jsonl").write_text("what happened")
    assert policy_identity(f"run:{run}") == seen[0]
    (run / "checkpoint.npz").write_bytes(b"2")
    seen.append(policy_identity(f"run:{run}"))
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("a = 1", "a = 2"):
        (tmp_path / "of_the_user.py").write_text(text)
        seen.append(policy_identity("of_the_user:Class:key=1"))
    assert len(set(seen)) == 4
