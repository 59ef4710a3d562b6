@rem a Gomocup engine for Windows: managers need a program whose name begins with pbrain-
@python "%~dp0..\..\play.py" --gomocup --opponent mcts:simulations=20000 %*
