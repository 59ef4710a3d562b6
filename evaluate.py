from ttt_apps.entry import evaluate

evaluate()
