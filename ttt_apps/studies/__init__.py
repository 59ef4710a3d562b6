"""Reproductions of published tables and figures, and studies of our own: one file each."""

STUDIES: dict[str, str] = {
    "svd-fig4": "ttt_apps.studies.svd_fig4:STUDY",
    "svd-fig5": "ttt_apps.studies.svd_fig5:STUDY",
    "svd-table1": "ttt_apps.studies.svd_table1:STUDY",
    "compression-methods": "ttt_apps.studies.compression_methods:STUDY",
    "compression-groupings": "ttt_apps.studies.compression_groupings:STUDY",
    "compression-4x4": "ttt_apps.studies.compression_4x4:STUDY",
    "learners-optimizer": "ttt_apps.studies.learners_optimizer:STUDY",
    "learners-cost": "ttt_apps.studies.learners_cost:STUDY",
    "learners-naive": "ttt_apps.studies.learners_naive:STUDY",
    "learners-qnet": "ttt_apps.studies.learners_qnet:STUDY",
    "learning-curves": "ttt_apps.studies.learning_curves:STUDY",
    "alpha-zero": "ttt_apps.studies.alpha_zero.study:STUDY",
    "tree-random": "ttt_apps.studies.tree_random:STUDY",
    "tree-search": "ttt_apps.studies.tree_search:STUDY",
    "tree-net": "ttt_apps.studies.tree_net:STUDY",
    "slides-tables": "ttt_apps.studies.slides_tables:STUDY",
    "estimators": "ttt_apps.studies.estimators:STUDY",
    "what-games-say": "ttt_apps.studies.what_games_say:STUDY",
    "what-forgetting-costs": "ttt_apps.studies.what_forgetting_costs:STUDY",
}
"""Maps a name to "module:study", imported on demand."""
