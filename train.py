from ttt_apps.entry import train

train()
