"""One id for one workspace, however it is spelled (M2, D59), and the folders (protocol.md)."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from oncue.folders import Folders
from oncue.memory import workspace as module
from oncue.memory.workspace import key_of, local_path, resolve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "Café Projekt %20 [x]"
    made.mkdir()
    return made


def test_D59_spellings_of_one_folder_are_one_project(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    (tmp_path / "links").symlink_to(tmp_path)
    text = str(folder)
    spellings = [
        text,
        text + "/",
        text + "//",
        text + "/.",
        text.replace("/", "//"),
        f"{tmp_path}/x/../{folder.name}",
        folder.as_uri(),
        folder.as_uri() + "/",
        folder.as_uri().replace("file://", "FILE://localhost"),
        folder.as_uri().replace("file://", "file:"),
        str(link),
        f"{link}/",
        link.as_uri(),
        str(tmp_path / "links" / folder.name),
    ]
    keys = {resolve(spelling).key for spelling in spellings}
    assert len(keys) == 1
    assert None not in keys
    assert resolve(text).path == text


def test_D59_drive_letters_in_every_spelling() -> None:
    spellings = [
        "C:\\Users\\Me\\Proj",
        "c:\\users\\me\\proj\\",
        "C:/Users/Me/Proj",
        "c:/Users/Me/Proj/",
        "\\\\?\\C:\\Users\\Me\\Proj",
        "//?/c:/Users/Me/Proj",
        "file:///C:/Users/Me/Proj",
        "file:///c%3A/Users/Me/Proj",
        "file:///c%3a/users/me/proj/",
        "/mnt/c/Users/Me/Proj",
        "/mnt/c/users/me/proj/",
    ]
    assert len({resolve(spelling).key for spelling in spellings}) == 1
    assert resolve("D:\\Users\\Me\\Proj").key != resolve("C:\\Users\\Me\\Proj").key


def test_D59_case_matters_where_the_file_system_says_so(tmp_path: Path) -> None:
    (tmp_path / "Proj").mkdir()
    (tmp_path / "proj").mkdir()
    assert resolve(str(tmp_path / "Proj")).key != resolve(str(tmp_path / "proj")).key


def test_D59_case_is_folded_where_the_file_system_folds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Proj" / "Sub").mkdir(parents=True)
    real = os.lstat

    def folding(path: str) -> os.stat_result:
        head, _, tail = str(path).partition(str(tmp_path))
        return real(str(tmp_path) + tail.title() if not head and tail else path)

    monkeypatch.setattr(module.os, "lstat", folding)
    monkeypatch.setattr(module.os.path, "realpath", lambda path: path.rstrip("/"))
    here = f"{tmp_path}/Proj/Sub"
    assert resolve(here).key == resolve(here.replace("Proj", "PROJ")).key
    assert resolve(here).key == resolve(here.replace("Sub", "sub")).key


def test_D59_composed_and_decomposed_names_are_one(tmp_path: Path) -> None:
    composed = str(tmp_path / unicodedata.normalize("NFC", "Café"))
    decomposed = str(tmp_path / unicodedata.normalize("NFD", "Café"))
    assert resolve(composed).key == resolve(decomposed).key


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "noWorkspace"),
        ("", "noWorkspace"),
        ("relative/path", "noWorkspace"),
        ("a\0b", "noWorkspace"),
        ("/", "fileSystemRoot"),
        ("//", "fileSystemRoot"),
        ("file:///", "fileSystemRoot"),
        ("C:\\", "fileSystemRoot"),
        ("/tmp/..", "fileSystemRoot"),
        ("untitled:Untitled-1", "noWorkspace"),
        ("vscode-remote://ssh/x", "notAFileUri"),
        ("https://example.org/x", "notAFileUri"),
        ("file:///a%00b", "notAFileUri"),
    ],
)
def test_M2_what_is_no_project(given: str | None, why: str) -> None:
    found = resolve(given)
    assert (found.path, found.key, found.why_none) == (None, None, why)


def test_M2_home_is_no_project_but_folders_in_it_are(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(home)
    assert resolve(str(home), home=str(home)).why_none == "homeFolder"
    assert resolve(f"{home}/", home=str(home)).why_none == "homeFolder"
    assert resolve(str(tmp_path / "alias"), home=str(home)).why_none == "homeFolder"
    assert resolve(str(home), home=str(tmp_path / "alias")).why_none == "homeFolder"
    assert resolve(str(home / "project"), home=str(home)).key is not None


def test_M2_keys_never_change() -> None:
    assert key_of("/home/me/My Project") == "my-project-42276b69d27acc23"
    assert key_of("/srv/日本") == "project-3ff016737174ecec"


def test_M2_key_is_a_plain_folder_name(tmp_path: Path) -> None:
    for name in ("x" * 250, "..x", "con", "a b?c*", "\udcff", "日本語", "-"):
        key = resolve(f"{tmp_path}/{name}").key
        assert key is not None
        assert key.isascii()
        assert len(key) <= 60
        assert "/" not in key
        assert not key.startswith((".", "-"))


def test_D59_unc_paths() -> None:
    assert local_path("\\\\server\\share\\x") == "//server/share/x"
    assert local_path("\\\\?\\UNC\\server\\share\\x") == "//server/share/x"
    assert local_path("file://Server/share/x") == "//server/share/x"


def test_folders_come_from_the_environment_or_platformdirs(tmp_path: Path) -> None:
    chosen = Folders.from_environment(
        {
            "ONCUE_CONFIG_DIR": f"{tmp_path}/c",
            "ONCUE_DATA_DIR": f"{tmp_path}/d",
            "ONCUE_STATE_DIR": f"{tmp_path}/s",
            "ONCUE_RUNTIME_DIR": f"{tmp_path}/r",
        }
    )
    assert [chosen.config, chosen.data, chosen.state, chosen.runtime] == [
        tmp_path / name for name in "cdsr"
    ]
    usual = Folders.from_environment({})
    assert all(path.is_absolute() for path in (usual.config, usual.data, usual.state))


@pytest.mark.parametrize(("mode", "private"), [(0o700, True), (0o777, False), (0o770, False)])
def test_runtime_folder_is_never_where_others_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, private: bool
) -> None:
    place = tmp_path / "run"
    place.mkdir()
    place.chmod(mode)
    monkeypatch.setattr(
        "oncue.folders.platformdirs.user_runtime_dir", lambda *_, **__: str(place / "oncue")
    )
    found = Folders.from_environment({"ONCUE_STATE_DIR": str(tmp_path / "state")})
    assert found.runtime == (place / "oncue" if private else tmp_path / "state")


def test_runtime_folder_without_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "oncue.folders.platformdirs.user_runtime_dir", lambda *_, **__: f"{tmp_path}/no/oncue"
    )
    found = Folders.from_environment({"ONCUE_STATE_DIR": str(tmp_path / "state")})
    assert found.runtime == tmp_path / "state"
