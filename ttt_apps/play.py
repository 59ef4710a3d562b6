"""Play in the terminal, and look at games that were played."""

from __future__ import annotations

import dataclasses
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tyro.constructors import PrimitiveConstructorSpec

from baselines.expectiminimax import Search
from baselines.solver import LARGEST, Solution, solve
from evaluation.games import HUMAN, LONGEST, PlayedGame, append_games, read_games, to_notation
from evaluation.match import WithoutMemory, player_of
from evaluation.strength import choice_in
from ttt_apps.board import ONLY, LiveGame, board_text
from ttt_apps.cli import Count, GameOptions, Stopped, as_called, check_seed, parse, run_command, trust_files, words_of
from ttt_envs.boards import MOVERS, Boards, cell_at, coordinate, line_of
from ttt_envs.compiling import Reals
from ttt_envs.lockstep import SeatChoice
from ttt_envs.policy import TIE, Policy
from ttt_envs.rules import DRAW, OPPONENT, Game, key_of
from ttt_envs.specs import make_policy, nearest

PERFECT, SEARCHING = "optimal", "mcts:simulations=2000"
"""who plays where nobody is named: on boards that can be solved, and on larger ones"""
SEARCH_BY_CLOCK = "timed"
"""the same for managers of tournaments, who keep clocks"""
LOOKED_AT = 2_000_000
"""positions that the search for a hint looks at"""
ROWS = 12
"""moves that ``explain`` lists"""
SEEDS = 10**6
EnginePolicy = Annotated[
    str | None,
    PrimitiveConstructorSpec(
        nargs=(0, 1),
        metavar="[POLICY]",
        instance_from_str=lambda words: words[0] if words else SEARCH_BY_CLOCK,
        is_instance=lambda value: value is None or isinstance(value, str),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""a policy that need not be named"""


@dataclass(frozen=True)
class Play(GameOptions):
    """Play in the terminal against anything that plays. In the game, help tells what can be typed."""

    opponent: Annotated[str | None, tyro.conf.arg(metavar="POLICY")] = None
    """a policy, such as random, svd:rank=18 or run:PATH; by default optimal on boards up to 16 cells, and
    mcts:simulations=2000 on larger ones"""
    seat: SeatChoice = "first"
    """yours; alternate begins with the first"""
    games: Count | None = None
    """how many games; by default you are asked after each"""
    seed: Count | None = None
    """of all chance: the same seed and moves give the same game; by default another one each time"""
    log: Path | None = None
    """a file to which games are added when they end"""
    replay: Path | None = None
    """show the games of such a file instead of playing"""
    number: Count | None = None
    """with --replay: show this game move by move, counted from 1"""
    gomocup: EnginePolicy = None
    """be an engine of the Gomocup protocol instead, which a manager of tournaments starts; without a policy timed, a
    search by the manager's times"""
    web: tyro.conf.FlagCreatePairsOff[bool] = False
    """open the explorer, a page in the browser, instead: see --web --help"""

    def run(self, console: Console, lines: TextIO) -> None:
        """Play or show.

        Raises:
            ValueError: options that make no sense.
            Stopped: a signal asked to stop.
        """
        if self.gomocup is not None:
            self._serve(self.gomocup)
            return
        if self.number is not None and (self.replay is None or self.number < 1):
            raise ValueError(f"--number {self.number} names no game: choose 1 or more, with --replay FILE")
        if self.replay is not None:
            replay(console, self.replay, self.number)
            return
        if self.games is not None and self.games < 1:
            raise ValueError(f"--games {self.games} leaves nothing to play: choose 1 or more")
        seed = int(np.random.default_rng().integers(SEEDS)) if self.seed is None else self.seed
        check_seed(seed)
        game = self.game()
        name = self.opponent or (PERFECT if game.cells <= LARGEST else SEARCHING)
        policy = make_policy(name, game)
        if self.log is not None:
            append_games(self.log, [])  # what is wrong with the file is told before anybody has played
        if self.opponent is None:
            why = "plays perfectly" if name == PERFECT else "searches: the board is too large to be solved"
            console.print(f"Nobody is named by --opponent, so it is {name}, which {why}.")
        Sitting(game, policy, name, console, lines, self.seat, seed, self.games, self.log).run()

    def _serve(self, spec: str) -> None:
        """Be an engine.

        Raises:
            ValueError: options that are the manager's to say.
        """
        from ttt_apps.gomocup import serve

        default, others = Play(), ("gomocup", "seed", "trust")
        for field in dataclasses.fields(self):
            if field.name not in others and getattr(self, field.name) != getattr(default, field.name):
                option = f"--{field.name.replace('_', '-')}"
                raise ValueError(f"{option} does nothing with --gomocup: the manager says what is played, leave it out")
        if self.trust:
            trust_files()
        seed = int(np.random.default_rng().integers(SEEDS)) if self.seed is None else self.seed
        check_seed(seed)
        serve(spec, seed)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``ttt-play``."""
    run_command(lambda: _main(words_of(arguments)))


def _main(words: list[str]) -> None:
    if "--web" in words:
        from ttt_apps.explorer.command import main as serve

        serve(words)
        return
    options = parse(Play, words, as_called("play.py"))
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):  # what is typed may be no text, and a terminal may lack letters
            stream.reconfigure(errors="replace")
    with _ended_by_signals():
        options.run(new_console(), sys.stdin)


def new_console(**settings: Any) -> Console:
    """A console that prints what it is given: names may hold anything."""
    return Console(markup=False, highlight=False, emoji=False, **settings)


ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""a request to stop, and a terminal that is closed"""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Other signals end a game as Ctrl-C does, so that it is saved."""
    before: dict[int, Any] = {}

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, stop) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait until it is done."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *ENDS])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Quit(Exception):  # noqa: N818  # nothing is wrong
    """The person has had enough."""


class Anew(Exception):  # noqa: N818
    """The person wants another game, and leaves this one as it is."""


class Sitting:
    """Games between a person and a policy, one after another.

    Args:
        game: what is played.
        policy: the opponent.
        name: its spec string.
        console: what is written to.
        lines: what is typed.
        seat: the person's.
        seed: of all chance.
        games: how many; None asks after each.
        log: where games are saved.
    """

    def __init__(
        self,
        game: Game,
        policy: Policy,
        name: str,
        console: Console,
        lines: TextIO,
        seat: SeatChoice = "first",
        seed: int = 0,
        games: int | None = None,
        log: Path | None = None,
    ) -> None:
        self.game, self.policy, self.name = game, policy, name
        self.console, self.lines = console, lines
        self.seat_asked, self.seed, self.games, self.log = seat, seed, games, log
        self.score = [0, 0, 0]
        """games that the person has won, drawn and lost"""
        self.swapped = False
        self._key = key_of(np.random.default_rng(seed))
        self._settings: dict[str, int] = {}
        self._saved = 0
        self._begin(0)

    @cached_property
    def solution(self) -> Solution | None:
        """The exact values, None where the board is too large."""
        return None if self.game.cells > LARGEST else solve(self.game)

    # -----------------------------------------------------------------------------------------------------------------
    # From the first game to the last

    def run(self) -> None:
        """Play until the person has had enough.

        Raises:
            Stopped: a signal asked to stop.
        """
        stopped = False
        self.say(f"{self.game}, against {self.name}, seed {self.seed}. help tells what can be typed.")
        try:
            while True:
                try:
                    self._play()
                except Anew:
                    pass
                else:
                    if self.games is not None and sum(self.score) >= self.games:
                        break
                    if self.games is None:
                        self._ask_for_another()
                self._save()
                self._begin(self.live.episode + 1)
        except (Quit, EOFError) as end:
            if isinstance(end, EOFError):
                self.console.print()
        except KeyboardInterrupt:
            stopped = True
        finally:
            try:
                self._save()
            except KeyboardInterrupt:  # a terminal that is closed ends the input, and sends a signal just then
                stopped = True
                self._save()
        if stopped:
            raise Stopped("\n" + self._goodbye())
        self.say(self._goodbye())

    def _goodbye(self) -> str:
        won, drawn, lost = self.score
        saved = f" {self._saved} saved in {self.log}." if self.log is not None else ""
        return f"Goodbye: you have won {won}, drawn {drawn} and lost {lost}.{saved}"

    def _begin(self, episode: int) -> None:
        self.live = LiveGame(self.game, self._key, episode)
        of_seat = {"first": 0, "second": 1, "alternate": episode % 2, "random": self.live.random_seat}
        self.seat = of_seat[self.seat_asked] ^ self.swapped
        self.player = player_of(self.policy, self.live.luck)
        self.player.begin(ONLY)
        self._settings = {}

    def _save(self) -> None:
        """Put the game into the log, unless it is there or has not begun."""
        if self.log is not None and self.live.plies:
            players = (HUMAN, self.name) if self.seat == 0 else (self.name, HUMAN)
            played = self.live.played(players, self.seed, self._settings)
            with _undisturbed():
                append_games(self.log, [played])
                self.live = LiveGame(self.game, self._key, self.live.episode)  # saved once
                self._saved += 1

    def _play(self) -> None:
        first = "you are o and move first" if self.seat == 0 else f"you are x, {self.name} moves first"
        self.say(f"\nGame {self.live.episode + 1}: {first}.")
        while self.live.outcome is None:
            if self.live.mover == self.seat:
                self._take_turn()
            else:
                self._reply()
        self._show()
        outcome = self.live.outcome
        result = 1 if outcome == DRAW else 0 if outcome == self.seat else 2
        self.score[result] += 1
        won, drawn, lost = self.score
        how = ("You win.", "A draw.", f"{self.name} wins.")[result]
        self.say(f"{how} So far you have won {won}, drawn {drawn} and lost {lost}.")
        self._save()

    def _ask_for_another(self) -> None:
        while True:
            word = self.ask("Another game? (yes, swap seats, quit)").lower()
            if word and any(each.startswith(word) for each in ("yes", "new")):
                return
            if not word:
                return
            if "swap".startswith(word):
                self.swapped = not self.swapped
                return
            if word in ("no", "n", "exit") or "quit".startswith(word):
                raise Quit
            self.say(f"{word[:20]!a} is no answer: type yes, swap or quit.")

    # -----------------------------------------------------------------------------------------------------------------
    # A turn

    def _take_turn(self) -> None:
        """Read what the person types until a stone is put down."""
        self._show()
        plies = len(self.live.plies)
        last = coordinate(self.game.cells - 1, self.game)
        prompt = f"{MOVERS[self.seat]}, your move (a1 to {last}, or help):"
        while len(self.live.plies) == plies:
            word = self.ask(prompt).lower()
            if not word:
                continue
            command = self._command(word)
            try:
                if command is not None:
                    command(self)
                    if command is Sitting.undo:
                        return
                else:
                    self._tell(self.live.move(self._cell(word)), "you play")
            except ValueError as problem:
                self.say(f"{problem}.")

    def _cell(self, word: str) -> int:
        """The cell that a word names, by its coordinates or by its number, which is the environments' action.

        Raises:
            ValueError: it names none.
        """
        if not (word.isascii() and word.isdecimal()):
            return cell_at(word, self.game)
        last = self.game.cells - 1
        if len(word) > 3 or int(word) > last:
            raise ValueError(
                f"{word[:20]} is no cell of a board of {self.game.rows} x {self.game.columns}: choose 0 to {last}, row "
                f"by row, or coordinates such as {coordinate(last // 2, self.game)}"
            )
        return int(word)

    def _command(self, word: str) -> Callable[[Sitting], None] | None:
        """What a word asks for; None where it should be a move.

        Raises:
            ValueError: it is neither.
        """
        meant = [name for name in COMMANDS if name == word] or [name for name in COMMANDS if name.startswith(word)]
        if word in ("?", "exit"):
            meant = ["help" if word == "?" else "quit"]
        if len(meant) == 1:
            return COMMANDS[meant[0]][0]
        if len(meant) > 1:
            return lambda _: self.say(f"{word} may be {' or '.join(meant)}: type more of it.")
        if word.isalpha() and len(word) > 2:
            return lambda _: self.say(f"{word[:20]!a} is no move and no command: {nearest(word, COMMANDS)}")
        return None

    def _reply(self) -> None:
        """Let the opponent move."""
        with self.thinking(f"{self.name} thinks"):
            action = int(self.player.act(self.live.boards, ONLY, self._rng(len(self.live.plies)))[0])
        try:
            ply = self.live.move(action)
        except ValueError:
            raise ValueError(f"{self.name} moved to a cell that is not empty: it is at fault") from None
        self._tell(ply, f"{self.name} plays")

    def _rng(self, ply: int) -> np.random.Generator:
        """A generator for each ply, so that a game is the same after moves were taken back."""
        return np.random.default_rng([int(self.live.luck[0]), OPPONENT, ply])

    def _tell(self, ply: Any, who: str) -> None:
        mover = ply.position.mover
        self.say(f"{MOVERS[mover]}: {who} {coordinate(ply.action, self.game)}.")
        if ply.skipped:
            self.say(f"{MOVERS[1 - mover]}'s turn is skipped: {MOVERS[mover]} moves again.")

    def _show(self) -> None:
        line = line_of(self.game, self.live.cells, self.live.outcome)
        text = board_text(self.game, self.live.cells, self.console.width, self.live.last_cells(), line)
        self.console.print(Text("\n") + text + Text("\n"), soft_wrap=True)
        if (needed := max(map(len, text.plain.splitlines()))) > self.console.width:
            self.say(f"The board takes {needed} columns of the terminal: make it wider.")

    # -----------------------------------------------------------------------------------------------------------------
    # What can be asked for

    def undo(self) -> None:
        """Take back your last move and what followed; chance will say the same again."""
        plies = self.live.take_back(self.seat)
        if not plies:
            raise ValueError("you have not moved yet, and nothing can be taken back")
        self.say(f"Taken back: {_joined([coordinate(ply.action, self.game) for ply in plies])}.")
        self._settings["undone"] = self._settings.get("undone", 0) + 1
        if not isinstance(self.player, WithoutMemory):  # it thinks again what it thought before
            self.player.begin(ONLY)
            for number, ply in enumerate(self.live.plies):
                if ply.position.mover != self.seat:
                    with self.thinking(f"{self.name} goes back"):
                        self.player.act(Boards.of([ply.position]), ONLY, self._rng(number))

    def hint(self) -> None:
        """A best move: exactly, on boards up to 16 cells, else what a search finds."""
        self._settings["hints"] = self._settings.get("hints", 0) + 1
        if self.game.cells <= LARGEST:
            with self.thinking("solving"):
                assert self.solution is not None
                values = self.solution.action_values(self.live.boards)[0]
            best = self._best(values)
            others = f" {_listed(best[1:])} {'is' if len(best) == 2 else 'are'} as good." if len(best) > 1 else ""
            self.say(f"{best[0]} is best, worth {_number(np.nanmax(values))} to you with perfect play.{others}")
            return
        with self.thinking("searching"):
            values, depth = search(self.game, self.live.boards)
        best = self._best(values)
        others = f" It likes {_listed(best[1:])} as well." if len(best) > 1 else ""
        self.say(f"{best[0]}, says a search (expectiminimax) that looks {depth} plies ahead.{others}")

    def _best(self, values: Reals) -> list[str]:
        """The moves of the highest value by name, the one nearest to the middle of the board first."""
        cells = np.flatnonzero(values >= np.nanmax(values) - TIE)
        rows, columns = np.divmod(cells, self.game.columns)
        away = np.hypot(rows - (self.game.rows - 1) / 2, columns - (self.game.columns - 1) / 2)
        return [coordinate(int(cell), self.game) for cell in cells[np.argsort(away, kind="stable")]]

    def explain(self) -> None:
        """What the opponent thinks of your moves, and what they are worth exactly."""
        with self.thinking("asking"):
            seed = int(self.live.luck[0]) + len(self.live.plies)
            choice = choice_in(self.policy, self.live.boards, solution=self.solution, seed=seed)
        columns = {"it would": choice.probabilities, "it thinks": choice.own, "exactly": choice.exact}
        known = {name: values for name, values in columns.items() if values is not None}
        free = np.flatnonzero(self.live.boards.legal(self.game)[0])
        ranks = [choice.own, choice.probabilities, choice.exact]  # the last of them that is known counts most
        order = free[np.lexsort([-np.nan_to_num(values[free], nan=-2.0) for values in ranks if values is not None])]
        about = [
            f"Your moves, as {self.name} sees them: how likely it would play them",
            "what it thinks they are worth to you" if choice.own is not None else "",
            "what they are worth exactly, the best with a star" if choice.exact is not None else "",
        ]
        self.say(f"{_joined([part for part in about if part])}; from -1, lost, to 1, won.")
        lines = [f"{'move':<4}" + "".join(f"{name:>10}" for name in known)]
        for cell in order[:ROWS]:
            words = []
            for name, values in known.items():
                star = "*" if name == "exactly" and values[cell] >= np.nanmax(values) - TIE else " "
                words.append(f"{values[cell]:.3f}" if name == "it would" else _number(values[cell]) + star)
            lines.append(f"{coordinate(int(cell), self.game):<4}" + "".join(f"{word:>10}" for word in words))
        if len(order) > ROWS:
            lines.append(f"and {len(order) - ROWS} more")
        self.console.print("\n".join(line.rstrip() for line in lines), soft_wrap=True)
        if not self.policy.pure:
            self.say("It draws at random while it thinks: another time it may think otherwise.")

    def show(self) -> None:
        """The board once more."""
        self._show()

    def new(self) -> None:
        """Leave this game unfinished and begin another."""
        raise Anew

    def swap(self) -> None:
        """The same, with the seats swapped from here on."""
        self.swapped = not self.swapped
        raise Anew

    def help(self) -> None:
        """What can be typed."""
        middle = coordinate(self.game.cells // 2, self.game)
        table = Table.grid(padding=(0, 2))
        table.add_row(
            middle,
            "Put a stone there: the letter of the column, then the row from the top. Or the number of the cell, row by "
            "row from 0.",
        )
        for name, (_, what) in COMMANDS.items():
            table.add_row(name, what)
        self.console.print(table)
        self.say("The first letters of a word will do. [x] or a capital is a last move, *x* a line that won.")

    def quit(self) -> None:
        """Stop playing."""
        raise Quit

    # -----------------------------------------------------------------------------------------------------------------
    # Reading and writing

    def say(self, text: str) -> None:
        """Print a sentence: broken between words on a terminal, unbroken where a program reads it."""
        self.console.print(as_called(text), soft_wrap=not self.console.is_terminal)

    def ask(self, prompt: str) -> str:
        """A line that is typed, without the spaces around it.

        Raises:
            EOFError: there are no more.
        """
        self.console.print(prompt, end=" ", soft_wrap=True)
        line = self.lines.readline(LONGEST)
        if not line:
            raise EOFError
        end = line
        while not end.endswith("\n") and (end := self.lines.readline(LONGEST)):
            pass  # the rest of a line that is too long
        if not self.lines.isatty():  # then nobody has seen it
            self.console.print(ascii(line.strip()[:60])[1:-1])
        return line.strip()

    @contextmanager
    def thinking(self, what: str) -> Iterator[None]:
        """A sign of life on a terminal."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(Text(what)):
            yield


COMMANDS: dict[str, tuple[Callable[[Sitting], None], str]] = {
    name: (command, " ".join((command.__doc__ or "").split()))
    for name, command in {
        "undo": Sitting.undo,
        "hint": Sitting.hint,
        "explain": Sitting.explain,
        "board": Sitting.show,
        "new": Sitting.new,
        "swap": Sitting.swap,
        "help": Sitting.help,
        "quit": Sitting.quit,
    }.items()
}
"""what can be typed besides moves, and what it does"""


def search(game: Game, boards: Boards) -> tuple[Reals, int]:
    """What a search finds of one position in bounded time.

    Returns:
        float64[cells], scores of moves of which the best are true; and how many plies it looked ahead.
    """
    search = Search(game, boards, every_move=False)
    values, depth = search.move_values[0], 0
    while depth < np.count_nonzero(boards.legal(game)):
        left = LOOKED_AT - int(search.nodes[0])
        if depth and (left <= 0 or not search.run(depth + 1, left)):
            break
        if not depth:
            search.run(1)
        depth += 1
        values = search.move_values[0].copy()
    return values, depth


def _number(value: float) -> str:
    return "?" if np.isnan(value) else f"{value + 0.0:+.3f}"


def _listed(names: Sequence[str]) -> str:
    few = list(names[:5])
    return _joined(few) if len(names) <= 5 else ", ".join(few) + f" and {len(names) - 5} more"


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def replay(console: Console, path: Path, number: int | None = None) -> None:
    """List the games of a file, or show one of them move by move.

    Raises:
        ValueError: no such file or game.
    """
    count = 0
    for count, played in enumerate(read_games(path, tell=console.print), 1):
        if number is None:
            o, x = played.players
            result = to_notation(played).splitlines()[-1]
            console.print(f"{count}: {played.game}; o {o}, x {x}; {result}, moves: {len(played.moves)}")
        elif count == number:
            _show_moves(console, played)
            return
    if number is not None:
        raise ValueError(f"--number {number} is not in {path}: it has {count} games")
    if not count:
        console.print(f"{path} has no games yet.")


def _show_moves(console: Console, played: PlayedGame) -> None:
    game = played.game
    console.print(to_notation(played), soft_wrap=True)
    end = played.end().cells
    plies = list(played.positions())
    boards = [position.cells for position, _, _ in plies[1:]] + [end]
    for number, ((before, action, skipped), cells) in enumerate(zip(plies, boards, strict=True), 1):
        line = line_of(game, cells, played.result if number == len(plies) and played.forfeit is None else None)
        console.print(f"{number}. {MOVERS[before.mover]} {coordinate(action, game)}{' (skip)' if skipped else ''}")
        console.print(board_text(game, cells, console.width, [action], line) + Text("\n"), soft_wrap=True)


if __name__ == "__main__":
    main()
