"""Measurements during training: lines of JSON, and the same for TensorBoard."""

import os

import pytest
import tiny
from commands import rows_of

from ttt_apps import train
from ttt_apps.metrics import RATES, Metrics
from ttt_eval.run_files import EVENTS, METRICS, RunDirectory


def measured(games, **more):
    return {**dict.fromkeys(RATES, 0), "wins": games, **more}


def test_lines_are_the_measurements_in_order(tmp_path):
    with Metrics(RunDirectory(tmp_path)) as metrics:
        for games in (10, 20):
            metrics.write(games, measured(games, loss=0.5))
    written = rows_of(tmp_path / METRICS)
    assert [(row["games"], row["wins"], row["loss"]) for row in written] == [(10, 10, 0.5), (20, 20, 0.5)]
    assert all(row["games_per_s"] > 0 for row in written)


def test_size_is_taken_after_flushing_to_disk(tmp_path, monkeypatch):
    on_disk = []
    with Metrics(RunDirectory(tmp_path)) as metrics:
        metrics.write(10, measured(10))
        monkeypatch.setattr(os, "fsync", lambda file: on_disk.append(os.fstat(file).st_size))
        assert on_disk == []
        assert [metrics.size()] == on_disk == [(tmp_path / METRICS).stat().st_size]


def test_incomplete_lines_are_damage(tmp_path):
    (tmp_path / METRICS).write_text('{"games": 1}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: each line must have .*wins"):
        Metrics(RunDirectory(tmp_path), 100)


def test_tensorboard_has_the_measurements(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    run = tiny.train_run("q-learning", tmp_path)
    train.main(["--resume", str(run), "--games", "300"])
    events = list(loader.LegacyEventFileLoader(str(run / EVENTS)).Load())
    shown = {event.step: {value.tag: value.simple_value for value in event.summary.value} for event in events[1:]}
    assert list(shown) == [row["games"] for row in rows_of(run / METRICS)]
    before, last = rows_of(run / METRICS)[-2:]
    rate = (last["wins"] - before["wins"]) / (last["games"] - before["games"])
    assert shown[last["games"]]["rate/wins"] == pytest.approx(rate)
    assert {"td_error", "epsilon", "games_per_s"} <= shown[last["games"]].keys()
