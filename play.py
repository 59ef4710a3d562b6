from ttt_apps.play import main

main()
