"""Texts and their counts by two tokenizers (o200k_base, Qwen 3.6), recorded once: the test needs
neither of them."""

# ruff: noqa: E501 - one text, one line

from __future__ import annotations

RECORDED: dict[str, tuple[str, int, int]] = {
    "english": (
        "The importer retries three times before it gives up, and it writes what it could not read into a separate file. Before you change the limits, ask the team that owns the queue: last spring a well-meant change doubled the load on the database for a whole weekend.",
        55,
        55,
    ),
    "german": (
        "Der Import versucht es dreimal, bevor er aufgibt, und schreibt alles Unlesbare in eine eigene Datei. Bevor du die Grenzwerte änderst, frage bitte das Team, dem die Warteschlange gehört: Im Frühjahr hat eine gut gemeinte Änderung die Datenbank ein ganzes Wochenende lang überlastet.",
        67,
        65,
    ),
    "french": (
        "L'importation réessaie trois fois avant d'abandonner, puis elle écrit dans un fichier à part ce qu'elle n'a pas pu lire. Avant de modifier les limites, demandez à l'équipe responsable de la file d'attente.",
        50,
        53,
    ),
    "chinese": (
        "导入程序在放弃之前会重试三次，并把无法读取的内容写入单独的文件。修改限制之前，请先询问负责队列的团队：去年春天，一次善意的改动让数据库的负载在整个周末都翻了一倍。",
        62,
        45,
    ),
    "japanese": (
        "インポーターは諦める前に三回再試行し、読み取れなかった内容を別のファイルに書き出します。制限値を変更する前に、キューを担当しているチームに確認してください。昨年の春は、良かれと思った変更でデータベースの負荷が週末ずっと二倍になりました。",
        86,
        61,
    ),
    "korean": (
        "가져오기 프로그램은 포기하기 전에 세 번 다시 시도하고, 읽지 못한 내용은 별도의 파일에 기록합니다. 제한 값을 바꾸기 전에 대기열을 담당하는 팀에 먼저 물어보세요. 지난봄에는 좋은 뜻으로 한 변경 때문에 주말 내내 데이터베이스 부하가 두 배가 되었습니다.",
        75,
        63,
    ),
    "russian": (
        "Импорт повторяет попытку три раза, прежде чем сдаться, и записывает всё непрочитанное в отдельный файл. Прежде чем менять ограничения, спросите команду, которая отвечает за очередь.",
        43,
        45,
    ),
    "emoji": (
        "🎉 Released! 🚀🚀 Tests are green ✅ and the build is fast 🔥🔥 Thanks all 🙏👏👏 Known issues: 🐛 two, ⚠️ one 😅 See you on Monday 👋😄🎈🎈",
        52,
        65,
    ),
    "python": (
        'def load(path: Path, *, limit: int = 256 * 1024) -> Document | None:\n    """Reads one file; None if it is too large."""\n    raw = path.read_bytes()\n    if len(raw) > limit:\n        log.warning("too_large", path=str(path), size=len(raw))\n        return None\n    return parse(raw.decode("utf-8", "replace"), name=path.stem)\n',
        89,
        98,
    ),
    "typescript": (
        "export async function retry<T>(work: () => Promise<T>, times = 3): Promise<T> {\n  for (let attempt = 1; ; attempt++) {\n    try {\n      return await work();\n    } catch (error) {\n      if (attempt >= times) throw error;\n      await sleep(2 ** attempt * 100);\n    }\n  }\n}\n",
        76,
        88,
    ),
    "json": (
        '{"sessionId": "main-7", "messages": [{"id": "m1", "role": "user", "text": "why is the build slow?"}, {"id": "m2", "role": "assistant", "toolCalls": [{"id": "t1", "name": "shell", "input": {"command": "make -j8"}}]}], "usage": {"inputTokens": 18250, "outputTokens": 412}}',
        98,
        102,
    ),
    "log": (
        "2025-03-11T10:11:12.345Z INFO importer: read 1200 rows in 350 ms (batch 17 of 40)\n2025-03-11T10:11:13.002Z WARN importer: row 1187 has no postal code, skipped\n",
        64,
        91,
    ),
}
"""Name → text, o200k tokens, Qwen tokens."""
