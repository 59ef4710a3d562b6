from ttt_apps.train import main

main()
