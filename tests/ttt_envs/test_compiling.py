"""Where machine code is kept."""

import importlib.util
import os
import shutil
from pathlib import Path

import numba

from ttt_envs import compiling


def test_in_a_checkout_each_state_of_the_sources_has_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    for package in ("ttt_envs", "learners/deeper"):
        (tmp_path / package).mkdir(parents=True)
    source = tmp_path / "ttt_envs" / "compiling.py"
    shutil.copy(compiling.__file__, source)
    spec = importlib.util.spec_from_file_location("another_checkout", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module._folder_of_checkout() is None  # an installed package lies beside no setup.cfg
    assert numba.config.CACHE_DIR == ""
    (tmp_path / "setup.cfg").touch()
    folders = [module._folder_of_checkout()]
    for text in ("a = 1", "a = 2", "a = 1"):
        (tmp_path / "learners" / "deeper" / "other.py").write_text(text)
        folders.append(module._folder_of_checkout())
    before, first, second, again = folders
    assert first == again
    assert len({before, first, second}) == 3
    assert {Path(folder).parent for folder in folders} == {tmp_path / ".cache" / "numba"}
    spec.loader.exec_module(module)
    assert first == numba.config.CACHE_DIR


def test_a_folder_that_is_named_is_used(fresh, monkeypatch, tmp_path):
    asked = ("import ttt_envs.compiling, numba", "print(numba.config.CACHE_DIR)")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert fresh(*asked).strip() == compiling._folder_of_checkout()
    monkeypatch.setitem(os.environ, "NUMBA_CACHE_DIR", str(tmp_path))
    assert fresh(*asked).strip() == str(tmp_path)
