"""Names of the library: locals and arguments are nouns, and no two classes have one name."""

import ast
import re
from collections import defaultdict
from functools import cache

import pytest
from documents import ROOT

LIBRARY = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps", "studies", "tools")
MAX_SHARE = 40 / 1000
"""Maximum share of bindings whose name is no noun, in a folder."""
OTHER_SHARES = {
    "the library": 26 / 1000,
    "ttt_eval/checks": 80 / 1000,  # still to be renamed
}
PARTICIPLES = """
made kept read put sent held given found drawn begun shown told seen known taken left chosen written
met built done gone lost spent paid said
"""
ADVERBS = """
at to about beyond below above beside apart together ahead after before between again anew anywhere
here there often rather still alone also else by of in_ on off up down over under within without
from_ into as_ with_ per since until
"""
ADJECTIVES = """
fresh same other others own rising falling leading following fewer more most less least few many
much whole half full empty new old late early wide narrow long short large small big little low high
top bottom best worst better worse good bad right wrong sound plain usual real true_ false_ common
rest next_ last first second third fourth fifth both each every all_ any_ some none one two three
which who whom whose what why how when where mine theirs ours yours compact rich poor close far near
free open quick slow hard easy
"""
TERMS = {"own", "other", "first", "second", "best", "legal", "last", "before", "to", "low", "high"}
"""words of these lists that are terms of the field"""
NO_NOUNS = {*PARTICIPLES.split(), *ADVERBS.split(), *ADJECTIVES.split()} - TERMS
ENDING = re.compile(r"[a-z]{3,}(ed|est)")
NOUNS = """
seed speed need feed bed test request nest guest digest manifest forest interest embed expected
"""
"""nouns and terms that end like participles and superlatives"""


@cache
def trees(folders):
    """{path in the checkout: syntax tree} of the files below folders."""
    files = [file for top in folders for file in sorted((ROOT / top).rglob("*.py"))]
    return {file.relative_to(ROOT): ast.parse(file.read_text()) for file in files}


def is_noun(name):
    """Return whether a name has none of the words that are no nouns."""
    return name not in NO_NOUNS and (name in NOUNS.split() or not ENDING.fullmatch(name))


def bindings(path, tree):
    """Yield the name, and the place, of variables and arguments where they are bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, f"{path}:{node.lineno}"
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.arg, f"{path}:{node.lineno}"


def test_few_names_are_no_nouns():
    """Of the library, and of its folders at most two deep."""
    folders = defaultdict(list)
    for path, tree in trees(LIBRARY).items():
        for folder in ("the library", "/".join(path.parent.parts[:2])):
            folders[folder] += bindings(path, tree)
    for folder, bound in folders.items():
        places = defaultdict(list)
        for name, place in bound:
            if not is_noun(name):
                places[name].append(place)
        count = sum(map(len, places.values()))
        limit = int(OTHER_SHARES.get(folder, MAX_SHARE) * len(bound))
        rarest = sorted(places.items(), key=lambda item: len(item[1]))
        assert count <= limit, (
            f"{folder} has {count} names that are no nouns, and {limit} of {len(bound)} may be. "
            "Call yours by the thing that it holds, or add a term of the field to TERMS. The "
            f"rarest first: {rarest}"
        )


@pytest.mark.parametrize("folders", [LIBRARY, ("tests",)], ids=["library", "tests"])
def test_no_two_classes_have_one_name(folders):
    places = defaultdict(list)
    for path, tree in trees(folders).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    assert {name: lines for name, lines in places.items() if len(lines) > 1} == {}
