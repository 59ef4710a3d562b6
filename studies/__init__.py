"""Reproductions of published tables and figures, and studies of our own: one file for each source."""

STUDIES: dict[str, str] = {
    "svd-fig4": "studies.svd:Figure4",
    "svd-fig5": "studies.svd:Figure5",
    "svd-table1": "studies.svd:Table1",
    "compression-methods": "studies.compression:Decompositions",
    "compression-groupings": "studies.compression:Groupings",
    "compression-4x4": "studies.compression:LargeTables",
    "learners-optimizer": "studies.learners:Optimizer",
    "learners-cost": "studies.learners:Cost",
    "learners-naive": "studies.learners:AgainstNaive",
    "learners-qnet": "studies.learners:QLearningAgainstNet",
    "learning-curves": "studies.learners:LearningCurves",
    "alpha-zero": "studies.alpha_zero:Learning",
    "alpha-zero-ablation": "studies.alpha_zero:Ablation",
    "alpha-zero-proved": "studies.alpha_zero:LargeBoards",
    "tree-random": "studies.trees:RandomPlay",
    "tree-search": "studies.trees:TreeSearch",
    "tree-net": "studies.trees:ImitationNets",
    "slides-tables": "studies.slides:NetScores",
    "estimators": "studies.estimators:Estimators",
    "what-games-say": "studies.noise:NoiseOfGames",
    "what-forgetting-costs": "studies.memoryless:Memoryless",
}
"""Maps a name to "module:class", imported on demand."""
