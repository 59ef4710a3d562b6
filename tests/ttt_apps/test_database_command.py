"""``evaluate.py database``: build, verify, probe, list."""

import json

import commands
import numpy as np
import pytest

from baselines.exact import build
from ttt_apps import evaluate
from ttt_envs import Game

GAME = ["--size", "3", "--skip-chance", "0.25"]


def database(capsys, *words):
    """Return the output and the messages of a command."""
    evaluate.main(["database", *map(str, words)])
    return capsys.readouterr()


def error_of(capsys, *words):
    """Return the error message of a command."""
    return commands.error_of(capsys, evaluate.main, "database", *words)


@pytest.fixture
def plain_folder(tmp_path):
    build(Game(), tmp_path / "plain", stones=4)
    return tmp_path / "plain"


def test_build_prints_its_cost_and_extends_a_database(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = database(capsys, "build", *GAME, "--stones", "6")
    assert "from 6 stones on has" in said.err
    assert "bytes in databases/3x3-3-skip0.25" in said.err
    assert "of memory while they are made, about" in said.err
    first = json.loads(database(capsys, "build", *GAME, "--stones", "6", "--json").out)
    assert first["complete"] is True
    assert first["sha256"] in said.out
    more = json.loads(database(capsys, "build", *GAME, "--stones", "3", "--json").out)
    assert more["stones"] == 3
    assert more["entries"] > first["entries"]
    assert more["sha256"] != first["sha256"]
    assert "bytes of memory" in error_of(capsys, "build", *GAME, "--memory", "1e-7")


def test_dry_run_prints_the_estimate_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("build", "--size", "4", "--win-length", "4", "--gravity", "--skip-chance", "0.25", "--dry-run")
    data = json.loads(database(capsys, *words, "--json").out)
    assert sum(data["by_stones"]) * 4 == data["disk"]
    assert data["by_stones"][:4] == [1, 4, 24, 80]
    said = database(capsys, *words)
    assert f"has about {sum(data['by_stones']):,} values" in said.err
    assert not list(tmp_path.iterdir())


def test_a_database_under_gravity_is_built_verified_and_asked(tmp_path, capsys):
    game = ("--size", "3x4", "--win-length", "3", "--gravity", "--skip-chance", "0.25")
    built = json.loads(database(capsys, "build", *game, "--folder", tmp_path, "--json").out)
    checked = json.loads(database(capsys, "verify", tmp_path, "--json").out)
    assert checked["checked"] == checked["entries"] == built["entries"] > 0
    assert checked["sha256"] == built["sha256"]
    said = database(capsys, "probe", tmp_path, "..../..../..x. o").out.splitlines()
    assert said[1].split() == ["."] * 4
    assert said[3].split()[2] == "x"


def test_probe_without_skips_prints_values_and_distances(capsys, plain_folder):
    said = database(capsys, "probe", plain_folder, "ox./ox./... o").out
    assert "is won for the mover, and over after 1 more plies" in said
    data = json.loads(database(capsys, "probe", plain_folder, "ox./ox./... o", "--json").out)
    assert (data["value"], data["distance"]) == (1, 1)
    assert data["moves"][2][0] == 1
    assert data["distances"][2] == [1, 5, 2]
    assert data["moves"][0][0] is None
    assert data["distances"][0][0] is None
    assert "begins at 4 stones" in error_of(capsys, "probe", plain_folder, "o../.../... x")
    assert "the game is over" in error_of(capsys, "probe", plain_folder, "ooo/xx./... x")
    assert "has no database or table of layers" in error_of(capsys, "probe", plain_folder.parent, "o../.../... x")


def test_probe_with_skips_prints_expected_results(capsys, tmp_path):
    build(Game(skip_chance=0.25), tmp_path)
    data = json.loads(database(capsys, "probe", tmp_path, ".../.../... o", "--json").out)
    assert data["value"] == pytest.approx(max(map(max, data["moves"])))
    assert data["distance"] is None
    assert "for the mover; its moves have the values" in database(capsys, "probe", tmp_path, ".../.../... o").out


@pytest.mark.parametrize("jobs", [1, 2])
def test_verify_all_entries(capsys, plain_folder, jobs):
    data = json.loads(database(capsys, "verify", plain_folder, "--json", "--jobs", jobs).out)
    assert data["checked"] == data["entries"]
    assert data["largest_difference"] == 0


def test_verify_a_sample(capsys, plain_folder):
    data = json.loads(database(capsys, "verify", plain_folder, "--sample", "50", "--seed", "3", "--json").out)
    assert data["checked"] == 50
    assert "--sample 0 looks at nothing" in error_of(capsys, "verify", plain_folder, "--sample", "0")


def test_verify_finds_wrong_hashes_and_wrong_entries(capsys, plain_folder):
    import hashlib

    path, manifest = plain_folder / "06-layer.npy", plain_folder / "manifest.json"
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)
    assert "06-layer.npy is damaged" in error_of(capsys, "verify", plain_folder)
    data = json.loads(manifest.read_text())
    data["layers"]["06-layer.npy"] = hashlib.sha256(content).hexdigest()  # forged
    manifest.write_text(json.dumps(data))
    entry = len(content) - 7 - (len(content) - len(np.load(path)))
    assert f"06-layer.npy is wrong in entry {entry:,}, of the position" in error_of(capsys, "verify", plain_folder)
    path.unlink()
    assert "06-layer.npy is damaged" in error_of(capsys, "verify", plain_folder)
    del data["layers"]["06-layer.npy"]
    manifest.write_text(json.dumps(data))
    assert "06-layer.npy is missing" in error_of(capsys, "verify", plain_folder)


def test_long_values_of_a_damaged_manifest_are_shortened(capsys, tmp_path):
    folder = tmp_path / "database"
    database(capsys, "build", "--size", "2", "--win-length", "2", "--folder", folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("format", "dtype"):
        (folder / "manifest.json").write_text(json.dumps({**manifest, name: "0" * 5000}))
        assert len(error_of(capsys, "build", "--size", "2", "--win-length", "2", "--folder", folder)) < 500
