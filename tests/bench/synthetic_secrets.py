"""Credentials and harmless lines, made by a seed: nothing realistic is ever written to a file.

Beginnings are kept in pieces, so that scanners find nothing in this source.
"""

# ruff: noqa: E501 - one shape, one line

from __future__ import annotations

import base64
import random
import string
import textwrap
from collections.abc import Callable

from attrs import frozen

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL = ALNUM + "_-"
B64 = ALNUM + "+/"


@frozen
class Credential:
    shape: str
    name: str
    """What an environment variable with it is called."""
    value: str


@frozen
class Sample:
    shape: str
    context: str
    text: str
    pieces: tuple[str, ...]
    """What must be gone after redaction."""


def _some(chance: random.Random, alphabet: str, count: int) -> str:
    return "".join(chance.choice(alphabet) for _ in range(count))


def _uuid(chance: random.Random) -> str:
    return "-".join(_some(chance, HEX, n) for n in (8, 4, 4, 4, 12))


def _url64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _jwt(r: random.Random) -> str:
    head = _url64('{"alg":"HS256","typ":"JWT"}')
    body = _url64(f'{{"sub":"{_some(r, HEX, 12)}","iat":{r.randrange(10**9)}}}')
    return f"{head}.{body}.{_some(r, URL, 43)}"


def _pem(kind: str) -> Callable[[random.Random], str]:
    def make(r: random.Random) -> str:
        body = textwrap.fill(_some(r, B64, 64 * 6 + 20), 64)
        return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"

    return make


def _password(r: random.Random) -> str:
    value = [r.choice(string.ascii_lowercase), r.choice(string.digits), r.choice("!#%^_+=-")]
    value += [r.choice(ALNUM + "!#%^_+=-") for _ in range(r.randint(9, 17))]
    head, *tail = value
    r.shuffle(tail)
    return head + "".join(tail)


SHAPES: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "github": ("GITHUB_TOKEN", lambda r: r.choice(("gh" "p_", "gh" "o_", "gh" "s_")) + _some(r, ALNUM, 36)),
    "github-fine": ("GH_PAT", lambda r: "github" "_pat_" + _some(r, ALNUM, 22) + "_" + _some(r, ALNUM, 59)),
    "gitlab": ("GITLAB_TOKEN", lambda r: "gl" "pat-" + _some(r, URL, 20)),
    "slack-bot": ("SLACK_TOKEN", lambda r: "xo" "xb-" + _some(r, string.digits, 12) + "-" + _some(r, string.digits, 12) + "-" + _some(r, ALNUM, 24)),
    "slack-webhook": ("SLACK_HOOK", lambda r: "https://hooks.slack" ".com/services/T" + _some(r, UPPER, 9) + "/B" + _some(r, UPPER, 9) + "/" + _some(r, ALNUM, 24)),
    "aws-id": ("AWS_ACCESS_KEY_ID", lambda r: "AK" "IA" + _some(r, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)),
    "aws-secret": ("AWS_SECRET_ACCESS_KEY", lambda r: _some(r, B64, 40)),
    "google": ("GOOGLE_API_KEY", lambda r: "AI" "za" + _some(r, URL, 35)),
    "google-client": ("GOOGLE_CLIENT_SECRET", lambda r: "GOC" "SPX-" + _some(r, URL, 28)),
    "openai-project": ("OPENAI_API_KEY", lambda r: "sk" "-proj-" + _some(r, URL, 100)),
    "openai-classic": ("OPENAI_KEY", lambda r: "sk" "-" + _some(r, ALNUM, 20) + "T3Blb" "kFJ" + _some(r, ALNUM, 20)),
    "anthropic": ("ANTHROPIC_API_KEY", lambda r: "sk" "-ant-api03-" + _some(r, URL, 93) + "AA"),
    "stripe": ("STRIPE_KEY", lambda r: r.choice(("sk", "rk")) + "_li" "ve_" + _some(r, ALNUM, 24)),
    "stripe-webhook": ("STRIPE_WEBHOOK", lambda r: "wh" "sec_" + _some(r, ALNUM, 32)),
    "jwt": ("SESSION", _jwt),
    "pem-rsa": ("TLS_KEY", _pem("RSA " "PRIVATE KEY")),
    "pem-openssh": ("DEPLOY_KEY", _pem("OPENSSH " "PRIVATE KEY")),
    "npm": ("NPM_TOKEN", lambda r: "np" "m_" + _some(r, ALNUM, 36)),
    "pypi": ("TWINE_PASSWORD", lambda r: "py" "pi-AgEIcHlwaS5vcmc" + _some(r, URL, 140)),
    "twilio": ("TWILIO_KEY", lambda r: "S" "K" + _some(r, HEX, 32)),
    "sendgrid": ("SENDGRID_API_KEY", lambda r: "S" "G." + _some(r, URL, 22) + "." + _some(r, URL, 43)),
    "azure-storage": ("AZURE_CONNECTION", lambda r: "DefaultEndpointsProtocol=https;AccountName=st;Account" "Key=" + _some(r, B64, 86) + "=="),
    "azure-client": ("AZURE_CLIENT_SECRET", lambda r: _some(r, ALNUM, 3) + "8" "Q~" + _some(r, ALNUM + "_~.-", 33) + "a"),
    "huggingface": ("HF_TOKEN", lambda r: "h" "f_" + _some(r, string.ascii_letters, 34)),
    "discord-bot": ("DISCORD_TOKEN", lambda r: "M" + _some(r, URL, 25) + "." + _some(r, URL, 6) + "." + _some(r, URL, 37) + "x"),
    "telegram": ("BOT_TOKEN", lambda r: str(r.randrange(10**8, 10**10)) + ":A" "A" + _some(r, URL, 32) + "x"),
    "digitalocean": ("DO_TOKEN", lambda r: "do" "p_v1_" + _some(r, HEX, 64)),
    "heroku": ("HEROKU_API_KEY", _uuid),
    "shopify": ("SHOPIFY_TOKEN", lambda r: "shp" "at_" + _some(r, HEX, 32)),
    "square": ("SQUARE_TOKEN", lambda r: "sq0" "atp-" + _some(r, URL, 21) + "x"),
    "databricks": ("DATABRICKS_TOKEN", lambda r: "da" "pi" + _some(r, HEX, 32)),
    "mailgun": ("MAILGUN_API_KEY", lambda r: "ke" "y-" + _some(r, HEX, 32)),
    "age": ("AGE_KEY", lambda r: "AGE-SECRET" "-KEY-1" + _some(r, UPPER, 58)),
    "atlassian": ("JIRA_TOKEN", lambda r: "ATA" "TT3" + _some(r, URL, 180) + "=" + _some(r, UPPER, 8)),
    "vault": ("VAULT_TOKEN", lambda r: "hv" "s." + _some(r, URL, 90) + "x"),
    "docker": ("DOCKER_PAT", lambda r: "dck" "r_pat_" + _some(r, URL, 26) + "x"),
    "grafana": ("GRAFANA_TOKEN", lambda r: "gl" "sa_" + _some(r, ALNUM, 32) + "_" + _some(r, HEX, 8)),
    "linear": ("LINEAR_API_KEY", lambda r: "lin" "_api_" + _some(r, ALNUM, 40)),
    "password": ("DB_PASSWORD", _password),
    "hex-secret": ("SESSION_SECRET", lambda r: _some(r, HEX, 48)),
}  # fmt: skip


def _url_quoted(value: str) -> str:
    return "".join(c if c in ALNUM + "_-.~" else f"%{ord(c):02X}" for c in value)


def _env(c: Credential, r: random.Random) -> str:
    quoted = f'"{c.value}"' if "\n" in c.value or r.random() < 0.3 else c.value
    return f"SHELL=/bin/bash\nHOME=/home/dev\n{c.name}={quoted}\nLANG=C.UTF-8\n"


def _url(c: Credential, r: random.Random) -> str:
    host = r.choice(("db.internal:5432/app", "git.corp.io/team/repo.git", "queue:5672//"))
    scheme = r.choice(("https", "postgres", "amqp"))
    return f"remote: {scheme}://svc:{_url_quoted(c.value)}@{host} (fetch)"


def _json(c: Credential, _: random.Random) -> str:
    escaped = c.value.replace("\n", "\\n")
    return f'{{"region": "eu-1", "{c.name.lower()}": "{escaped}", "retries": 3}}'


def _yaml(c: Credential, r: random.Random) -> str:
    if "\n" in c.value:
        return f"env:\n  {c.name.lower()}: |\n{textwrap.indent(c.value, '    ')}\n  debug: false\n"
    mark = "" if ":" not in c.value and "#" not in c.value and r.random() < 0.5 else '"'
    return f"env:\n  {c.name.lower()}: {mark}{c.value}{mark}\n  debug: false\n"


def _shell(c: Credential, r: random.Random) -> str:
    if r.random() < 0.5:
        return f"$ export {c.name}='{c.value}' && ./deploy.sh --fast"
    return f'$ {c.name}="{c.value}" python manage.py migrate'


def _python(c: Credential, r: random.Random) -> str:
    marks = '"""' if "\n" in c.value else '"'
    style = r.choice(
        (f"{c.name} = ", f"client = Client({c.name.lower()}=", f'os.environ["{c.name}"] = ')
    )
    return f"import os\n\n{style}{marks}{c.value}{marks}{')' if '(' in style else ''}\n"


def _markdown(c: Credential, _: random.Random) -> str:
    if "\n" in c.value:
        return f"## Access\n\n```\n{c.value}\n```\n\nDo not share.\n"
    return f"- **Access**: set `{c.name}={c.value}` before the first run\n- then `make`\n"


def _log(c: Credential, r: random.Random) -> str:
    value = c.value.replace("\n", "\\n")
    return (
        f"2025-03-{r.randint(10, 28)}T10:11:12.345Z DEBUG http.client [req-{_some(r, HEX, 8)}] "
        f"{c.name.lower()}={value} status=200 took=12ms"
    )


PLAIN: dict[str, Callable[[Credential, random.Random], str]] = {
    "env dump": _env, "url userinfo": _url, "json": _json, "yaml": _yaml, "shell": _shell,
    "python": _python, "markdown": _markdown, "log line": _log,
}  # fmt: skip


def _split(c: Credential, r: random.Random) -> tuple[str, tuple[str, ...]]:
    if "\n" in c.value:
        lines = c.value.split("\n")
        return "\n".join(f"    {line}" for line in lines), tuple(lines)
    at = r.randint(len(c.value) // 2 - 1, len(c.value) // 2 + 1)
    one, two = c.value[:at], c.value[at:]
    style = r.randrange(3)
    if style == 0:
        return f"export {c.name}={one}\\\n{two}\necho done", (one, two)
    if style == 1:
        return f'{c.name} = (\n    "{one}"\n    "{two}"\n)', (one, two)
    return f'const {c.name} = "{one}" +\n  "{two}";', (one, two)


def _base64(c: Credential, r: random.Random) -> tuple[str, tuple[str, ...]]:
    inner = f"{c.name}={c.value}\nREGION=eu-{r.randint(1, 9)}\n"
    encoded = base64.b64encode(inner.encode()).decode()
    if r.random() < 0.5:
        lines = textwrap.wrap(encoded, 76)
        return "Content-Transfer-Encoding: base64\n\n" + "\n".join(lines) + "\n", tuple(lines)
    return f"data:\n  config: {encoded}\n", (encoded,)


CONTEXTS = (*PLAIN, "split over lines", "base64")


def samples(seed: int, shapes: int | None = None) -> list[Sample]:
    """One sample for each shape in each context."""
    chance = random.Random(seed)
    made: list[Sample] = []
    for shape, (name, value) in list(SHAPES.items())[:shapes]:
        for context in CONTEXTS:
            credential = Credential(shape, name, value(chance))
            if context in PLAIN:
                text = PLAIN[context](credential, chance)
                lines = tuple(credential.value.split("\n"))
                pieces = (_url_quoted(credential.value),) if context == "url userinfo" else lines
            elif context == "base64":
                text, pieces = _base64(credential, chance)
            else:
                text, pieces = _split(credential, chance)
            made.append(Sample(shape, context, text, tuple(p for p in pieces if len(p) >= 4)))
    return made


# --- harmless lines ----------------------------------------------------------------------------

_NOUNS = [
    "cache",
    "parcel",
    "router",
    "token",
    "session",
    "worker",
    "index",
    "schema",
    "secret",
    "password",
    "key",
    "user",
    "batch",
]
_VERBS = [
    "load",
    "fetch",
    "parse",
    "reset",
    "merge",
    "drop",
    "build",
    "render",
    "rotate",
    "validate",
    "refresh",
    "read",
]


def _benign(r: random.Random) -> str:
    n, m, v = r.choice(_NOUNS), r.choice(_NOUNS), r.choice(_VERBS)
    sha, short, uuid = _some(r, HEX, 40), _some(r, HEX, 8), _uuid(r)
    integrity = base64.b64encode(r.randbytes(64)).decode()
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + r.randbytes(r.randint(60, 400))).decode()
    make: list[Callable[[], str]] = [
        lambda: f"    {n}_{m} = {v}_{n}({m}_{r.randint(1, 99)}, retries={r.randint(1, 9)})",
        lambda: (
            f"def {v}_{n}(self, {m}: str, token: Token | None = None) -> {n.title()}{m.title()}:"
        ),
        lambda: f"password = get_password('{n}_{m}')",
        lambda: f"api_key = os.environ['{n.upper()}_API_KEY']",
        lambda: f"const token = await {v}Token(session.{n}Id, {{ ttl: {r.randint(10, 9999)} }});",
        lambda: f"token: {n}.token{r.randint(1, 9)},",
        lambda: (
            f"API_KEY={r.choice(['YOUR_API_KEY', '<your-key>', '${API_KEY}', 'changeme', 'xxxxxxxxxxxxxxxx', 'sk-...', '********', 'REPLACE_ME_1'])}"
        ),
        lambda: (
            f"OPENAI_API_KEY=sk-{r.choice(['...', 'your-key-here', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 'proj-...'])}"
        ),
        lambda: (
            f"curl -H 'Authorization: Bearer {r.choice(['$TOKEN', '<token>', 'YOUR_TOKEN', '{{ token }}'])}' https://api.{n}.dev/v{r.randint(1, 4)}"
        ),
        lambda: (
            f"postgres://{r.choice(['user:password', 'postgres:postgres', '$USER:$PASS', 'user:pass', '<user>:<password>'])}@localhost:5432/{n}"
        ),
        lambda: f"https://{n}.example.com:8080/{m}/{uuid}?page={r.randint(1, 99)}#{v}",
        lambda: f"commit {sha}",
        lambda: f"{sha}  {n}/{m}_{v}.py",
        lambda: f"index {short[:7]}..{sha[:7]} 100644",
        lambda: f'      "integrity": "sha512-{integrity}",',
        lambda: (
            f'    "resolved": "https://registry.example.org/{n}/-/{n}-{r.randint(0, 9)}.{r.randint(0, 30)}.{r.randint(0, 9)}.tgz",'
        ),
        lambda: f"    --hash=sha256:{_some(r, HEX, 64)} \\",
        lambda: f"![{n}](data:image/png;base64,{image})",
        lambda: (
            f"2025-03-{r.randint(10, 28)} INFO {n}.{m} request_id={uuid} status={r.choice([200, 404, 500])} took={r.randint(1, 999)}ms"
        ),
        lambda: (
            f"[{r.randint(1, 99)}/{r.randint(100, 200)}] {v} {n}: trace={_some(r, HEX, 32)} span={_some(r, HEX, 16)}"
        ),
        lambda: f'checksum = "{_some(r, HEX, 64)}"',
        lambda: f'etag: W/"{_some(r, HEX, 32)}-gzip"',
        lambda: f"image: registry.example.org/{n}@sha256:{_some(r, HEX, 64)}",
        lambda: f"- The {n} is {v}ed when the {m} expires; see `{v}_{n}` in docs/{m}.md",
        lambda: f"| {n} | {r.randint(1, 10**6)} | {r.random():.4f} | {v} |",
        lambda: (
            f"password: {r.choice(['required', 'string', 'null', 'optional', 'hunter2', 'process.env.DB_PASSWORD', '!vault |', 'str = Field(...)'])}"
        ),
        lambda: f"secret: {n}-{m}-{r.randint(1, 9)}",
        lambda: f"secretName: {n}-tls-{r.randint(1, 20)}",
        lambda: f"token_count: {r.randint(1000, 10**9)}, max_tokens = {r.randint(100, 9999)}",
        lambda: f"primary_key={n}_id, foreign_key: '{m}_{n}_id_{r.randint(1, 99)}'",
        lambda: f"cache_key = f'{n}:{{{m}.id}}:{{version}}:{r.randint(1, 9)}'",
        lambda: (
            f'<input type="password" name="{n}_password" id="pw{r.randint(1, 9)}" autocomplete="off">'
        ),
        lambda: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{_some(r, B64, 43)} dev@{n}",
        lambda: f"-----BEGIN PUBLIC KEY-----{_some(r, B64, 60)}",
        lambda: f"AKIA{'IOSFODNN7EXAMPLE'}",
        lambda: (
            f"{n}Token{m.title()}{v.title()} extends Base{n.title()}<{m.title()}> {{ /* {r.randint(1, 99)} */ }}"
        ),
        lambda: (
            f'File "/usr/lib/python3.11/site-packages/{n}/{m}.py", line {r.randint(1, 999)}, in {v}_{n}'
        ),
        lambda: f"  {r.randint(10**9, 10**10)}:{v}:{n}:{m}",
        lambda: (
            f"Das Passwort: wird nie gespeichert; der {n}-Schlüssel liegt im Tresor {r.randint(1, 99)}."
        ),
        lambda: f"密码：请在 {n} 页面重置，第 {r.randint(1, 99)} 次失败后锁定",
        lambda: (
            f"key-{r.randint(1, 99)}: {v}_{m}; sk-SK locale; pat-{n}; hf_{n}; npm_{v}; xoxb; ghp_"
        ),
        lambda: (
            f"nonce={_some(r, HEX, 24)} cursor={base64.b64encode(f'{n}:{r.randint(1, 10**6)}'.encode()).decode()}"
        ),
        lambda: f"{_some(r, ALNUM, 21)} {_some(r, URL, 32)} {v}",
        lambda: f"UUID('{uuid}'), ObjectId('{_some(r, HEX, 24)}'), '{_some(r, UPPER[:32], 26)}'",
        lambda: f"git clone https://github.com/{n}/{m}.git && cd {m} && git checkout {sha[:12]}",
        lambda: f"export const {n.upper()}_KEY = '{n}.{m}.{v}'; // storage key",
        lambda: f"auth_token = request.headers.get('X-{n.title()}-Token')",
        lambda: f"assert token == tokens[{r.randint(0, 99)}].{n}_token",
        lambda: f"Authorization: Basic {base64.b64encode(b'user:pass').decode()}",
        lambda: f"tokenizer = AutoTokenizer.from_pretrained('{n}/{m}-{r.randint(1, 70)}b')",
    ]
    return r.choice(make)()


def benign(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    return [_benign(chance) for _ in range(count)]
