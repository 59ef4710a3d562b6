"""What people run: parse, build, call, write; nothing else."""
