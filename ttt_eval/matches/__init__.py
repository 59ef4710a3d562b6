"""Matches between policies, their logs and openings, and the statistics of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_eval.matches.games import append_games as append_games
    from ttt_eval.matches.games import from_notation as from_notation
    from ttt_eval.matches.games import read_games as read_games
    from ttt_eval.matches.games import to_notation as to_notation
    from ttt_eval.matches.ladder import rate_policy as rate_policy
    from ttt_eval.matches.ladder import read_ladder as read_ladder
    from ttt_eval.matches.match import play_pairs as play_pairs
    from ttt_eval.matches.score import Score as Score
    from ttt_eval.matches.sprt import SPRT as SPRT
    from ttt_eval.matches.sprt import run_sprt as run_sprt
    from ttt_eval.matches.tournament import run_tournament as run_tournament

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
