from ttt_apps.terminal.command import main

main()
