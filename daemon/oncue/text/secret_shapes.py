"""The shapes of credentials that can be told by their own look, as data for `secrets`.

A shape is (rule id, literal beginnings, what follows). What follows is matched right behind one
of the beginnings, with every repetition bounded, so the search is linear. Beginnings stand for
themselves; a beginning is only looked at where no letter, digit, `_` or `-` precedes it.
"""

from __future__ import annotations

_AN = "[A-Za-z0-9]"
_W = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_B64 = "[A-Za-z0-9+/]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"

SHAPES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), f"{_AN}{{36,255}}"),
    ("github-fine-grained", ("github_pat_",), f"{_AN}{{22}}_{_AN}{{59}}"),
    ("github-app-installation", ("v1.",), f"{_HEX}{{40}}"),
    (
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-", "glft-", "glimt-",
         "glagent-", "gloas-"),
        r"[A-Za-z0-9_.-]{20,255}",
    ),
    ("gitlab-runner", ("GR1348941",), f"{_W}{{20,50}}"),
    (
        "slack-token",
        ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxc-", "xoxd-"),
        r"[A-Za-z0-9%/+-]{20,250}",
    ),
    ("slack-rotating", ("xoxe.xoxb-", "xoxe.xoxp-"), f"{_W}{{40,255}}"),
    ("slack-app", ("xapp-",), rf"[0-9]{{1,2}}-[A-Z0-9]{{9,14}}-[0-9]{{9,15}}-{_AN}{{32,128}}"),
    (
        "slack-webhook",
        ("hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"),
        r"[A-Z0-9]{8,14}/[A-Z0-9]{8,20}/[A-Za-z0-9/]{20,64}",
    ),
    ("aws-access-key-id", ("AKIA", "ASIA", "ABIA", "ACCA"), "[A-Z0-9]{16}"),
    ("aws-bedrock", ("ABSK",), f"{_B64}{{100,200}}={{0,2}}"),
    ("aws-mws", ("amzn.mws.",), _UUID),
    ("google-api-key", ("AIza",), f"{_W}{{35}}"),
    ("google-oauth", ("ya29.",), f"{_W}{{20,255}}"),
    ("google-client-secret", ("GOCSPX-",), f"{_W}{{28}}"),
    ("google-refresh", ("1//0",), f"{_W}{{40,120}}"),
    ("anthropic-key", ("sk-ant-",), f"[a-z]{{2,8}}[0-9]{{2}}-{_W}{{60,255}}"),
    ("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-"), f"{_W}{{40,255}}"),
    ("openrouter-key", ("sk-or-v1-",), f"{_HEX}{{64}}"),
    ("sk-key", ("sk-",), f"{_AN}{{32,128}}"),
    ("groq-key", ("gsk_",), f"{_AN}{{40,64}}"),
    ("xai-key", ("xai-",), f"{_AN}{{60,100}}"),
    ("perplexity-key", ("pplx-",), f"{_AN}{{40,64}}"),
    ("replicate-token", ("r8_",), f"{_AN}{{37}}"),
    ("langsmith-key", ("lsv2_pt_", "lsv2_sk_"), f"{_HEX}{{32}}_{_HEX}{{10}}"),
    ("huggingface-token", ("hf_",), f"{_AN}{{30,48}}"),
    ("huggingface-org", ("api_org_",), f"{_AN}{{30,48}}"),
    (
        "stripe-key",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"),
        f"{_AN}{{16,120}}",
    ),
    ("webhook-secret", ("whsec_",), f"{_B64}{{24,80}}={{0,2}}"),
    ("jwt", ("eyJ",), rf"{_W}{{8,2048}}\.eyJ{_W}{{8,2048}}\.{_W}{{16,1024}}"),
    ("npm-token", ("npm_",), f"{_AN}{{36}}"),
    ("pypi-token", ("pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"), f"{_W}{{50,255}}"),
    ("twilio-key", ("SK",), f"{_HEX}{{32}}"),
    ("sendgrid-key", ("SG.",), rf"{_W}{{20,24}}\.{_W}{{39,50}}"),
    ("discord-webhook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
     f"[0-9]{{17,20}}/{_W}{{60,72}}"),
    ("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), f"{_HEX}{{64}}"),
    ("heroku-key", ("HRKU-",), f"{_W}{{36,80}}"),
    ("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), "[0-9A-Fa-f]{32}"),
    ("square-token", ("sq0atp-", "sq0csp-", "sq0idp-"), f"{_W}{{22,43}}"),
    ("square-access", ("EAAA",), f"{_W}{{60}}"),
    ("databricks-token", ("dapi",), f"{_HEX}{{32}}(?:-[0-9])?"),
    ("mailgun-key", ("key-",), f"{_HEX}{{32}}"),
    ("brevo-key", ("xkeysib-",), f"{_HEX}{{64}}-{_AN}{{16}}"),
    ("age-secret-key", ("AGE-SECRET-KEY-1",), "[0-9A-Z]{58}"),
    ("atlassian-token", ("ATATT3", "ATCTT3"), "[A-Za-z0-9_=-]{50,255}"),
    ("linear-key", ("lin_api_", "lin_oauth_"), f"{_AN}{{40,64}}"),
    ("notion-token", ("ntn_", "secret_"), f"{_AN}{{43,50}}"),
    ("figma-token", ("figd_", "figo_"), f"{_W}{{40,80}}"),
    ("dropbox-token", ("sl.",), f"{_W}{{100,250}}"),
    ("doppler-token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), r"[A-Za-z0-9_.-]{40,80}"),
    ("vault-token", ("hvs.", "hvb.", "hvr."), f"{_W}{{24,250}}"),
    ("grafana-token", ("glsa_",), f"{_AN}{{32}}_[0-9a-fA-F]{{8}}"),
    ("grafana-cloud", ("glc_",), f"{_B64}{{32,250}}={{0,2}}"),
    ("newrelic-key", ("NRAK-",), "[A-Z0-9]{27}"),
    ("sentry-token", ("sntrys_", "sntryu_"), "[A-Za-z0-9_=+/-]{60,255}"),
    ("postman-key", ("PMAK-",), f"{_HEX}{{24}}-{_HEX}{{34}}"),
    ("pulumi-token", ("pul-",), f"{_HEX}{{40}}"),
    ("rubygems-key", ("rubygems_",), f"{_HEX}{{48}}"),
    ("planetscale-token", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), r"[A-Za-z0-9_.-]{32,80}"),
    ("supabase-key", ("sbp_", "sb_secret_"), f"{_W}{{30,80}}"),
    ("netlify-token", ("nfp_",), f"{_AN}{{36,60}}"),
    ("fly-token", ("fm2_", "fm1r_", "fo1_"), f"{_W}{{40,250}}"),
    ("docker-token", ("dckr_pat_", "dckr_oat_"), f"{_W}{{27,40}}"),
    ("tailscale-key", ("tskey-auth-", "tskey-api-", "tskey-client-"),
     f"{_AN}{{8,24}}-{_AN}{{20,48}}"),
    ("artifactory-key", ("AKCp",), f"{_AN}{{60,80}}"),
    ("sonar-token", ("sqp_", "squ_", "sqa_"), f"{_HEX}{{40}}"),
    ("crates-token", ("cio",), f"{_AN}{{32}}"),
    ("1password-token", ("ops_eyJ",), f"{_W}{{100,250}}"),
    ("cloudflare-origin-ca", ("v1.0-",), f"{_HEX}{{24}}-{_HEX}{{146}}"),
    ("firebase-push", ("AAAA",), f"{_W}{{7}}:{_W}{{140}}"),
    ("shippo-token", ("shippo_live_", "shippo_test_"), f"{_HEX}{{40}}"),
    ("easypost-key", ("EZAK", "EZTK"), f"{_AN}{{54}}"),
    ("flutterwave-key", ("FLWSECK_TEST-", "FLWSECK-"), f"{_AN}{{12,48}}-X"),
    ("duffel-token", ("duffel_live_", "duffel_test_"), f"{_W}{{43}}"),
    ("resend-key", ("re_",), f"{_AN}{{8}}_{_AN}{{24}}"),
    ("contentful-token", ("CFPAT-",), f"{_W}{{43}}"),
    ("typeform-token", ("tfp_",), f"{_W}{{40,80}}"),
    ("prefect-key", ("pnu_", "pnb_"), f"{_AN}{{36}}"),
    ("readme-key", ("rdme_",), f"{_AN}{{70}}"),
    ("clojars-token", ("CLOJARS_",), f"{_HEX}{{60}}"),
)  # fmt: skip

# Shapes without a beginning of their own, told by their structure. Every run is bounded, and
# each may only start where no character of its own class precedes it.
STRUCTURES: tuple[tuple[str, str, str], ...] = (
    ("discord-token", ".",
     rf"(?<![\w-])[MNO][A-Za-z0-9_-]{{23,27}}\.{_W}{{6}}\.{_W}{{27,40}}(?![\w-])"),
    ("telegram-token", ":AA", rf"(?<![\w-])[0-9]{{8,10}}:AA{_W}{{33}}(?![\w-])"),
    ("airtable-token", "pat", rf"(?<![\w-])pat{_AN}{{14}}\.{_HEX}{{64}}(?!\w)"),
    ("mailchimp-key", "-us", rf"(?<![\w-]){_HEX}{{32}}-us[0-9]{{1,2}}(?!\w)"),
    ("terraform-token", ".atlasv1.", rf"(?<![\w-]){_AN}{{14}}\.atlasv1\.{_W}{{60,70}}(?![\w-])"),
    ("azure-client-secret", "Q~",
     r"(?<![\w.~-])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~-])"),
)  # fmt: skip
