from ttt_apps.entry import play

play()
