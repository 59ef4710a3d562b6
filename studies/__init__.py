"""Reproductions of published tables and figures, and studies of our own: one file for each
source.
"""

__all__ = ["STUDIES"]

STUDIES: dict[str, str] = {
    "svd-fig4": "studies.svd:Figure4",
    "svd-fig5": "studies.svd:Figure5",
    "svd-table1": "studies.svd:Table1",
    "compression-methods": "studies.compression:Decompositions",
    "learners-optimizer": "studies.learners:Optimizer",
    "learners-cost": "studies.learners:CostOfLearners",
    "learners-naive": "studies.learners:AgainstNaive",
    "learners-qnet": "studies.learners:QLearningAgainstNet",
    "alpha-zero": "studies.alpha_zero:Learning",
    "alpha-zero-ablation": "studies.alpha_zero:Ablation",
    "self-play-holes": "studies.self_play:Holes",
    "tree-random": "studies.trees:RandomPlay",
    "tree-search": "studies.trees:TreeSearch",
    "tree-net": "studies.imitation:ImitationNets",
    "slides-tables": "studies.slides:NetScores",
    "what-games-say": "studies.noise:NoiseOfGames",
    "claims": "studies.claims:Claims",
}
"""Maps a name to "module:class", imported on demand."""
