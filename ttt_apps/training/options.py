"""Options of a training, defaults by learner, and the name of its run."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from learners import LEARNERS
from learners.checkpoint import TrainingConfig
from learners.config import TEACHER, LearnerConfig, load_learner
from learners.training import POOL, check_counts
from ttt_apps.cli import options as cli
from ttt_envs.core.checks import Refusal
from ttt_envs.envs.config import SELF
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.graph.estimate import MAX_PHANTOM_CELLS

MAX_NAME_LENGTH = 100
"""Maximum length of a run's name in characters, without its seed."""


@dataclass(frozen=True)
class Options(cli.TrustOptions, cli.OutputOptions, cli.PhantomOptions):
    """Train a learner by playing, and write a run directory, playable as run:PATH, with a report.

        train.py --learner q-learning --skip-chance 0.25 --out runs/first

    Subcommands:

        train.py resume RUN   continue a run that was stopped or killed
        train.py sweep FILE   train the runs described in a file

    --quiet prints results and errors only; --version prints the version.
    """

    learner: Annotated[str, tyro.conf.arg(metavar="NAME")] = "q-learning"
    """naive-mc, q-learning, q-net, ppo, alpha-zero, value-net, exact-pg, sb3-dqn, sb3-ppo or
    sb3-maskable-ppo, or module:Class, the settings of a learner of yours; its own settings are
    options too, see --learner NAME --help, and evaluate.py list learners"""
    opponent: Annotated[str, tyro.conf.arg(metavar="POLICY")] = LearnerConfig.opponent
    """its opponent: a policy such as random or win-or-block; self, with settings and games that
    suit self-play by default; or pool:every=5000,size=8, its own earlier copies. value-net has none
    but its teacher, which plays against itself"""
    seat: Literal["first", "second", "random", "alternate"] = "alternate"
    """the learner's seat"""
    openings: Annotated[cli.TextOption, tyro.conf.arg(metavar="random:N[-M][:SHARE]")] = ""
    """begin games after N random plies, or N to M, as in random:1-3, or a share of the games, as in
    random:1-3:0.5; "" for the empty board, which is the default but in self-play of ppo"""
    games: cli.Positive = LearnerConfig.games
    """number of games"""
    batch: cli.Positive = LearnerConfig.batch
    """number of games in parallel; the default depends on the learner"""
    seed: cli.Natural = 0
    """seed of all random numbers: the same seed and settings give the same learner"""
    out: Path | None = None
    """the run directory; default: runs/ and a name made of learner, game, opponent, settings that
    differ from the defaults, and seed"""
    settings: Literal["default", "report"] = "default"
    """default settings of the learner: default, those that learn well; report, exactly those of its
    source
    """
    log_every: cli.Positive | None = None
    """number of games between two lines of metrics.jsonl; default: few at first, up to a fiftieth
    of all
    """
    exact_every: cli.Natural | None = None
    """number of games between two exact measurements (exploitability, regret, result against the
    opponent), at lines of metrics.jsonl and at the end; 0 measures nothing. Default: at every line
    on boards up to 3 x 3, else never"""
    checkpoint_games: cli.Natural = 0
    """number of games between two checkpoints; 0 for --checkpoint-seconds alone"""
    checkpoint_seconds: cli.Positive = 30
    """seconds between two checkpoints; results do not depend on it"""
    cluster: Annotated[cli.TextOption, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """for a learner with a teacher: play the teacher's games on a Ray cluster, auto for the local
    one, or the address of its head"""
    no_report: cli.Flag = False
    """do not evaluate the learner at the end, and write no report.html"""

    def __post_init__(self) -> None:
        check_counts(self.games, self.batch)

    @property
    def fixed_opponent(self) -> str | None:
        """The opponent for exact results; None in self-play, and for a learner with a teacher."""
        return None if self.opponent.partition(":")[0] in (SELF, POOL, TEACHER) else self.opponent

    def exact_games(self, game: AnyGame) -> int:
        """Return the number of games between two exact measurements, 0 for none."""
        from ttt_envs.graph.estimate import is_measured_at_once

        if self.exact_every is not None:
            return self.exact_every
        if isinstance(game, PhantomGame):
            return int(game.cells <= MAX_PHANTOM_CELLS)
        return int(is_measured_at_once(game))


STORED = tuple(
    field.name
    for field in dataclasses.fields(Options)
    if field.name in TrainingConfig.__struct_fields__ and field.name != "settings"
)
"""Options that are fields of a ``config.json``; those of the learner and of the game have their own
places there.
"""


def option_value(words: Sequence[str], name: str, default: str = "") -> str:
    """Return the last value of an option among words: the other options depend on it."""
    value = default
    for word, next_word in itertools.zip_longest(words, words[1:], fillvalue=default):
        option, separator, text = word.partition("=")
        if option == f"--{name}":
            value = text if separator else next_word
    return value


def parse_options(
    words: Sequence[str], prog: str, *, flags: bool = True
) -> tuple[Options, LearnerConfig]:
    """Parse the options and settings of a training.

    Args:
        words: of the command line.
        prog: name of the program.
        flags: whether a truth value is ``--NAME`` or ``--no-NAME``; else it is ``--NAME True`` or
            ``--NAME False``.

    Raises:
        ValueError: no such learner, or one without settings of its source.
        SystemExit: after help, or invalid arguments.
    """
    if words and not words[0].startswith("-"):
        load_learner(words[0])  # names the nearest one, or all
        raise Refusal(f"{words[0]!r} has no option before it: write --learner {words[0]}")
    learner = option_value(words, "learner", Options.learner)
    check_settings(words, learner)
    default = default_options(
        learner,
        option_value(words, "opponent"),
        phantom=option_value(words, "phantom", "no") != "no",
        source=option_value(words, "settings") == "report",
    )
    style: Any = tyro.conf.OmitArgPrefixes if flags else tyro.conf.FlagConversionOff
    kind: Any = dataclasses.make_dataclass(
        "Train",
        [
            ("options", Annotated[style[Options], tyro.conf.arg(name="")]),
            ("settings", Annotated[style[type(default[1])], tyro.conf.arg(name=learner)]),
        ],
        namespace={"__doc__": Options.__doc__},
        frozen=True,
    )
    result = cli.parse(kind, words, prog, kind(*default))
    if result.options.trust:
        cli.trust_files()
    return result.options, result.settings


def options_from_values(values: Mapping[str, object]) -> tuple[Options, LearnerConfig]:
    """Return the options and settings of a training from values by name, as in a file.

    Args:
        values: by name with dashes; ``no-NAME`` of a truth value is the opposite of ``NAME``. What
            is given holds also where it is a default, against the parameters of a ``game`` by name.

    Raises:
        ValueError, SystemExit: as :func:`parse_options`.
    """
    config = load_learner(str(values.get("learner", Options.learner)))
    names = _field_names(Options, config)
    options: dict[str, object] = {}
    for name, value in values.items():
        positive = name.removeprefix("no-")
        if isinstance(value, bool) and name != positive and name.replace("-", "_") not in names:
            options[positive] = not value
        else:
            options[name] = value
    if options.get("game") in cli.PRESETS:
        preset = cli.PRESETS[str(options.pop("game"))]
        given = options
        options = {name.replace("_", "-"): value for name, value in preset.items()}
        options["size"] = "{}x{}".format(*preset["size"])
        if "size" in given:  # another board has its own win length
            del options["win-length"]
        options |= given
    words: list[str] = []
    for name, value in options.items():
        words.append(f"--{name}")
        words += map(str, value) if isinstance(value, list) else [str(value)]
    return parse_options(words, "train.py", flags=False)


def _field_names(*kinds: type[Options | LearnerConfig]) -> set[str]:
    return {field.name for kind in kinds for field in dataclasses.fields(kind)}


def check_settings(words: Sequence[str], learner: str) -> None:
    """Raise Refusal for an option that is a setting of other learners only."""
    options = _field_names(Options, load_learner(learner))
    for word in words:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        setting = name.removeprefix("no_")
        if not word.startswith("--") or {name, setting} & options:
            continue
        owners = [key for key in sorted(LEARNERS) if setting in _field_names(load_learner(key))]
        if owners:
            raise Refusal(f"{learner} has no {word}, which is of {', '.join(owners)}: leave it out")


def default_options(
    learner: str, opponent: str | None = None, *, phantom: bool = False, source: bool = False
) -> tuple[Options, LearnerConfig]:
    """Return the default options and settings of a learner; in self-play those that suit self-play.

    In phantom games, players do not see the same board, so that no learner learns from every ply.

    Args:
        learner: its name.
        opponent: of the training.
        phantom: whether the game is a phantom game.
        source: whether to return the settings of the learner's source, whatever the opponent.

    Raises:
        ValueError: there is no source with settings.
    """
    config = load_learner(learner)
    games = config.games
    openings = ""
    settings: dict[str, Any] = {}
    if source:
        if config.report is None:
            raise Refusal(
                f"{learner} has no report whose settings it could have: leave --settings out"
            )
        settings |= config.report
    elif opponent == SELF:
        games = config.self_play_games
        openings = config.self_play_openings
        settings |= config.self_play
        if phantom:
            settings.pop("backup", None)
    options = Options(
        learner=learner,
        games=games,
        batch=settings.pop("batch", config.batch),
        opponent=config.opponent,
        openings=openings,
        settings="report" if source else "default",
    )
    return options, config(**settings)


def default_folder(options: Options, settings: LearnerConfig) -> Path:
    """Return the default folder of a run: its name distinguishes game, opponent, seed and other
    settings.
    """
    game = options.game()
    parts = [options.learner, game.slug, options.opponent]
    default, default_settings = default_options(
        options.learner, options.opponent, phantom=isinstance(game, PhantomGame)
    )
    names = [field.name for field in dataclasses.fields(settings)]
    parts += changed_values(settings, default_settings, names)
    parts += changed_values(options, default, ("seat", "openings", "games", "batch"))
    return Path("runs") / f"{folder_name(parts)}-seed{options.seed}"


def changed_values(options: object, default: object, names: Sequence[str]) -> list[str]:
    """Return the attributes with these names that differ from the default, as in ``epsilon0.2``."""
    texts = []
    for name in names:
        value = getattr(options, name)
        if value != getattr(default, name):
            text = "x".join(map(str, value)) if isinstance(value, tuple) else value
            texts.append(f"{name}{text}")
    return texts


def folder_name(parts: Sequence[str]) -> str:
    """Return a portable folder name, never ``..``; a hash replaces the rest of a long one."""
    name = re.sub(r"^\.|[^a-zA-Z0-9.-]", "_", "-".join(parts))
    if len(name) > MAX_NAME_LENGTH:
        name = f"{name[:MAX_NAME_LENGTH]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return name
