"""Games between a person and a policy in the terminal: commands and output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from rich.console import Console
from rich.status import Status
from rich.text import Text

from baselines.exact import MAX_SOLVER_CELLS, Optimal, SearchedSolution, Solution, solve
from baselines.exact.optimal import is_searched
from baselines.mcts import MCTS
from ttt_apps.cli.board import ONLY, LiveGame, board_text
from ttt_apps.cli.help import installed_names
from ttt_apps.cli.options import Stopped, facts_table
from ttt_apps.cli.signals import stop_requests
from ttt_envs.agents.policy import Policy, best_moves
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.random import draw_key
from ttt_envs.envs.config import SeatChoice
from ttt_envs.game.actions import action_to_cell, cells_to_actions, legal_actions
from ttt_envs.game.boards import COLUMNS, MOVERS, Boards, cell_at, coordinate, winning_line_cells
from ttt_envs.game.game import Game
from ttt_envs.game.rules import legal
from ttt_eval.matches.account import describe_account, make_account
from ttt_eval.matches.games import HUMAN, Move, PlayedGame, Ply, append_games
from ttt_eval.matches.luck import MAX_CELLS_BY_DEFAULT, LuckCorrection
from ttt_eval.matches.match import StatelessPlayer, make_player
from ttt_eval.puzzles import from_games
from ttt_eval.store.statistics import two_sided_quantile

HINT_SIMULATIONS = 10_000
"""Number of simulations of the search for a hint."""
MAX_SEARCHED_CELLS = 32
"""Maximum number of empty cells at which Connect Four is solved in about a second."""
MAX_MISTAKES = 3
"""Maximum number of the person's mistakes that are named after a game."""


class QuitRequest(Exception):  # noqa: N818  # not an error
    """The person ends the session."""


class NewGameRequest(Exception):  # noqa: N818
    """The person begins another game, and leaves this one unfinished."""


@dataclass(eq=False)
class TerminalGame:
    """Games between a person and a policy, one after another."""

    game: Game
    policy: Policy
    """the opponent"""
    name: str
    """its spec string"""
    console: Console
    """the output"""
    lines: TextIO
    """the input"""
    seat: SeatChoice = "first"
    """the person's"""
    seed: int = 0
    """seed of all random numbers"""
    games: int | None = None
    """number of games; None asks after each"""
    log: Path | None = None
    """file of saved games"""

    def __post_init__(self) -> None:
        self.score = [0, 0, 0]
        """Numbers of games that the person has won, drawn and lost."""
        self.swapped = False
        self._key = draw_key(np.random.default_rng(self.seed))
        self._saved = 0
        self._begin(0)

    @property
    def num_empty(self) -> int:
        """Number of empty cells."""
        return int(np.count_nonzero(self.live.position.cells == 0))

    @property
    def solution(self) -> Solution | None:
        """The exact values, None where they take too long."""
        is_late = is_searched(self.game) and self.num_empty <= MAX_SEARCHED_CELLS
        return solve(self.game) if is_late or self.game.cells <= MAX_SOLVER_CELLS else None

    def run(self) -> None:
        """Play until the person quits.

        Raises:
            Stopped: a signal asked to stop.
        """
        is_stopped = False
        self.say(f"{self.game}, against {self.name}, seed {self.seed}. Type help for the commands.")
        try:
            while True:
                with suppress(NewGameRequest):
                    self._play()
                    if self.games is None:
                        self._ask_for_another()
                    elif sum(self.score) >= self.games:
                        break
                self._save()
                self._begin(self.live.episode + 1)
        except QuitRequest:
            pass
        except KeyboardInterrupt:
            is_stopped = True
        finally:
            try:
                self._save()
            except KeyboardInterrupt:
                # closing a terminal ends the input, and may send a signal now
                is_stopped = True
                self._save()
        if is_stopped:
            with suppress(OSError):  # the terminal may be closed
                self.console.print()
            raise Stopped(self._goodbye())
        self.say(self._goodbye())

    def _goodbye(self) -> str:
        sentence = f" {self._saved} saved in {self.log}." if self.log is not None else ""
        return f"Goodbye: you have {self._score_text()}.{sentence}"

    def _score_text(self) -> str:
        return "won {}, drawn {} and lost {}".format(*self.score)

    def _begin(self, episode: int) -> None:
        self.live = LiveGame(self.game, self._key, episode)
        seats = {"first": 0, "second": 1, "alternate": episode % 2, "random": self.live.random_seat}
        self.own = seats[self.seat] ^ self.swapped
        """the person's seat in this game"""
        self.player = make_player(self.policy, self.game, self.live.episode_key)
        self.player.begin(ONLY)
        self._settings = Counter[str]()

    def _save(self) -> None:
        """Save the game to the log, unless it is saved or has not begun."""
        if self.log is not None and self.live.plies:
            with stop_requests() as requests:
                append_games(self.log, [self._record()])
                # a game without plies is not saved again
                self.live = LiveGame(self.game, self._key, self.live.episode)
                self._saved += 1
            if requests:
                raise KeyboardInterrupt

    def _record(self) -> PlayedGame:
        return PlayedGame(
            self.game,
            (HUMAN, self.name) if self.own == 0 else (self.name, HUMAN),
            tuple(Move(ply.action, ply.skipped) for ply in self.live.plies),
            self.live.outcome,
            seed=self.seed,
            episode=self.live.episode,
            settings=dict(self._settings),
        )

    def _play(self) -> None:
        first = (
            "you are o and move first" if self.own == 0 else f"you are x, {self.name} moves first"
        )
        self.say(f"\nGame {self.live.episode + 1}: {first}.")
        while self.live.outcome is None:
            if self.live.position.mover == self.own:
                self._take_turn()
            else:
                self._reply()
        self.board()
        result = self.live.outcome.result_index(self.own)
        self.score[result] += 1
        verdict = ("You win.", "A draw.", f"{self.name} wins.")[result]
        self.say(f"{verdict} So far you have {self._score_text()}.")
        self._explain_result()
        self._save()

    def _explain_result(self) -> None:
        """Say where the result came from: moves, the luck of skips, and the person's largest
        mistakes.
        """
        if self.game.cells > MAX_CELLS_BY_DEFAULT:
            return
        record = self._record()
        account = make_account(record, LuckCorrection(self.game, Optimal(self.game)))
        skips = self.game.skip_chance > 0
        names = ("you", "your moves", f"those of {self.name}")
        self.say(f"By exact values, {describe_account(account, self.own, names, skips=skips)}.")
        mistakes = sorted(from_games([record], HUMAN), key=lambda mistake: -mistake.loss)
        for mistake in mistakes[:MAX_MISTAKES]:
            move = coordinate(mistake.tempting[0], self.game)
            best = self._best(mistake.values)[0]
            self.say(f"{move} lost {mistake.loss:.2f}; {best} was best.")

    def _ask_for_another(self) -> None:
        while True:
            word = self.ask("Another game? (yes, swap seats, quit)").lower()
            answers = ("yes", "swap", "no", "quit", "exit")
            answer = next((answer for answer in answers if answer.startswith(word)), "")
            if answer in ("no", "quit", "exit"):
                raise QuitRequest
            if answer:
                self.swapped ^= answer == "swap"
                return
            self.say(f"{word[:20]!a} is no answer: type yes, swap or quit.")

    def _take_turn(self) -> None:
        """Read input until a stone is placed, or moves are taken back."""
        self.board()
        plies = len(self.live.plies)
        first, last = (coordinate(cell, self.game) for cell in (0, self.game.cells - 1))
        moves = f"{first[0]} to {last[0]}" if self.game.gravity else f"{first} to {last}"
        while len(self.live.plies) == plies:
            word = self.ask(f"{MOVERS[self.own]}, your move ({moves}, or help):").lower()
            if not word:
                continue
            try:
                command = self._command(word)
                if command is not None:
                    command(self)
                else:
                    self._print_move(self.live.move(self._cell(word)), "you play")
            except ValueError as problem:
                self.say(f"{problem}.")

    def _cell(self, word: str) -> int:
        """Parse a cell from its coordinates or from its number, which is the environments' action.

        With gravity it is the cell where a stone comes to rest in a column: by its letter, by its
        number from 1, or by any of its cells.

        Raises:
            ValueError: it names none, or the column is full.
        """
        if word.isascii() and word.isdecimal() and len(word) <= 3:
            action = self._numbered_action(word)
        else:
            name = re.sub(r"^([a-z]) +(\d+)$", r"\1\2", word)
            if self.game.gravity and len(word) == 1:
                name = f"{word}1"
            action = int(cells_to_actions(self.game, np.array([cell_at(name, self.game)]))[0])
        is_open = legal_actions(self.game, self.live.position.cells)
        if self.game.gravity and not is_open[action]:
            names = ", ".join(COLUMNS[column] for column in np.flatnonzero(is_open))
            raise Refusal(f"column {COLUMNS[action]} is full: choose {names}")
        return action_to_cell(self.game, self.live.position.cells, action)

    def _numbered_action(self, word: str) -> int:
        """Return the action that a number names: people count columns from 1."""
        action = int(word) - self.game.gravity
        last = self.game.cells - 1
        if self.game.gravity and not 0 <= action < self.game.columns:
            raise Refusal(f"{word} is no column: choose 1 to {self.game.columns}, or its letter")
        if action > last:
            raise Refusal(
                f"{word} is no cell: choose 0 to {last}, row by row, or coordinates such as "
                f"{coordinate(last // 2, self.game)}"
            )
        return action

    def _command(self, word: str) -> Callable[[TerminalGame], None] | None:
        """Return the command that a word names; None if it should be a move.

        Raises:
            ValueError: it is neither.
        """
        if self.game.gravity and word in COLUMNS[: self.game.columns]:
            return None
        word = {"?": "help", "exit": "quit"}.get(word, word)
        names = [name for name in COMMANDS if name.startswith(word)]
        if len(names) > 1:
            raise Refusal(f"{word} may be {' or '.join(names)}: type more of it")
        if not names and word.isalpha() and len(word) > 2:
            raise Refusal(f"{word[:20]!a} is no move and no command: type help for the commands")
        return COMMANDS[names[0]] if names else None

    def _reply(self) -> None:
        """Play the opponent's move."""
        with self.thinking(f"{self.name} thinks") as status:
            self._announce_search(status)
            rng = self.live.generator(len(self.live.plies))
            [action] = self.player.act(self.live.boards, ONLY, rng).tolist()
        try:
            ply = self.live.move(action)
        except ValueError:
            raise Refusal(
                f"{self.name} moved to a cell that is not empty: choose another opponent"
            ) from None
        self._print_move(ply, f"{self.name} plays")

    def _announce_search(self, status: Status) -> None:
        """Say that a search for perfect play takes minutes, and let it show the number of its
        positions.
        """
        if isinstance(self.policy, Optimal) and isinstance(self.policy.solution, SearchedSolution):
            if self.num_empty > MAX_SEARCHED_CELLS:
                self.say(
                    f"{self.name} searches to the end of the game, which takes minutes with few "
                    "stones on it."
                )
            self.policy.solution.solver.progress = lambda nodes: status.update(
                Text(f"{self.name} thinks: {nodes:,} positions")
            )

    def _print_move(self, ply: Ply, player: str) -> None:
        mover = ply.position.mover
        self.say(f"{MOVERS[mover]}: {player} {coordinate(ply.action, self.game)}.")
        if ply.skipped:
            self.say(f"{MOVERS[1 - mover]}'s turn is skipped: {MOVERS[mover]} moves again.")

    def board(self) -> None:
        """Show the board again."""
        line = winning_line_cells(self.game, self.live.position.cells, self.live.outcome)
        text = board_text(self.game, self.live.position.cells, self.live.last_cells(), line)
        self.console.print(Text("\n") + text + Text("\n"), soft_wrap=True)

    def undo(self) -> None:
        """Take back your last move and all later ones; the same skips will follow."""
        plies = self.live.take_back(self.own)
        if not plies:
            raise Refusal("you have not moved yet, and nothing can be taken back")
        self.say(f"Taken back: {', '.join(coordinate(ply.action, self.game) for ply in plies)}.")
        self._settings["undone"] += 1
        if isinstance(self.player, StatelessPlayer):
            return
        # another player makes its moves so far again, in a new game
        self.player.begin(ONLY)
        for number, ply in enumerate(self.live.plies):
            if ply.position.mover != self.own:
                boards = Boards.from_positions([ply.position])
                with self.thinking(f"{self.name} goes back"):
                    self.player.act(boards, ONLY, self.live.generator(number))

    def hint(self) -> None:
        """Show a best move: exact on boards up to 16 cells and late in Connect Four, else that of a
        search.
        """
        self._settings["hints"] += 1
        solution = self.solution
        if solution is None:
            self._hint_by_search()
            return
        with self.thinking("solving"):
            values = solution.action_values(self.live.boards)[0]
        best = self._best(values)
        hint = f"{best[0]} is best, with the value {_format_value(np.nanmax(values))} for you."
        if len(best) > 1:
            are_all = len(best) == np.count_nonzero(~np.isnan(values))
            hint += f" As good: {'all others' if are_all else ', '.join(best[1:6])}."
        self.say(hint)

    def _hint_by_search(self) -> None:
        """Show the move that a search chooses with a 95% interval of its value, and whether another
        may be as good.
        """
        with self.thinking("searching"):
            search = MCTS(self.game, simulations=HINT_SIMULATIONS).analyse(self.live.position)
        visits, values, is_solved = (moves[0] for moves in search.root_moves)
        best = int(np.argmax(search.probabilities()[0]))
        # the variance of results of this mean, as if a win and a loss were added: of a few wins it
        # is not 0
        variance = 1 - (values * visits / (visits + 2)) ** 2
        half_width = np.where(
            is_solved, 0.0, two_sided_quantile(0.95) * np.sqrt(variance / np.maximum(visits, 1))
        )
        is_rival = legal(self.game, self.live.position.cells) & ~(
            values[best] - values > np.hypot(half_width, half_width[best])
        )
        num_rivals = np.count_nonzero(is_rival) - 1
        is_proved = is_solved[best] and (values[best] == 1 or is_solved[is_rival].all())
        name = coordinate(best, self.game)
        value = f"the value {values[best]:+.3f}"
        if not is_solved[best]:
            low = values[best] - half_width[best]
            value += f" (95%: {low:+.3f} to {values[best] + half_width[best]:+.3f})"
        if is_proved or num_rivals == 0:
            self.say(
                f"{name} is best by a search of {HINT_SIMULATIONS:,} games, with {value} for you."
            )
        else:
            self.say(
                f"A search of {HINT_SIMULATIONS:,} games decides nothing: {name} has {value} for "
                f"you, and {num_rivals} of the other moves may be as good."
            )

    def _best(self, values: Float64Array) -> list[str]:
        """Return the names of the moves with the highest value, the one nearest to the middle of
        the board first.
        """
        cells = best_moves(values)
        rows, columns = np.divmod(cells, self.game.columns)
        away = np.hypot(rows - (self.game.rows - 1) / 2, columns - (self.game.columns - 1) / 2)
        return [coordinate(int(cell), self.game) for cell in cells[np.argsort(away, kind="stable")]]

    def new(self) -> None:
        """Leave this game unfinished and begin another."""
        raise NewGameRequest

    def swap(self) -> None:
        """Do the same as new, with the seats swapped from here on."""
        self.swapped = not self.swapped
        raise NewGameRequest

    def help(self) -> None:
        """List the commands."""
        summary = (
            "Put a stone there: the column, then the row from the top. Or the cell's number, row "
            "by row from 0."
        )
        if self.game.gravity:
            summary = (
                "Drop a stone into the column of this cell. Or the number of the column, from 1 at "
                "the left."
            )
        words = {coordinate(self.game.cells // 2, self.game): summary}
        for name, command in COMMANDS.items():
            words[name] = " ".join((command.__doc__ or "").split())
        self.console.print(facts_table(words))
        self.say("The first letters of a word will do. [x] is a last move, *x* a line that won.")

    def quit(self) -> None:
        """Stop playing."""
        raise QuitRequest

    def say(self, text: str) -> None:
        """Print a sentence: wrapped on a terminal, unwrapped in a pipe."""
        self.console.print(installed_names(text), soft_wrap=not self.console.is_terminal)

    def ask(self, prompt: str) -> str:
        """Read a stripped input line.

        Raises:
            QuitRequest: the input has ended.
        """
        self.console.print(prompt, end=" ", soft_wrap=True)
        line = self.lines.readline()
        if not line:  # the input has ended, in the line of the question
            self.console.print()
            raise QuitRequest
        if not self.lines.isatty():  # then the terminal has not echoed it
            self.console.print(ascii(line.strip()[:60])[1:-1])
        return line.strip()

    def thinking(self, text: str) -> Status:
        """Return a context that shows activity on a terminal, and nothing elsewhere."""
        return self.console.status(Text(text))


COMMANDS: dict[str, Callable[[TerminalGame], None]] = {
    name: getattr(TerminalGame, name)
    for name in ("undo", "hint", "board", "new", "swap", "help", "quit")
}
"""Commands; their docstrings are their help."""


def _format_value(value: float) -> str:
    return "?" if np.isnan(value) else f"{value + 0.0:+.3f}"
