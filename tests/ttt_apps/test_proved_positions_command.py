"""evaluate.py proved-positions: asking, telling, proving again."""

import json

import pytest

from ttt_apps import evaluate


def printed(capsys, *words):
    evaluate.main(["--quiet", "proved-positions", *words])
    return capsys.readouterr().out


def test_a_policy_is_asked_on_every_board(capsys):
    found = json.loads(printed(capsys, "random", "--json"))
    assert list(found["boards"]) == ["5x5-4", "5x6-4", "6x6-5", "7x7-5"]
    for board in found["boards"].values():
        assert list(board) == ["all", "result", "stones", "plies"]
        kept = board["all"]["all"]
        assert kept["positions"] == sum(group["positions"] for group in board["result"].values()) == 1000
        assert 0 < kept["kept"]["low"] < kept["kept"]["mean"] < kept["kept"]["high"] < 1


def test_a_table_for_one_board(capsys):
    text = printed(capsys, "win-or-block", "--size", "7", "--win-length", "5")
    assert "win-or-block in proved positions, 7 x 7, 5 to win" in text
    assert "proved win" in text
    assert "proved draw" in text


def test_what_the_positions_are(capsys):
    text = printed(capsys)
    assert text.count("1,000 positions of") == 4
    told = json.loads(printed(capsys, "--size", "5", "--json"))["boards"]["5x5-4"]
    assert told["positions"] == sum(told["plies"].values()) == told["drawn"] - sum(told["left_out"].values())


def test_some_are_proved_again(capsys):
    text = printed(capsys, "--prove-again", "--sample", "3", "--size", "5x6")
    assert text == "5 x 6, 4 to win: 3 positions proved again, every move as it is kept\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["random", "--size", "9"], "there are no proved positions of this board: choose one of 5x5-4, 5x6-4"),
        (["random", "--prove-again"], "--make and --prove-again ask no policy: leave it out"),
        (["--sample", "3"], "--sample is of positions to be proved again: say --prove-again, too"),
        (["--prove-again", "--sample", "0"], "sample=0 proves nothing"),
        (["randon"], "there is no policy 'randon'"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, words, message):
    with pytest.raises(SystemExit):
        evaluate.main(["--quiet", "proved-positions", *words])
    assert message in capsys.readouterr().err
