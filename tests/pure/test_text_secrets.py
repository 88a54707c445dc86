"""Secrets: found in every shape and context, spans exact, harmless lines left alone."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.synthetic_secrets import CONTEXTS, SHAPES, benign, samples
from oncue.text.secrets import find, high_entropy, redact


def made(shape: str, seed: int = 5) -> str:
    return SHAPES[shape][1](random.Random(seed))


def test_D78_credentials_of_40_shapes_in_10_contexts_are_removed() -> None:
    assert len(SHAPES) == 40
    assert len(CONTEXTS) == 10
    everything = samples(seed=20)
    missed = [
        (sample.shape, sample.context)
        for sample in everything
        if any(piece in redact(sample.text) for piece in sample.pieces)
    ]
    assert len(everything) == 400
    assert len(missed) <= 4, missed


def test_D78_harmless_lines_are_left_alone() -> None:
    false = [line for line in benign(seed=20, count=2_000) if find(line)]
    assert len(false) <= 1, false


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_X25_spans_are_exact_and_the_value_is_never_named(shape: str) -> None:
    name, value = SHAPES[shape][0], made(shape)
    text = f"before\nexport {name}='{value}'\nafter\n"
    [secret] = find(text)
    assert text[secret.start : secret.end] in value
    assert len(value) - (secret.end - secret.start) <= len("DefaultEndpointsProtocol=https;") + 30
    cleaned = redact(text)
    assert cleaned.startswith(f"before\nexport {name}='")
    assert cleaned.endswith("'\nafter\n")
    assert f"[secret removed: {secret.rule}]" in cleaned
    assert value[-12:] not in secret.rule


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        ("github", "github-token"), ("aws-secret", "aws-assignment"), ("jwt", "jwt"),
        ("pem-rsa", "private-key"), ("anthropic", "anthropic-key"), ("password", "assignment"),
        ("azure-storage", "azure-connection-string"), ("heroku", "heroku-key"),
    ],
)  # fmt: skip
def test_rules_name_what_was_found(shape: str, rule: str) -> None:
    assert [s.rule for s in find(f"{SHAPES[shape][0]}={made(shape)}")] == [rule]


def test_two_lines_do_not_swallow_each_other() -> None:
    text = f"A={made('github')}\nB_REGION=europe-west\nC={made('npm')}\nD=plain\n"
    assert redact(text) == (
        "A=[secret removed: github-token]\nB_REGION=europe-west\n"
        "C=[secret removed: npm-token]\nD=plain\n"
    )


def test_escaped_line_breaks_do_not_hide_a_beginning() -> None:
    token = made("github")
    for text in (f'"log\\n{token}\\nnext"', f"q=%0A{token}", f"x:{token}", f"({token})"):
        assert token not in redact(text)


def test_headers_flags_and_users() -> None:
    value = made("hex-secret")
    for text in (
        f"Authorization: Bearer {value}",
        f"curl -H 'authorization: token {value}' x",
        f"tool --api-key {value} run",
        f"tool --password={value}",
        f"curl -u admin:{value} https://host",
        f"https://{value}@git.host/x.git",
        f"<password>{value}</password>",
        f"//registry.host/:_authToken={value}",
    ):
        assert value not in redact(text), text


def test_a_private_key_that_was_cut_off_goes_to_its_end() -> None:
    text = "x\n" + made("pem-openssh")[:200]
    assert redact(text) == "x\n[secret removed: private-key]"
    public = text.replace("PRIVATE", "PUBLIC")
    assert redact(public) == public


@pytest.mark.parametrize(
    "text",
    [
        "", "API_KEY=YOUR_API_KEY", "key: sk-...", "OPENAI_API_KEY=${OPENAI_API_KEY}",
        "password = os.environ['DB_PASSWORD']", "token: Optional[str] = None", "ghp_", "sk-",
        "postgres://user:password@localhost/db", "Authorization: Bearer <token>",
        "password: required", "secret_name: db-credentials-2", "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "ghp_" + "x" * 36, "sk-" + "0" * 48, "const token2 = nextToken(stream2)",
        "the password is stored in the vault", "max_tokens=128000", "key-value store",
        "password_hash(8)", "tokenizer: bert-base-uncased2", "[secret removed: github-token]",
    ],
)  # fmt: skip
def test_placeholders_and_code_are_no_secrets(text: str) -> None:
    assert find(text) == []
    assert redact(text) == text


def test_high_entropy_warns_of_unknown_randomness_only() -> None:
    value = "q7" + "Zx9-Kd83hYwP" + "v0LmTr4Bn6Qs2Ej"
    [suspect] = high_entropy(f"the blob {value} here")
    assert suspect.rule == "high-entropy"
    for harmless in ("0123456789abcdef" * 2, "a-long-name-of-a-thing-in-words", made("github")):
        assert high_entropy(harmless) == []


FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from(
            [made("github"), made("npm"), "password=", "token: ", '"', "\\\n", "\n", "://", "@",
             ":", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "eyJ", "a1b2c3d4E5"]
        ),
        st.text(max_size=6),
    ),
    max_size=12,
).map("".join)  # fmt: skip


@given(FRAGMENTS)
def test_spans_are_sorted_disjoint_and_redaction_is_idempotent(text: str) -> None:
    found = find(text)
    assert all(0 <= s.start < s.end <= len(text) for s in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "a", "sk-", "eyJaaaaaaaa.", "password=", "://a:", "-----BEGIN PRIVATE KEY-----", "\\\n",
        "aaaaaa\n", "YWJj", '"\n"', "api_key: a1b2c3d4e5\n", "-----BEGIN RSA ",
    ],
)  # fmt: skip
def test_T9_rules_are_linear_on_a_megabyte(unit: str) -> None:
    redact(unit * (2**20 // len(unit)))
