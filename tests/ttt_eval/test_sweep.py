"""Sweep files and their tables."""

import pytest
from json_files import read_json

from ttt_eval.reports.sweep import write_table
from ttt_eval.runs import sweep
from ttt_eval.store.statistics import interval_from_seeds

WHOLE = """
seeds = 2
fixed = {games = 100, win_length = 3}
grid = {epsilon = [0.1, 0.3], layers = [[8], [8, 4]]}
[[runs]]
learner = "q-learning"
[[runs]]
learner = "q-net"
games = 50
"""


def read(tmp_path, text):
    (tmp_path / "sweep.toml").write_text(text)
    return sweep.read_sweep(tmp_path / "sweep.toml", forbidden=("seed",))


def test_file_describes_all_combinations(tmp_path):
    rows, seeds = read(tmp_path, WHOLE)
    assert (seeds, len(rows)) == ([0, 1], 8)
    assert rows[0] == {
        "games": 100,
        "win-length": 3,
        "epsilon": 0.1,
        "layers": [8],
        "learner": "q-learning",
    }
    assert rows[-1] == {
        "games": 50,
        "win-length": 3,
        "epsilon": 0.3,
        "layers": [8, 4],
        "learner": "q-net",
    }
    assert sweep.varied_options(rows) == ["games", "epsilon", "layers", "learner"]
    assert read(tmp_path, "") == ([{}], [0])
    # an agent has none of the settings of learners
    assert read(tmp_path, "seeds = [7, 3]\nfixed.agent = 'x'\ngrid.games = [1, 2]") == (
        [{"agent": "x"}],
        [7, 3],
    )


def test_setting_as_a_command_line():
    row = {"learner": "q-net", "layers": [8, 4], "self": True, "other": False, "epsilon": 0.1}
    assert sweep.to_command_line(row) == [
        "--learner",
        "q-net",
        "--layers",
        "8",
        "4",
        "--self",
        "--epsilon",
        "0.1",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *(f"seeds = {seeds}" for seeds in ("", 0, "[1, 1]", sweep.MAX_RUNS + 1)),
        "seed = 1",
        "fixed = {games = {a = 1}}",
        "fixed = {size = ['3', '--trust']}",
        "fixed = {'out=x' = true}",
        "fixed = {seed = 1}",
        "grid = {hidden = [[64, '--trust'], [8]]}",
        f"grid = {{epsilon = {list(range(200))}, games = {list(range(200))}}}",
        "[[runs]]\ngames = 1\n[[runs]]\ngames = 1",
    ],
)
def test_invalid_files_are_rejected(text, tmp_path):
    with pytest.raises(ValueError, match=r"sweep\.toml (is no sweep|describes|has)"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("seed = 1", "did you mean 'seeds'"), ("epsilon = 0.1", "'fixed', 'grid', 'runs', 'seeds'")],
)
def test_an_unknown_part_has_a_hint_that_needs_no_checkout(text, hint, tmp_path):
    with pytest.raises(ValueError, match=hint) as problem:
        read(tmp_path, text)
    assert "docs/" not in str(problem.value)


def test_runs_are_aggregated_over_seeds(tmp_path):
    rows = [{"epsilon": 0.1, "games": 5}, {"epsilon": 0.3, "games": 5}]
    regrets = {(1, 0): 0.2, (0, 1): 0.3, (0, 0): 0.1}
    runs = [
        sweep.SweepRun(*key, {"regret": value}, "runs/{}-{}".format(*key))
        for key, value in regrets.items()
    ]
    table = sweep.tabulate_runs(rows, runs)
    assert table[0].numbers == {"regret": interval_from_seeds([0.1, 0.3], bounds=(0.0, 2.0))}
    (agree,) = sweep.tabulate_runs(
        rows[:1], [sweep.SweepRun(0, seed, {"exploitability": 0.0}) for seed in range(3)]
    )
    assert agree.numbers["exploitability"].high == pytest.approx(
        1 - 0.05 ** (1 / 3)
    )  # its maximum is 1
    result = sweep.SweepResult(source="sweep.toml", table=table, runs=runs, folder=tmp_path)
    result.write(tmp_path)
    assert write_table(result) == [
        ["epsilon", "seeds", "regret"],
        [
            "0.1",
            "1 0",
            "0.2000 (0.0000 to 1.4706)",
        ],  # Student's t of two: 12.7062 deviations of the mean
        ["0.3", "0", "0.2000"],
    ]
    data = read_json(tmp_path / "result.json")
    assert data["table"][1] == {"options": rows[1], "seeds": 1, "regret": {"mean": 0.2}}
    assert set(data["table"][0]["regret"]) == {"mean", "low", "high"}
    assert sweep.SweepResult.from_dict(data, tmp_path) == result
    assert "| 0.3 | 0 | 0.2000 |" in (tmp_path / "table.md").read_text()


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (
            [{"learner": "q-learning"}, {"agent": "random"}, {}],
            ["q-learning", "random", "default settings"],
        ),
        ([{"epsilon": 0.1}, {}], ["epsilon 0.1", "default settings"]),
        ([{"epsilon": 0.1}], ["the only setting"]),
    ],
)
def test_names_of_settings(rows, names):
    assert [sweep.setting_name(row, sweep.varied_options(rows)) for row in rows] == names
