from ttt_apps.training.command import main

main()
