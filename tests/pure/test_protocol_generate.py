"""The generated files: fresh, valid, and true of what is really sent."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from oncue_protocol import ERRORS, METHODS
from oncue_protocol.converter import unstructure
from oncue_protocol.generate import FOLDER, files
from oncue_protocol.generate import __main__ as command
from oncue_protocol.generate.model import records, words
from oncue_protocol.jsontext import dumps, loads
from protocol_samples import classes, instances

FILES = files()
BUNDLE: dict[str, Any] = json.loads(FILES["oncue.schema.json"])
OPENRPC: dict[str, Any] = json.loads(FILES["openrpc.json"])


@pytest.mark.parametrize("name", FILES)
def test_generated_files_are_fresh(name: str) -> None:
    stale = "stale: run `python -m oncue_protocol.generate`"
    assert (FOLDER / name).read_bytes() == FILES[name].encode(), stale


def test_nothing_else_lies_in_the_folder() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)


def test_the_schema_is_valid_and_complete() -> None:
    Draft202012Validator.check_schema(BUNDLE)
    assert set(BUNDLE["$defs"]) == set(records()) | set(words())
    assert set(BUNDLE["methods"]) == set(METHODS)
    for refers in re.findall(r'"#/\$defs/(\w+)"', FILES["oncue.schema.json"]):
        assert refers in BUNDLE["$defs"]


@pytest.mark.parametrize("cls", classes(), ids=lambda c: c.__name__)
def test_what_is_sent_fits_the_schema(cls: type) -> None:
    validator = validator_of(cls.__name__)

    @settings(max_examples=25, deadline=None)
    @given(instances(cls))
    def fits(value: Any) -> None:
        sent = loads(dumps(unstructure(value)))
        if cls.__name__ == "OncueOptions":
            sent = {k: v for k, v in sent.items() if k != "semantic"}
        validator.validate(sent)

    fits()


def validator_of(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": BUNDLE["$defs"]})


@pytest.mark.parametrize(
    ("name", "sent", "works"),
    [
        ("RecallPollParams", {"sessionId": "s", "point": "userQuery"}, True),
        ("RecallPollParams", {"sessionId": "s", "point": "userQuery", "lane": None}, True),
        ("RecallPollParams", {"sessionId": "s", "point": "userQuery", "extra": 1}, True),
        ("RecallPollParams", {"sessionId": "s", "point": "other"}, False),
        ("RecallPollParams", {"sessionId": "s" * 257, "point": "userQuery"}, False),
        ("RecallPollParams", {"sessionId": "s", "point": "userQuery", "waitMs": -1}, False),
        ("RecallPollParams", {"point": "userQuery"}, False),
        ("InitializeParams", {"processId": None, "initializationOptions": {"oncue": {}}}, True),
        (
            "InitializeParams",
            {"initializationOptions": {"oncue": {"recall": {"maxDocuments": "x"}}}},
            False,
        ),
    ],
)
def test_the_schema_tells_right_from_wrong(name: str, sent: Any, works: bool) -> None:
    assert validator_of(name).is_valid(sent) is works


def test_every_property_has_a_description() -> None:
    for name, schema in BUNDLE["$defs"].items():
        for member, value in schema.get("properties", {}).items():
            assert value["description"], f"{name}.{member}"


def test_the_openrpc_document_is_complete() -> None:
    assert re.fullmatch(r"1\.3\.\d+", OPENRPC["openrpc"])
    assert {"title", "version"} <= set(OPENRPC["info"])
    assert [m["name"] for m in OPENRPC["methods"]] == list(METHODS)
    errors = OPENRPC["components"]["errors"]
    assert {e["code"] for e in errors.values()} == set(ERRORS)
    for method in OPENRPC["methods"]:
        row = METHODS[method["name"]]
        assert method["x-direction"] == row.direction
        assert ("result" in method) == (row.kind == "request")
        assert method["summary"]
        optional = False
        for param in method["params"]:
            assert {"name", "schema", "required", "description"} <= set(param)
            optional = optional or not param["required"]
            assert not (optional and param["required"]), "required ones come first"
        for error in method.get("errors", []):
            assert error["$ref"].removeprefix("#/components/errors/") in errors
    for refers in re.findall(r'"#/components/schemas/(\w+)"', FILES["openrpc.json"]):
        assert refers in OPENRPC["components"]["schemas"]
    Draft202012Validator.check_schema({"$defs": OPENRPC["components"]["schemas"]})


def test_each_error_of_the_table_belongs_to_some_method() -> None:
    used = {
        error["$ref"].rpartition("/")[2]
        for m in OPENRPC["methods"]
        for error in m.get("errors", [])
    }
    wire = {"parseError", "invalidRequest", "methodNotFound"}  # of no method in particular
    assert used | wire == {cls.name for cls in ERRORS.values()}


TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|-?\d+|[{}()\[\]<>:;,=|?]|\s+|(.)',
    re.DOTALL,
)


def test_the_typescript_file_is_well_formed() -> None:
    text = FILES["oncue.ts"]
    code: list[str] = []
    for token in TOKEN.finditer(text):
        assert token[1] is None, f"unexpected {token[1]!r} at {token.start()}"
        if not token[0].isspace() and not token[0].startswith(("//", "/*")):
            code.append(token[0])
    pairs = {"}": "{", "]": "[", ")": "("}
    open_: list[str] = []
    for token_text in code:
        if token_text in pairs.values():
            open_.append(token_text)
        elif token_text in pairs:
            assert open_.pop() == pairs[token_text]
    assert not open_
    declared = re.findall(r"^export (?:interface|type|const) (\w+)", text, re.MULTILINE)
    assert len(declared) == len(set(declared))
    assert set(records()) | set(words()) <= set(declared)
    builtin = {"string", "number", "boolean", "null", "undefined", "key", "member", "params"}
    used = {
        name
        for line in text.splitlines()
        if re.match(r'\s+[\w"/$]+\??: ', line) and not line.lstrip().startswith("/")
        for name in re.findall(r"[A-Za-z]\w*", line.partition(": ")[2])
    }
    assert used - builtin - {"result"} <= set(declared)
    for name in METHODS:
        assert f'"{name}": ' in text


@pytest.mark.skipif(shutil.which("tsc") is None, reason="the TypeScript compiler is not on PATH")
def test_the_typescript_file_compiles(tmp_path: Path) -> None:
    (tmp_path / "oncue.ts").write_text(FILES["oncue.ts"])
    command = ["tsc", "--strict", "--noEmit", "--target", "es2022", "oncue.ts"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


FIELD = re.compile(r'---@field (\w+\??|\["[^"]+"\]) (fun\(.*?\)(?:: \S+)?|table<.*?>|\S+) .+')


def test_the_lua_file_is_well_formed() -> None:
    text = FILES["oncue.lua"]
    declared = set(re.findall(r"^---@(?:class|alias|enum) (oncue\.\w+)", text, re.MULTILINE))
    assert {f"oncue.{name}" for name in (*records(), *words())} <= declared
    code = [line for line in text.splitlines() if line and not line.startswith("--")]
    assert code[0] == "local codes = {"
    assert code[-2:] == ["}", "return codes"]
    assert all(re.fullmatch(r"  \w+ = -?\d+, -- .+", line) for line in code[1:-2])
    for line in text.splitlines():
        if line.startswith("---@field"):
            match = re.fullmatch(
                r'---@field (\w+\??|\["[^"]+"\]) (fun\(.*?\)(?:: \S+)?|table<.*?>|\S+) .+', line
            )
            assert match, line
            for name in re.findall(r"oncue\.\w+", match[2]):
                assert name in declared
    for name in METHODS:
        assert f'["{name}"] fun(' in text


def test_documentation_is_one_line_and_has_no_comment_ends() -> None:
    for record in records().values():
        for text in (record.doc, *(m.doc for m in record.members)):
            assert "\n" not in text
            assert "*/" not in text


def test_the_command_says_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path / "schema")
    monkeypatch.setattr("sys.argv", ["generate", "--check"])
    assert command.main() == 1
    assert "stale: oncue.schema.json" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["generate"])
    assert command.main() == 0
    assert {path.name for path in (tmp_path / "schema").iterdir()} == set(FILES)
    assert command.main() == 0
    assert capsys.readouterr().err.endswith("written: none\n")
