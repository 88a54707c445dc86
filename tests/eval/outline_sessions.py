"""Two short sessions in the words of other agents' tools, in German and Chinese, with questions.

They were written before the outline had seen anything but the demo.
"""

from __future__ import annotations

from outline_questions import Question, _q

from oncue_protocol import Message, ToolCall, ToolResult


class Talk:
    """Writes messages down."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: list[Message] = []

    def _add(self, **members: object) -> None:
        number = len(self.messages)
        time = f"2026-02-03T09:{number // 60:02}:{number % 60:02}Z"
        self.messages.append(
            Message(id=f"{self.name}-{number}", time=time, **members)  # type: ignore[arg-type]
        )

    def user(self, text: str) -> None:
        self._add(role="user", text=text)

    def says(self, text: str) -> None:
        self._add(role="assistant", text=text)

    def does(
        self, tool: str, given: object, out: str, *, fails: bool = False, say: str = ""
    ) -> None:
        call = f"{self.name}-call-{len(self.messages)}"
        self._add(
            role="assistant",
            text=say,
            tool_calls=(ToolCall(id=call, name=tool, input=given),),  # type: ignore[arg-type]
        )
        self._add(role="tool", tool_results=(ToolResult(call_id=call, text=out),))


def german() -> list[Message]:
    """Gemini's tools."""
    t = Talk("de")
    t.user(
        "Der Import der Kundendaten bricht nachts mit einem Fehler ab. Schau dir bitte "
        "jobs/import_kunden.py an. Wichtig: Niemals direkt auf der Produktivdatenbank testen."
    )
    t.does(
        "read_file",
        {"absolute_path": "/srv/portal/jobs/import_kunden.py"},
        "import csv\n\ndef lade_zeilen(pfad):\n    with open(pfad) as datei:\n"
        "        yield from csv.DictReader(datei)\n\ndef importiere(pfad):\n    ...\n",
        say="Ich sehe mir zuerst den Job an.",
    )
    t.does(
        "run_shell_command",
        {"command": "python -m jobs.import_kunden --datei proben/kunden.csv"},
        "Command: python -m jobs.import_kunden\nOutput: Traceback (most recent call last):\n"
        '  File "jobs/import_kunden.py", line 5, in lade_zeilen\n'
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xfc in position 71\nExit Code: 1",
    )
    t.does(
        "replace",
        {
            "file_path": "/srv/portal/jobs/import_kunden.py",
            "old_string": "with open(pfad) as datei:",
            "new_string": 'with open(pfad, encoding="cp1252") as datei:',
        },
        "Successfully modified file",
        say="Die Datei kommt aus einem Windows-Programm und ist in cp1252 kodiert, nicht in UTF-8.",
    )
    t.does(
        "run_shell_command",
        {"command": "python -m jobs.import_kunden --datei proben/kunden.csv"},
        "Output: 1.284 Kunden gelesen, 17 neu\nExit Code: 0",
    )
    t.says(
        "Der Import läuft wieder: Die Datei war in cp1252 kodiert. 1.284 Kunden wurden gelesen, "
        "17 davon sind neu. Soll ich den Job auch für die Lieferanten anpassen?"
    )
    t.user("Ja, aber nimm die Kodierung aus der Konfiguration statt sie fest einzutragen.")
    t.does(
        "write_file",
        {
            "file_path": "/srv/portal/jobs/kodierung.py",
            "content": "def kodierung(quelle: str) -> str:\n    return KONFIG[quelle]\n",
        },
        "Successfully created file",
    )
    t.does(
        "run_shell_command",
        {"command": "pytest tests/test_import.py"},
        "FAILED tests/test_import.py::test_lieferanten - KeyError: 'lieferanten'\n"
        "1 failed, 8 passed in 0.42s\nExit Code: 1",
    )
    t.says(
        "Ein Test schlägt noch fehl: In config/quellen.toml fehlt der Eintrag „lieferanten“. "
        "Den müsste jemand mit Zugriff auf das Repository PORTAL-88 ergänzen."
    )
    return t.messages


GERMAN: tuple[Question, ...] = (
    _q("asked", "Worum ging es zuerst?", "Import der Kundendaten"),
    _q("asked", "Was sollte danach geschehen?", "Kodierung aus der Konfiguration"),
    _q("decided", "Was darf man nie?", "Niemals direkt auf der Produktivdatenbank"),
    _q("decided", "Wie soll es nicht gemacht werden?", "statt sie fest einzutragen"),
    _q("files", "Welche Datei wurde geändert?", "jobs/import_kunden.py", "cp1252"),
    _q("files", "Welche Funktionen gibt es dort?", "lade_zeilen", "importiere"),
    _q("files", "Welche Datei ist neu, womit?", "jobs/kodierung.py", "kodierung"),
    _q("commands", "Wie startet man den Import?", "python -m jobs.import_kunden --datei"),
    _q("commands", "Ging es am Ende?", "2×, 1 failed, last worked"),
    _q("failed", "Was war der Fehler?", "UnicodeDecodeError", "0xfc"),
    _q("failed", "Wie wurde er behoben?", "mended: changed jobs/import_kunden.py"),
    _q("failed", "Welcher Test schlägt noch fehl?", "test_lieferanten", "KeyError"),
    _q("result", "Wie viele Kunden?", "1.284", "17"),
    _q("state", "Was fehlt noch?", "quellen.toml", "lieferanten"),
    _q("state", "Welches Ticket?", "PORTAL-88"),
)


def chinese() -> list[Message]:
    """Codex's tools."""
    t = Talk("zh")
    t.user("登录接口偶尔返回500，请找出原因并修复。不要修改数据库结构。")
    t.does(
        "shell",
        {"command": ["bash", "-lc", "rg -n 'def login' server"], "workdir": "/code/shop"},
        '{"output":"server/auth.py:12:def login(request):\\n","metadata":{"exit_code":0}}',
        say="先找到登录的代码。",
    )
    t.does(
        "shell",
        {"command": ["bash", "-lc", "pytest tests/test_login.py -q"], "workdir": "/code/shop"},
        '{"output":"FAILED tests/test_login.py::test_concurrent - redis.exceptions.ConnectionError:'
        ' max number of clients reached\\n1 failed, 5 passed","metadata":{"exit_code":1}}',
    )
    t.does(
        "apply_patch",
        {
            "input": "*** Begin Patch\n*** Update File: server/auth.py\n@@\n"
            "-    client = redis.Redis()\n+    client = redis.Redis(connection_pool=POOL)\n"
            "*** Add File: server/pool.py\n+def make_pool():\n+    return redis.ConnectionPool(\n"
            "+        max_connections=50)\n*** End Patch"
        },
        "Success. Updated the following files:\nM server/auth.py\nA server/pool.py",
        say="每次登录都新建Redis连接，用完不释放，所以连接数达到上限。改为共用连接池。",
    )
    t.does(
        "shell",
        {"command": ["bash", "-lc", "pytest tests/test_login.py -q"], "workdir": "/code/shop"},
        '{"output":"6 passed in 1.10s","metadata":{"exit_code":0}}',
    )
    t.says(
        "已修复：登录时不再为每个请求新建Redis连接，改用最多50个连接的连接池。测试全部通过（6个）。"
    )
    t.user("以后请用英文写提交信息。现在提交，但是不要推送。")
    t.does(
        "shell",
        {"command": ["bash", "-lc", "git commit -qam 'Share one Redis pool'"]},
        '{"output":"","metadata":{"exit_code":0}}',
    )
    t.says("已提交，没有推送。接下来要不要在预发环境压测？")
    return t.messages


CHINESE: tuple[Question, ...] = (
    _q("asked", "最初的问题是什么？", "登录接口偶尔返回500"),
    _q("asked", "最后要求什么？", "现在提交"),
    _q("decided", "不能改什么？", "不要修改数据库结构"),
    _q("decided", "提交信息用什么语言？", "请用英文写提交信息"),
    _q("decided", "可以推送吗？", "不要推送"),
    _q("files", "改了哪些文件？", "server/auth.py", "server/pool.py"),
    _q("files", "新函数叫什么？", "make_pool"),
    _q("files", "改了什么？", "connection_pool=POOL"),
    _q("commands", "怎么跑测试？", "pytest tests/test_login.py"),
    _q("commands", "怎么提交的？", "git commit -qam"),
    _q("failed", "什么失败了？", "max number of clients reached"),
    _q("failed", "原因是什么？", "不释放"),
    _q("failed", "怎么修好的？", "mended: changed server/auth.py"),
    _q("result", "连接池多大？", "50个连接"),
    _q("state", "现在到哪一步？", "没有推送", "压测"),
)
