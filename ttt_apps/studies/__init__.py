"""The published tables and figures, and ours: one file for each, with what it takes to have them again."""

STUDIES: dict[str, str] = {
    "learners-optimizer": "ttt_apps.studies.learners_optimizer:STUDY",
    "learners-cost": "ttt_apps.studies.learners_cost:STUDY",
    "learners-naive": "ttt_apps.studies.learners_naive:STUDY",
    "learners-qnet": "ttt_apps.studies.learners_qnet:STUDY",
    "learning-curves": "ttt_apps.studies.learning_curves:STUDY",
}
"""name -> "module:study", imported when asked for"""
