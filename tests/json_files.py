"""Files of JSON, read by tests."""

import json


def read_json(path):
    """What a file holds."""
    return json.loads(path.read_text())


def rows_of(path):
    """The objects in a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
