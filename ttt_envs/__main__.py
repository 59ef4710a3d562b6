"""``python -m ttt_envs``: the version, and the commands of the installed package."""

from ttt_envs.version import __version__

if __name__ == "__main__":
    print(f"ttt_envs {__version__}")
    print(
        "ttt-train trains a learner, ttt-evaluate measures policies, and ttt-play plays; all have "
        "--help"
    )
