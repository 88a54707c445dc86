"""Analyzer: text to search terms (memory.md §3).

A term is a lower-case word stem, an identifier or a part of one, or a pair of Han, Kana or Hangul
characters. Terms hold ASCII letters and digits and non-ASCII characters, never white space or
ASCII punctuation, so with FTS5's **`tokenize = 'ascii'`** each term of `prepare` is exactly one
token, byte by byte. (`unicode61` would cut words of scripts with combining marks.) In a MATCH
expression put each term in double quotes; it never holds one.

Stemming is by language: the document's for a document, every plausible one for a query. So give
all fields of one document the language of the whole: `document_language`.

Pure, deterministic, total for any `str`, linear; safe in threads (Snowball's stemmers are not,
so each thread has its own).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import lru_cache

import Stemmer
from attrs import evolve, frozen

from oncue.text.irregular import IRREGULAR
from oncue.text.scripts import HAN, HANGUL, KANA, MARKS, THAI, normalise, without_accents
from oncue.text.stopwords import STOP_PAIRS, STOP_WORDS

MAX_QUERY_WORDS = 64
"""A query is cut to its first and its last 32 words: what is asked stands at one of the ends,
what is pasted between them."""
MAX_TERM = 64
"""Characters of a term: longer runs are data (base64, hashes), found by their beginning."""

_MAX_COMPOUND = 256
_QUERY_END = 8192
"""Characters of a pasted text's two ends in which 32 words are looked for."""
_DETECTION_CHARACTERS = 4096
"""So much of a text tells its language."""

_SNOWBALL = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "fi": "finnish", "fr": "french", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip

# Scripts that stand for one language, as far as stemming is concerned.
_SCRIPT_LANGUAGES = (
    ("ja", re.compile(f"[{KANA}]")),
    ("ko", re.compile(f"[{HANGUL}]")),
    ("zh", re.compile(f"[{HAN}]")),
    ("ru", re.compile("[\u0400-\u052f]")),
    ("el", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("ar", re.compile("[\u0600-\u06ff\u0750-\u077f]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ta", re.compile("[\u0b80-\u0bff]")),
    ("hy", re.compile("[\u0530-\u058f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
)
_PAIRED = frozenset({"ja", "ko", "zh", "th"})
_LATIN_WORD = re.compile(r"[a-z\u00df-\u024f]+")
_LATIN_LETTER = re.compile(r"[A-Za-z\u00c0-\u024f]")

# Letters that hardly any other language of the list writes: worth a stop word each.
_LETTERS = {
    "ß": ("de",), "ä": ("de", "sv", "fi"), "ö": ("de", "sv", "fi", "hu", "tr"),
    "ü": ("de", "hu", "tr"), "å": ("sv", "da", "no"), "ø": ("da", "no"), "æ": ("da", "no"),
    "ñ": ("es",), "¿": ("es",), "ã": ("pt",), "õ": ("pt",), "ç": ("fr", "pt", "tr"),
    "ê": ("fr", "pt"), "è": ("fr", "it"), "ù": ("fr", "it"), "ò": ("it",), "œ": ("fr",),
    "ő": ("hu",), "ű": ("hu",), "ă": ("ro",), "ș": ("ro",), "ț": ("ro",), "ğ": ("tr",),
    "ş": ("tr",), "ı": ("tr",),
}  # fmt: skip

_CJK = f"{HAN}{KANA}{HANGUL}"
_WORD = rf"[^\W_{_CJK}{THAI}]"
# A compound: words joined by what joins them in code, paths, versions and addresses. Words and
# joints have no character in common, so the pattern is linear.
_TOKEN = re.compile(
    rf"(?P<pairs>[{_CJK}]+)"
    rf"|(?P<triples>[{THAI}]+)"
    rf"|(?P<compound>(?:{_WORD}|[{MARKS}])+(?:[_./\\:@~+\-]{{1,3}}(?:{_WORD}|[{MARKS}])+)*)"
)
_JOINT = re.compile(r"[_./\\:@~+\-]+")
_PATH_JOINT = re.compile(r"[/\\]+|://")
_ATOM = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9]+")
_NAMED = re.compile(r"(?<![A-Za-z0-9])(?:([CcFf])#|[Cc]\+\+)(?![A-Za-z0-9])")
_CONTRACTION = re.compile(r"(?<=[a-z])['’](?=(?:s|t|re|ll|ve|d|m)\b)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"(?<=[^\W_])['’]s\b", re.IGNORECASE)
_BRITISH = re.compile(r"(?<=[a-z]{4})is(?=(?:e|es|ed|er|ing|ation|ations)$)")

_FOLDED_STOPS = {
    language: frozenset(words | {without_accents(word) for word in words})
    for language, words in STOP_WORDS.items()
}
_ENGLISH_STOPS = _FOLDED_STOPS["en"]
_NO_STOPS: frozenset[str] = frozenset()


@frozen
class Word:
    """One word of a text."""

    terms: tuple[str, ...]
    """The terms that may stand for it in a document, likeliest first: in a query its stem in each
    plausible language and in English."""
    surface: str
    """As written: lower case, not stemmed."""
    optional: bool = False
    """An identifier or path as a whole, whose parts are words too: no loss if it is missing."""


# --- languages -----------------------------------------------------------------------------------


def detect(text: str) -> str:
    """The language of `text` (ISO 639-1), by its script and its stop words; `en` where nothing
    tells (a lone identifier, numbers, nothing at all)."""
    return _languages(text)[0]


def _languages(text: str) -> list[str]:
    """Plausible languages, best first, at least one. The rest is there for short queries only."""
    sample = normalise(text[:_DETECTION_CHARACTERS])
    latin = len(_LATIN_LETTER.findall(sample))
    for language, pattern in _SCRIPT_LANGUAGES:
        count = len(pattern.findall(sample))
        # One Han character says as much as a word of Latin letters does.
        if count and count * (6 if language in _PAIRED else 1) >= latin:
            return [language]
    lowered = sample.lower()
    words = _LATIN_WORD.findall(lowered)
    votes = dict.fromkeys(_FOLDED_STOPS, 0.0)
    for word in words:
        for language, stops in _FOLDED_STOPS.items():
            if word in stops:
                votes[language] += 1.0
    for letter, languages in _LETTERS.items():
        count = lowered.count(letter)
        for language in languages if count else ():
            votes[language] += min(count, 4) * 0.75
    votes["en"] += 0.5  # the language of code; others must win by more than one shared word
    ranked = sorted(votes, key=lambda language: (-votes[language], language))
    best = votes[ranked[0]]
    near = [language for language in ranked if votes[language] > 0 and votes[language] * 2 >= best]
    return near[:3]


# --- words ---------------------------------------------------------------------------------------

_threads = threading.local()


def _stemmer(language: str) -> Stemmer.Stemmer:
    stemmers: dict[str, Stemmer.Stemmer] | None = getattr(_threads, "stemmers", None)
    if stemmers is None:
        stemmers = _threads.stemmers = {}
    stemmer = stemmers.get(language)
    if stemmer is None:
        stemmer = stemmers[language] = Stemmer.Stemmer(_SNOWBALL[language], 0)
    return stemmer


@lru_cache(maxsize=65_536)
def _word_term(word: str, language: str) -> str:
    """The term of one lower-case word, without accents; empty for a stop word."""
    first = word[0]
    if "\u0400" <= first <= "\u1fff":
        language = _language_of_letter(first)
    elif language not in STOP_WORDS:
        language = "en"
    stops = _FOLDED_STOPS.get(language, _NO_STOPS)
    if word in stops or without_accents(word) in stops:
        return ""
    if language == "en":
        word = without_accents(word)
        word = IRREGULAR.get(word, word)
        word = _BRITISH.sub("iz", word)
    if language in _SNOWBALL:
        word = _stemmer(language).stemWord(word)
    return without_accents(word)[:MAX_TERM]


def _language_of_letter(letter: str) -> str:
    for language, pattern in _SCRIPT_LANGUAGES:
        if pattern.match(letter):
            return language
    return ""


@lru_cache(maxsize=32_768)
def _compound(compound: str, languages: tuple[str, ...]) -> tuple[Word, ...]:
    """The words of a compound: itself as one word, its path segments, its segments, its atoms.
    Joints are left out, so that `event_uid`, `eventUid` and `event-uid` share their whole."""
    segments = _JOINT.split(compound)
    pieces = ["".join(segments)]
    if "/" in compound or "\\" in compound:
        pieces.extend("".join(_JOINT.split(part)) for part in _PATH_JOINT.split(compound))
    wholes = len(pieces)
    pieces.extend(segments)
    pieces.extend(
        atom for segment in segments if segment.isascii() for atom in _ATOM.findall(segment)
    )
    found: dict[str, Word] = {}
    for at, piece in enumerate(pieces):
        word = piece.casefold()[:MAX_TERM]
        if word in found or not word or (len(word) == 1 and not word.isdigit()):
            continue  # a lone letter says nothing
        terms = tuple(dict.fromkeys(_word_term(word, language) for language in languages))
        if terms[0]:  # what is a stop word in the likeliest language is one
            found[word] = Word(tuple(filter(None, terms)), word, at < wholes)
    if len(found) == 1:
        return tuple(evolve(word, optional=False) for word in found.values())
    return tuple(found.values())


def _prose(text: str) -> str:
    """Normalised text with apostrophes and names like C++ resolved."""
    text = normalise(text)
    if "'" in text or "’" in text:
        text = _CONTRACTION.sub("", _POSSESSIVE.sub("", text))
    if "#" in text or "++" in text:
        text = _NAMED.sub(lambda m: f"{m[1]}sharp" if m[1] else "cplusplus", text)
    return text


def _words(text: str, languages: tuple[str, ...]) -> Iterator[Word]:
    """The words of a text in order, stop words left out."""
    for match in _TOKEN.finditer(_prose(text)):
        run = match.group()
        if match.lastgroup == "compound":
            yield from _compound(run[:_MAX_COMPOUND], languages)
            continue
        size = 2 if match.lastgroup == "pairs" else 3
        run = run.casefold()
        if size == 3 and len(run) < size:
            yield Word((run,), run)
        for at in range(len(run) - size + 1):
            piece = run[at : at + size]
            if piece not in STOP_PAIRS:
                yield Word((piece,), piece)


# --- what rooms call -----------------------------------------------------------------------------


def document_language(title: str, description: str, body: str) -> str:
    """The one language in which all fields of a document are analysed, by index and ranker."""
    return detect(f"{title}\n{description}\n{body[:_DETECTION_CHARACTERS]}")


def terms(text: str, language: str | None = None) -> list[str]:
    """The terms of `text` in order, with repetitions. `language`: of its words in Latin letters;
    None: as `detect` says. A single Han, Kana or Hangul character yields nothing."""
    return [word.terms[0] for word in _words(text, (language or detect(text),))]


def prepare(text: str, language: str | None = None) -> str:
    """`terms` joined by spaces: what a column of the FTS5 index holds."""
    return " ".join(terms(text, language))


def document_words(text: str, language: str) -> list[Word]:
    """As `terms`, with the surface of each word."""
    return list(_words(text, (language,)))


def query_words(text: str) -> list[Word]:
    """The words of a query in order, without repetition. At most 64: the first 32 and the last
    32."""
    if len(text) > 2 * _QUERY_END:
        text = f"{text[:_QUERY_END]}\n{text[-_QUERY_END:]}"
    languages = _languages(text)
    if "en" not in languages:
        languages.append("en")
    words = list({word.terms: word for word in _words(text, tuple(languages))}.values())
    if len(words) <= MAX_QUERY_WORDS:
        return words
    half = MAX_QUERY_WORDS // 2
    return words[:half] + words[-half:]


def query_terms(text: str) -> list[str]:
    """All terms of `query_words`, without repetition: what an index is asked for, any of them."""
    return list(dict.fromkeys(term for word in query_words(text) for term in word.terms))
