"""``evaluate.py proved-positions``: output; its errors are in test_errors."""

from commands import json_of, text_of


def test_policy_is_measured_on_every_board(capsys):
    found = json_of(capsys, "proved-positions", "random")
    assert list(found["boards"]) == ["5x5-4", "5x6-4", "6x6-5", "7x7-5"]
    for board in found["boards"].values():
        group = board["all"]["all"]
        assert group["positions"] == sum(each["positions"] for each in board["result"].values()) == 1000
        assert 0 < group["keep_rate"]["low"] < group["keep_rate"]["mean"] < group["keep_rate"]["high"] < 1
    text = text_of(capsys, "proved-positions", "win-or-block", "--size", "7", "--win-length", "5")
    assert "win-or-block in proved positions, 7 x 7, 5 to win" in text


def test_description_of_the_positions(capsys):
    assert text_of(capsys, "proved-positions").count("1,000 positions of") == 4
    data = json_of(capsys, "proved-positions", "--size", "5")["boards"]["5x5-4"]
    assert data["positions"] == sum(data["plies"].values()) == data["drawn"] - sum(data["left_out"].values())
