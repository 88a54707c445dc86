"""Settings (protocol.md, "Settings"): two kinds, clear errors, the old value stays."""

from __future__ import annotations

from pathlib import Path

import attrs

from oncue.settings import ConnectionSettings, DaemonSettings
from oncue.settings_load import camel, load, read_config, snake, update_connection


def test_settings_a_client_sets_its_own_sections() -> None:
    new, problems = update_connection(
        ConnectionSettings(), {"recall": {"maxDocuments": 3}, "model": {"provider": "client"}}
    )
    assert problems == []
    assert new.recall.max_documents == 3
    assert new.model.provider == "client"


def test_settings_unknown_keys_warn_and_the_rest_is_used() -> None:
    new, problems = update_connection(
        ConnectionSettings(), {"recall": {"maxDocument": 3, "fastDocuments": 1}, "recal": {}}
    )
    assert new.recall.fast_documents == 1
    assert [p.key for p in problems] == ["recall.maxDocument", "recal"]
    assert "maxDocuments" in problems[0].what


def test_settings_a_bad_value_names_the_key_and_the_old_value_stays() -> None:
    old = ConnectionSettings()
    for bad in ("5", True, 5.5, [5], {"a": 1}, 0, 21):
        new, problems = update_connection(old, {"recall": {"maxDocuments": bad}})
        assert new == old
        assert [p.key for p in problems] == ["recall.maxDocuments"], bad
        assert "5 stays" in str(problems[0])
    new, problems = update_connection(old, {"model": {"provider": "magic"}, "recall": 3})
    assert new == old
    assert [p.key for p in problems] == ["model.provider", "recall"]


def test_settings_null_and_absent_are_the_same() -> None:
    given = {"recall": {"maxDocuments": None}, "model": None}
    assert update_connection(ConnectionSettings(), given) == (ConnectionSettings(), [])


def test_settings_a_workspace_can_never_set_endpoints_keys_roots_or_executables() -> None:
    given = {
        "memory": {"trustedRoots": ["/repo"]},
        "store": {"url": "postgres://elsewhere"},
        "semantic": {"path": "/repo/model"},
        "model": {"provider": "http", "baseUrl": "http://evil", "apiKeyEnv": "AWS_SECRET"},
    }
    new, problems = update_connection(ConnectionSettings(), given)
    assert attrs.evolve(new, model=ConnectionSettings().model) == ConnectionSettings()
    assert {p.key for p in problems} == {
        "memory",
        "store",
        "semantic",
        "model.baseUrl",
        "model.apiKeyEnv",
    }


def test_settings_members_of_initialization_options_that_are_no_settings_are_left_alone() -> None:
    given = {"protocolVersions": [1], "notifications": ["recall/ended"], "modelProvider": True}
    assert update_connection(ConnectionSettings(), given) == (ConnectionSettings(), [])


def test_settings_environment_beats_the_configuration_file() -> None:
    config = {"recall": {"maxDocuments": 3, "fastDocuments": 1}, "daemon": {"logLevel": "debug"}}
    settings, problems = load(config, {"ONCUE_RECALL_MAX_DOCUMENTS": "4", "HOME": "/x"})
    assert problems == []
    assert settings.connection.recall.max_documents == 4
    assert settings.connection.recall.fast_documents == 1
    assert settings.daemon.log_level == "debug"


def test_settings_model_endpoint_comes_from_the_users_places() -> None:
    model = {"provider": "http", "baseUrl": "http://127.0.0.1:1", "headers": {"X-A": "b"}}
    settings, problems = load({"model": model}, {})
    assert problems == []
    assert settings.endpoint.base_url == "http://127.0.0.1:1"
    assert settings.endpoint.headers == {"X-A": "b"}
    assert settings.connection.model.provider == "http"
    _, problems = load({"model": {"headers": {"X": 1}, "allowWorkspaces": "all"}}, {})
    assert [p.key for p in problems] == ["model.headers", "model.allowWorkspaces"]


def test_settings_unknown_environment_and_bad_tables_are_named() -> None:
    settings, problems = load({"recall": 1, "colour": {}}, {"ONCUE_COLOUR": "red"})
    assert settings == DaemonSettings()
    assert [p.key for p in problems] == ["recall", "colour", "ONCUE_COLOUR"]


def test_settings_folders_in_the_environment_are_no_settings() -> None:
    assert load({}, {"ONCUE_DATA_DIR": "/d", "ONCUE_STATE_DIR": "/s"}) == (DaemonSettings(), [])


def test_settings_file_absent_broken_or_unreadable(tmp_path: Path) -> None:
    assert read_config(tmp_path) == ({}, [])
    (tmp_path / "config.toml").write_text("[recall]\nmaxDocuments = 3\n")
    assert read_config(tmp_path) == ({"recall": {"maxDocuments": 3}}, [])
    for broken in (b"[recall", b"\xff\xfe"):
        (tmp_path / "config.toml").write_bytes(broken)
        config, problems = read_config(tmp_path)
        assert config == {}
        assert str(tmp_path / "config.toml") in str(problems[0])


def test_settings_names_go_both_ways() -> None:
    for cls in (type(DaemonSettings().memory), type(ConnectionSettings().recall)):
        for a in attrs.fields(cls):
            assert snake(camel(a.name)) == a.name
            assert snake(a.name) == a.name


def test_I27_a_setting_without_effect_is_named_and_one_that_changes_nothing_is_not() -> None:
    given = {"memory": {"recallPastNotes": True, "trashDays": 3}, "semantic": {"provider": "none"}}
    settings, problems = load(given, {})
    assert settings.memory.trash_days == 3
    assert [str(p) for p in problems] == [
        "setting 'memory.recallPastNotes': has no effect in this version yet"
    ]
