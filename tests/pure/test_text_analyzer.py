"""The analyzer: terms of many scripts, identifiers, languages, and hostile text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.text import analyzer
from oncue.text.analyzer import detect, prepare, query_terms, query_words, terms


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Why does the build of the tracker fail after the update?"),
        ("de", "Wie nehme ich eine fehlerhafte Version wieder zurück?"),
        ("fr", "Pourquoi les noms sont-ils coupés sur les feuilles ?"),
        ("es", "¿Por qué la banda sale con deriva y cómo se corrige?"),
        ("it", "Come si avvia il servizio dopo che il contratto è scaduto?"),
        ("pt", "Por que a compilação não funciona depois de uma atualização?"),
        ("nl", "Waarom werkt de bouw niet meer na het bijwerken van een pakket?"),
        ("sv", "Varför fungerar inte bygget efter att jag har uppdaterat det?"),
        ("da", "Hvorfor virker det ikke længere, når jeg har opdateret pakken?"),
        ("no", "Hvorfor virker ikke bygget lenger etter at jeg har oppdatert noe?"),
        ("fi", "Miksi se ei toimi enää kun minä olen päivittänyt paketin?"),
        ("hu", "Miért nem működik már a fordítás, ha van egy új csomag?"),
        ("ro", "De ce nu mai funcționează și cum se poate repara această eroare?"),
        ("tr", "Neden bu artık çalışmıyor ve nasıl düzeltmek için ne yapmak gerekiyor?"),
        ("ru", "Почему не работает кнопка?"),
        ("zh", "上次大促轨迹更新延迟是什么原因？"),
        ("ja", "画面の更新は毎秒何回まで"),
        ("ko", "배포는 언제 하나요"),
        ("el", "Γιατί δεν λειτουργεί"),
        ("zh", "EtaPredictor 的 fallback 应该用哪个值？"),
        ("en", "HX_429_BURST"),
        ("en", ""),
        ("en", "12 34 !?"),
    ],
)
def test_detect(language: str, text: str) -> None:
    assert detect(text) == language


@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("deploying", "deployments", "en"), ("ran", "running", "en"), ("built", "builds", "en"),
        ("indices", "index", "en"), ("behaviour", "behavior", "en"),
        ("serialise", "serialization", "en"), ("calibrates", "calibration", "en"),
        ("Häuser", "Haus", "de"), ("größe", "GROSSE", "de"), ("Zertifikate", "Zertifikat", "de"),
        ("améliorations", "amélioration", "fr"), ("résumé", "resume", "en"),
        ("кнопка", "кнопки", "ru"), ("compilaciones", "compilación", "es"),
        ("ﬁle", "files", "en"), ("Ｆｕｌｌ", "full", "en"), ("cafe\u0301", "café", "en"),
        ("ﾃｽﾄ", "テスト", "ja"), ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글", "ko"),
    ],
)  # fmt: skip
def test_forms_of_a_word_share_their_term(one: str, other: str, language: str) -> None:
    assert terms(one, language) == terms(other, language) != []


def test_identifiers_are_kept_whole_and_split() -> None:
    assert terms("event_uid", "en") == ["eventuid", "event", "uid"]
    assert terms("EventUid", "en") == terms("event-uid", "en") == terms("event_uid", "en")
    assert terms("HX_429_BURST", "en") == ["hx429burst", "hx", "429", "burst"]
    assert terms("HTTPServer", "en") == ["httpserver", "http", "server"]
    found = terms("daemon/oncue/text/analyzer.py", "en")
    assert {"daemon", "oncu", "text", "analyz", "py", "analyzerpi"} <= set(found)
    assert terms("v1.2.3", "en")[0] == "v123"
    assert terms("C++ or C#", "en") == ["cplusplus", "csharp"]


def test_apostrophes() -> None:
    assert terms("don't it's user's", "en") == ["user"]
    assert terms("don’t the users’ file", "en") == ["user", "file"]
    assert terms("l'écran d’accueil", "fr") == ["ecran", "accueil"]


def test_stop_words_are_those_of_the_language() -> None:
    assert terms("the die of the roll", "en") == ["die", "roll"]
    assert terms("die Datei", "de") == ["datei"]
    assert terms("how do I do this", "en") == []


def test_cjk_is_read_in_pairs_and_a_single_character_finds_nothing() -> None:
    assert terms("数据库迁移") == ["数据", "据库", "库迁", "迁移"]
    assert terms("锁") == terms("用 X 锁") == []
    assert terms("再起動") == ["再起", "起動"]
    assert terms("스테이징 서버") == ["스테", "테이", "이징", "서버"]
    assert terms("APIキー") == ["api", "キー"]
    assert terms("什么") == []


def test_other_scripts_are_words() -> None:
    assert terms("שלום עולם") == ["שלום", "עולם"]
    assert len(terms("नमस्ते दुनिया")) == 2
    assert terms("ภาษา") == ["ภาษ", "าษา"]


def test_query_words_stand_for_stems_in_every_plausible_language() -> None:
    [word] = query_words("Änderungen")
    assert word.terms[0] == terms("Änderungen", "de")[0]
    assert terms("Rohdaten", "de")[0] in query_terms("Rohdaten vom Band holen")
    assert terms("orders", "en")[0] in query_terms("welche orders sind kaputt")
    assert [word.optional for word in query_words("event_uid")] == [True, False, False]


def test_a_long_query_keeps_its_first_and_last_32_words() -> None:
    found = query_words(" ".join(f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(200)))
    assert len(found) == analyzer.MAX_QUERY_WORDS == 64
    assert found[0].surface == "wordaa"
    assert found[-1].surface == "wordhr"


@given(st.one_of(st.text(), st.text(alphabet="aZ_0./-' 字かカ한ก\u0301é\0\ud800\u202eß#+C")))
def test_terms_are_total_deterministic_and_single_tokens(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert prepare(text) == " ".join(found)
    query_terms(text)
    for term in found:
        assert 0 < len(term) <= analyzer.MAX_TERM + 8
        assert not any(c.isspace() or (c.isascii() and not c.isalnum()) for c in term)
        term.encode()  # no lone surrogates


@given(st.text(alphabet="aZ_0./- 字かカ한กéß#+C'\u0301\u0627\u064bяП"))
def test_each_term_is_one_token_of_fts5(text: str) -> None:
    database = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE d USING fts5(x, tokenize='ascii')")
    database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(d, 'instance')")
    found = terms(text)
    database.execute("INSERT INTO d VALUES (?)", (" ".join(found),))
    rows = database.execute("SELECT term FROM v ORDER BY offset").fetchall()
    assert [row[0] for row in rows] == found
    for term in found:
        assert database.execute("SELECT 1 FROM d WHERE d MATCH ?", (f'"{term}"',)).fetchall()


def test_threads_get_the_same_terms() -> None:
    text = "Häuser running " + " ".join(f"wording{n}s" for n in range(300))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: terms(f"{text} {n}ers", "de"), range(32)))
    assert all(result[:-3] == results[0][:-3] for result in results)


@pytest.mark.parametrize(
    "unit",
    ["a", " ", "a_", "a'", "é", "\u0301\u0327", "e\u0301", "字", "/a", "aB", "\ud800", "C++ ",
     " the", "\u1100\u1161", "\u202e", "\0", "क\u094d", "ก", "a@", "1."],
)  # fmt: skip
def test_T9_analyzer_is_linear_on_a_megabyte(unit: str) -> None:
    text = unit * (2**20 // len(unit))
    prepare(text)
    query_words(text)
