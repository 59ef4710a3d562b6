from ttt_apps.evaluate import main

main()
