"""SIGKILL at every change of a file of a run, played inside the process of the tests.

A kill between two changes leaves on the disk what a kill at the second one leaves. So the changes
are all the instants that there are: files put in place, removed, opened and cut, and lines written,
of which a kill may leave one half.
"""

import io
import os

import pytest

from ttt_apps.training import command as train
from ttt_apps.training import metrics
from ttt_envs.core.files import open_to_write
from ttt_eval.store import result_store


class KilledError(BaseException):
    """In place of the signal; nothing of ours catches it."""


class Disk:
    """Counts the changes of files in a folder; from a given one on nothing reaches the disk."""

    def __init__(self, folder, kill_at=None):
        self.folder = f"{folder}{os.sep}"
        self.kill_at = kill_at
        self.changes = 0

    @property
    def is_dead(self):
        return self.changes == self.kill_at

    def change(self):
        if self.is_dead:
            raise KilledError
        self.changes += 1

    def patch(self, monkeypatch):
        for name, changed in (("replace", 1), ("unlink", 0)):
            monkeypatch.setattr(os, name, self._counted(getattr(os, name), changed))
        monkeypatch.setattr(os, "write", self._counted_write(os.write))
        for module in (metrics, result_store):
            monkeypatch.setattr(
                module, "open_to_write", lambda path: _Lines(open_to_write(path).detach(), self)
            )

    def _counted(self, function, changed):
        def counts(*paths, **options):
            if str(paths[changed]).startswith(self.folder) and os.path.lexists(paths[0]):
                self.change()
            return function(*paths, **options)

        return counts

    def _counted_write(self, write):
        if not os.path.isdir("/proc/self/fd"):  # elsewhere a descriptor does not tell its path
            return write

        def counts(descriptor, content):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(self.folder):
                if self.is_dead:
                    write(descriptor, content[: len(content) // 2])
                self.change()
            return write(descriptor, content)

        return counts


class _Lines(io.BufferedRandom):
    """A file whose changes are counted; all that is written is on the disk at once."""

    def __init__(self, raw, disk):
        super().__init__(raw)
        self._disk = disk

    def _change(self):
        if self._disk.is_dead:
            self.close()
        self._disk.change()

    def write(self, data):
        if self._disk.is_dead:
            super().write(data[: len(data) // 2])
        self._change()
        size = super().write(data)
        self.flush()
        return size

    def truncate(self, size=None):
        self._change()
        return super().truncate(size)


def train_until(kill_at, folder, arguments):
    """Run ``train.py`` as :func:`do_until` does."""
    return do_until(kill_at, folder, lambda: train.main(arguments))


def do_until(kill_at, folder, work):
    """Do work, killed at a change of a file in the folder, or never; the number of changes that it
    made.
    """
    disk = Disk(folder, kill_at)
    with pytest.MonkeyPatch.context() as patch:
        disk.patch(patch)
        if kill_at is None:
            work()
        else:
            with pytest.raises(KilledError):
                work()
    return disk.changes
