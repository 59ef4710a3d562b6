"""Games between a person and a policy in the terminal: commands and output."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from baselines.expectiminimax import Search
from ttt_apps.board import ONLY, LiveGame, board_text
from ttt_apps.cli import Stopped, installed_names
from ttt_apps.signals import block_signals
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import parse_spec
from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.random import draw_key
from ttt_envs.envs.config import SeatChoice
from ttt_envs.game.actions import action_to_cell
from ttt_envs.game.boards import COLUMNS, MOVERS, Boards, cell_at, coordinate, winning_line_cells
from ttt_envs.game.game import Game
from ttt_envs.game.rules import legal
from ttt_eval.exact.strength import choice_in
from ttt_eval.matches.account import describe_account, make_account
from ttt_eval.matches.games import HUMAN, MAX_LINE_LENGTH, PlayedGame, append_games
from ttt_eval.matches.luck import EXACT, MAX_CELLS_BY_DEFAULT, make_correction
from ttt_eval.matches.match import StatelessPlayer, make_player

MAX_HINT_NODES = 2_000_000
"""Maximum number of positions of the search for a hint."""
MAX_NAME_LENGTH = 30
"""Maximum length of an opponent's displayed spec string; longer ones are shortened to the name."""
MAX_LISTED_MOVES = 12
"""Maximum number of moves that ``explain`` lists."""


class QuitRequest(Exception):  # noqa: N818  # not an error
    """The person ends the session."""


class NewGameRequest(Exception):  # noqa: N818
    """The person begins another game, and leaves this one unfinished."""


class SessionSettings(NamedTuple):
    """Settings of games between a person and a policy."""

    seat: SeatChoice = "first"
    """the person's"""
    seed: int = 0
    """seed of all random numbers"""
    games: int | None = None
    """number of games; None asks after each"""
    log: Path | None = None
    """file of saved games"""


class TerminalGame:
    """Games between a person and a policy, one after another.

    Args:
        game: the game.
        policy: the opponent.
        name: its spec string.
        console: the output.
        lines: the input.
        settings: the other settings.
    """

    def __init__(
        self,
        game: Game,
        policy: Policy,
        name: str,
        console: Console,
        lines: TextIO,
        settings: SessionSettings,
    ) -> None:
        self.game, self.policy, self.name = game, policy, name
        self.called = name if len(name) <= MAX_NAME_LENGTH else parse_spec(name).name
        self.console, self.lines = console, lines
        self.seat_asked, self.seed, self.games, self.log = settings
        self.score = [0, 0, 0]
        """Numbers of games that the person has won, drawn and lost."""
        self.swapped = False
        self._key = draw_key(np.random.default_rng(self.seed))
        self._settings: dict[str, int] = {}
        self._saved = 0
        self._begin(0)

    @cached_property
    def solution(self) -> Solution | None:
        """The exact values, None where the board is too large."""
        return None if self.game.cells > MAX_SOLVER_CELLS else solve(self.game)

    def run(self) -> None:
        """Play until the person quits.

        Raises:
            Stopped: a signal asked to stop.
        """
        stopped = False
        self.say(f"{self.game}, against {self.name}, seed {self.seed}. Type help for the commands.")
        try:
            while True:
                try:
                    self._play()
                except NewGameRequest:
                    pass
                else:
                    if self.games is not None and sum(self.score) >= self.games:
                        break
                    if self.games is None:
                        self._ask_for_another()
                self._save()
                self._begin(self.live.episode + 1)
        except (QuitRequest, EOFError) as end:
            if isinstance(end, EOFError):
                self.console.print()
        except KeyboardInterrupt:
            stopped = True
        finally:
            try:
                self._save()
            except KeyboardInterrupt:  # closing a terminal ends the input, and may send a signal now
                stopped = True
                self._save()
        if stopped:
            raise Stopped("\n" + self._goodbye())
        self.say(self._goodbye())

    def _goodbye(self) -> str:
        saved = f" {self._saved} saved in {self.log}." if self.log is not None else ""
        return f"Goodbye: you have {self._score_text()}.{saved}"

    def _score_text(self) -> str:
        return "won {}, drawn {} and lost {}".format(*self.score)

    def _begin(self, episode: int) -> None:
        self.live = LiveGame(self.game, self._key, episode)
        of_seat = {"first": 0, "second": 1, "alternate": episode % 2, "random": self.live.random_seat}
        self.seat = of_seat[self.seat_asked] ^ self.swapped
        self.player = make_player(self.policy, self.live.episode_key)
        self.player.begin(ONLY)
        self._settings = {}

    def _played(self) -> PlayedGame:
        players = (HUMAN, self.name) if self.seat == 0 else (self.name, HUMAN)
        return self.live.played(players, self.seed, self._settings)

    def _save(self) -> None:
        """Save the game to the log, unless it is saved or has not begun."""
        if self.log is not None and self.live.plies:
            played = self._played()
            with block_signals():
                append_games(self.log, [played])
                self.live = LiveGame(self.game, self._key, self.live.episode)  # prevents saving it twice
                self._saved += 1

    def _play(self) -> None:
        first = "you are o and move first" if self.seat == 0 else f"you are x, {self.called} moves first"
        self.say(f"\nGame {self.live.episode + 1}: {first}.")
        while self.live.outcome is None:
            if self.live.mover == self.seat:
                self._take_turn()
            else:
                self._reply()
        self.show()
        result = self.live.outcome.result_index(self.seat)
        self.score[result] += 1
        how = ("You win.", "A draw.", f"{self.called} wins.")[result]
        self.say(f"{how} So far you have {self._score_text()}.")
        self._explain_result()
        self._save()

    def _explain_result(self) -> None:
        """Say where the result came from: moves, and the luck of skips."""
        if self.game.cells > MAX_CELLS_BY_DEFAULT:
            return
        correction = make_correction(EXACT, self.game)
        assert correction is not None
        account = make_account(self._played(), correction)
        skips = self.game.skip_chance > 0
        names = ("you", "your moves", f"those of {self.called}")
        self.say(f"By exact values, {describe_account(account, self.seat, names, skips=skips)}.")

    def _ask_for_another(self) -> None:
        while True:
            word = self.ask("Another game? (yes, swap seats, quit)").lower()
            if word and any(answer.startswith(word) for answer in ("no", "exit", "quit")):
                raise QuitRequest
            if any(answer.startswith(word) for answer in ("yes", "new")):
                return
            if "swap".startswith(word):
                self.swapped = not self.swapped
                return
            self.say(f"{word[:20]!a} is no answer: type yes, swap or quit.")

    def _take_turn(self) -> None:
        """Read input until a stone is placed."""
        self.show()
        plies = len(self.live.plies)
        names = [coordinate(cell, self.game) for cell in (0, self.game.cells - 1)]
        first, last = (name[0] if self.game.gravity else name for name in names)
        prompt = f"{MOVERS[self.seat]}, your move ({first} to {last}, or help):"
        while len(self.live.plies) == plies:
            word = self.ask(prompt).lower()
            if not word:
                continue
            command = self._command(word)
            try:
                if command is not None:
                    command(self)
                    if command is TerminalGame.undo:
                        return
                else:
                    self._print_move(self.live.move(self._cell(word)), "you play")
            except ValueError as problem:
                self.say(f"{problem}.")

    def _cell(self, word: str) -> int:
        """Parse a cell from its coordinates or from its number, which is the environments' action.

        With gravity it is the cell where a stone comes to rest in a column, named by its letter or its number.

        Raises:
            ValueError: it names none, or the column is full.
        """
        if self.game.gravity:
            return self._landing_cell(word)
        if not (word.isascii() and word.isdecimal()):
            return cell_at(re.sub(r"^([a-z]) +(\d+)$", r"\1\2", word), self.game)
        last = self.game.cells - 1
        if len(word) > 3 or int(word) > last:
            raise ValueError(
                f"{word[:20]} is no cell of a board of {self.game.rows} x {self.game.columns}: choose 0 to {last}, row "
                f"by row, or coordinates such as {coordinate(last // 2, self.game)}"
            )
        return int(word)

    def _landing_cell(self, word: str) -> int:
        """Parse a column; its lowest empty cell may be named too. See :meth:`_cell`."""
        last = COLUMNS[self.game.columns - 1]
        if word.isascii() and word.isdecimal() and len(word) < 3:
            column = int(word) - 1  # people count columns from 1
        elif self._is_column(word[:1]) and (len(word) == 1 or cell_at(word, self.game) >= 0):
            column = COLUMNS.index(word[0])
        else:
            raise ValueError(f"{word[:20]!a} is no column: choose a to {last}, or 1 to {self.game.columns}")
        if not 0 <= column < self.game.columns:
            raise ValueError(f"{word} is no column: choose a to {last}, or 1 to {self.game.columns}")
        cell = action_to_cell(self.game, self.live.cells, column)
        if len(word) > 1 and word[0] in COLUMNS and cell_at(word, self.game) != cell:
            raise ValueError(
                f"a stone in column {word[0]} comes to rest on {coordinate(cell, self.game)}: type {word[0]}"
            )
        return cell

    def _is_column(self, word: str) -> bool:
        return self.game.gravity and len(word) == 1 and word in COLUMNS[: self.game.columns]

    def _command(self, word: str) -> Callable[[TerminalGame], None] | None:
        """Return the command that a word names; None if it should be a move.

        Raises:
            ValueError: it is neither.
        """
        if self._is_column(word):
            return None
        meant = [name for name in COMMANDS if name == word] or [name for name in COMMANDS if name.startswith(word)]
        if word in ("?", "exit"):
            meant = ["help" if word == "?" else "quit"]
        if len(meant) == 1:
            return COMMANDS[meant[0]]
        if len(meant) > 1:
            return lambda _: self.say(f"{word} may be {' or '.join(meant)}: type more of it.")
        if word.isalpha() and len(word) > 2:
            return lambda _: self.say(f"{word[:20]!a} is no move and no command: {closest_names(word, COMMANDS)}")
        return None

    def _reply(self) -> None:
        """Play the opponent's move."""
        with self.thinking(f"{self.called} thinks"):
            action = int(self.player.act(self.live.boards, ONLY, self.live.generator(len(self.live.plies)))[0])
        try:
            ply = self.live.move(action)
        except ValueError:
            raise ValueError(f"{self.name} moved to a cell that is not empty: choose another opponent") from None
        self._print_move(ply, f"{self.called} plays")

    def _print_move(self, ply: Any, who: str) -> None:
        mover = ply.position.mover
        self.say(f"{MOVERS[mover]}: {who} {coordinate(ply.action, self.game)}.")
        if ply.skipped:
            self.say(f"{MOVERS[1 - mover]}'s turn is skipped: {MOVERS[mover]} moves again.")

    def show(self) -> None:
        """Show the board again."""
        line = winning_line_cells(self.game, self.live.cells, self.live.outcome)
        text = board_text(self.game, self.live.cells, self.console.width, self.live.last_cells(), line)
        self.console.print(Text("\n") + text + Text("\n"), soft_wrap=True)
        if (needed := max(map(len, text.plain.splitlines()))) > self.console.width:
            self.say(f"The board takes {needed} columns of the terminal: make it wider.")

    def undo(self) -> None:
        """Take back your last move and all later ones; the same skips will follow."""
        plies = self.live.take_back(self.seat)
        if not plies:
            raise ValueError("you have not moved yet, and nothing can be taken back")
        self.say(f"Taken back: {_join([coordinate(ply.action, self.game) for ply in plies], len(plies))}.")
        self._settings["undone"] = self._settings.get("undone", 0) + 1
        if not isinstance(self.player, StatelessPlayer):  # a stateful player replays its earlier moves
            self.player.begin(ONLY)
            for number, ply in enumerate(self.live.plies):
                if ply.position.mover != self.seat:
                    with self.thinking(f"{self.called} goes back"):
                        self.player.act(Boards.from_positions([ply.position]), ONLY, self.live.generator(number))

    def hint(self) -> None:
        """Show a best move: exact on boards up to 16 cells, else by a search."""
        self._settings["hints"] = self._settings.get("hints", 0) + 1
        if self.game.cells <= MAX_SOLVER_CELLS:
            with self.thinking("solving"):
                assert self.solution is not None
                values = self.solution.action_values(self.live.boards)[0]
            reason = f"is best, with the value {_format_value(np.nanmax(values))} for you"
        else:
            with self.thinking("searching"):
                values, depth = search(self.game, self.live.boards)
            reason = f"is best by a search (expectiminimax) {depth} plies ahead"
        best = self._best(values)
        alike = len(best) == np.count_nonzero(legal(self.game, self.live.cells))
        equal = " All others are as good." if alike and len(best) > 1 else _equal_moves(best)
        self.say(f"{best[0]} {reason}.{equal}")

    def _best(self, values: Float64Array) -> list[str]:
        """Return the names of the moves with the highest value, the one nearest to the middle of the board first."""
        cells = np.flatnonzero(values >= np.nanmax(values) - VALUE_TOLERANCE)
        rows, columns = np.divmod(cells, self.game.columns)
        away = np.hypot(rows - (self.game.rows - 1) / 2, columns - (self.game.columns - 1) / 2)
        return [coordinate(int(cell), self.game) for cell in cells[np.argsort(away, kind="stable")]]

    def explain(self) -> None:
        """Show the opponent's values of your moves, and the exact ones."""
        with self.thinking("asking"):
            seed = int(self.live.episode_key[0]) + len(self.live.plies)
            choice = choice_in(self.policy, self.live.boards, solution=self.solution, seed=seed)
        columns = {"plays it": choice.probabilities, "its value": choice.own, "exact": choice.exact}
        known = {name: values for name, values in columns.items() if values is not None}
        free = np.flatnonzero(self.live.boards.legal(self.game)[0])
        ranks = [choice.own, choice.probabilities, choice.exact]  # the last available one is the primary key
        order = free[np.lexsort([-np.nan_to_num(values[free], nan=-2.0) for values in ranks if values is not None])]
        about = [f"Your moves: how often {self.called} would play each"]
        about += ["its estimate of their value for you"] * ("its value" in known)
        about += ["their exact value, the best with a star"] * ("exact" in known)
        self.say(f"{_join(about)}{'; -1 is lost, 1 is won' if len(known) > 1 else ''}.")
        if len(known) == 1:  # by the probabilities alone, moves of probability 0 are not ordered
            order = order[choice.probabilities[order] > 0]
        lines = [f"{'move':<4}" + "".join(f"{name:>10}" for name in known)]
        for cell in order[:MAX_LISTED_MOVES]:
            words = [f"{choice.probabilities[cell]:.3f}"]
            for name, values in list(known.items())[1:]:
                star = "*" if name == "exact" and values[cell] >= np.nanmax(values) - VALUE_TOLERANCE else " "
                words.append(_format_value(values[cell]) + star)
            lines.append(f"{coordinate(int(cell), self.game):<4}" + "".join(f"{word:>10}" for word in words))
        if len(order) > MAX_LISTED_MOVES:
            lines.append(f"and {len(order) - MAX_LISTED_MOVES} more")
        if len(order) < len(free):
            lines.append(f"none of the other {len(free) - len(order)}")
        self.console.print("\n".join(line.rstrip() for line in lines), soft_wrap=True)
        if not self.policy.pure:
            self.say("It uses random numbers: other calls may give other numbers.")

    def new(self) -> None:
        """Leave this game unfinished and begin another."""
        raise NewGameRequest

    def swap(self) -> None:
        """Do the same as new, with the seats swapped from here on."""
        self.swapped = not self.swapped
        raise NewGameRequest

    def help(self) -> None:
        """List the commands."""
        middle = coordinate(self.game.cells // 2, self.game)
        table = Table.grid(padding=(0, 2))
        about = (
            "Put a stone there: the letter of the column, then the row from the top. Or the number of the cell, row by "
            "row from 0."
        )
        if self.game.gravity:
            middle = COLUMNS[self.game.columns // 2]
            about = "Drop a stone into this column. Or the number of the column, from 1 at the left."
        table.add_row(middle, about)
        for name, command in COMMANDS.items():
            table.add_row(name, " ".join((command.__doc__ or "").split()))
        self.console.print(table)
        self.say("The first letters of a word will do. [x] or a capital is a last move, *x* a line that won.")

    def quit(self) -> None:
        """Stop playing."""
        raise QuitRequest

    def say(self, text: str) -> None:
        """Print a sentence: wrapped on a terminal, unwrapped in a pipe."""
        self.console.print(installed_names(text), soft_wrap=not self.console.is_terminal)

    def ask(self, prompt: str) -> str:
        """Read a stripped input line.

        Raises:
            EOFError: the input has ended.
        """
        self.console.print(prompt, end=" ", soft_wrap=True)
        line = self.lines.readline(MAX_LINE_LENGTH)
        if not line:
            raise EOFError
        end = line
        while not end.endswith("\n") and (end := self.lines.readline(MAX_LINE_LENGTH)):
            pass  # skip the rest of a line that is too long
        if not self.lines.isatty():  # then the terminal has not echoed it
            self.console.print(ascii(line.strip()[:60])[1:-1])
        return line.strip()

    def thinking(self, what: str) -> Status:
        """Return a context that shows activity on a terminal, and nothing elsewhere."""
        return self.console.status(Text(what))


COMMANDS: dict[str, Callable[[TerminalGame], None]] = {
    "undo": TerminalGame.undo,
    "hint": TerminalGame.hint,
    "explain": TerminalGame.explain,
    "board": TerminalGame.show,
    "new": TerminalGame.new,
    "swap": TerminalGame.swap,
    "help": TerminalGame.help,
    "quit": TerminalGame.quit,
}
"""Commands; their docstrings are their help."""


def search(game: Game, boards: Boards) -> tuple[Float64Array, int]:
    """Search one position in bounded time.

    Returns:
        float64[cells], scores of moves, of which the best are exact; and the search depth in plies.
    """
    search = Search(game, boards, every_move=False)
    values, depth = search.move_values[0], 0
    while depth < np.count_nonzero(boards.legal(game)):
        left = MAX_HINT_NODES - int(search.nodes[0])
        if depth and (left <= 0 or not search.run(depth + 1, left)):
            break
        if not depth:
            search.run(1)
        depth += 1
        values = search.move_values[0].copy()
    return values, depth


def _format_value(value: float) -> str:
    return "?" if np.isnan(value) else f"{value + 0.0:+.3f}"


def _equal_moves(best: Sequence[str]) -> str:
    """Return a sentence on the best moves after the first one, empty if there is none."""
    return f" {_join(best[1:])} {'is' if len(best) == 2 else 'are'} as good." if len(best) > 1 else ""


def _join(words: Sequence[str], most: int = 5) -> str:
    """Join words with commas and "and"; count the rest of more than ``most``."""
    if len(words) > most:
        words = [", ".join(words[:most]), f"{len(words) - most} more"]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
