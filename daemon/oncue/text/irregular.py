"""English word forms that no stemmer joins, for `analyzer`: form → base form.

Verbs with their past forms, a few plurals, and British against American spelling. Forms that are
more often another word ("left", "rose", "felt" as cloth, "wound") are not here.
"""

from __future__ import annotations

_FORMS = """
become became; begin began begun; bend bent; bind bound; bite bit bitten; blow blew blown; break
broke broken; bring brought; build built; burn burnt; buy bought; catch caught; choose chose
chosen; come came; creep crept; deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank
drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed; fight fought; find found;
fly flew flown; forbid forbade forbidden; forget forgot forgotten; freeze froze frozen; give gave
given; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept; know knew
known; lead led; lean leant; learn learnt; lend lent; light lit; lose lost; mean meant; meet met;
overwrite overwrote overwritten; override overrode overridden; pay paid; prove proven; rebuild
rebuilt; resend resent; reset resetting; ride rode ridden; ring rang rung; rise risen; run ran;
rerun reran; say said; see saw seen; seek sought; sell sold; send sent; shake shook shaken; shoot
shot; show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept;
slide slid; speak spoke spoken; speed sped; spend spent; spin spun; split splitting; spring sprang
sprung; stand stood; steal stole stolen; stick stuck; strike struck; swear swore sworn; sweep
swept; swim swam swum; swing swung; take took taken; teach taught; tear tore torn; tell told;
think thought; throw threw thrown; undo undid undone; understand understood; wake woke woken; wear
wore worn; weave wove woven; win won; withdraw withdrew withdrawn; write wrote written; rewrite
rewrote rewritten; wear worn; bear borne; swell swollen; index indices; vertex vertices; matrix
matrices; appendix appendices; axis axes; analysis analyses; basis bases; crisis crises;
hypothesis hypotheses; thesis theses; diagnosis diagnoses; datum data; medium media; schema
schemata; criterion criteria; phenomenon phenomena; child children; person people; man men; woman
women; mouse mice; foot feet; tooth teeth; half halves; life lives; shelf shelves; knife knives;
wolf wolves; goose geese; quiz quizzes; query queries querying; behavior behaviour; color colour;
favor favour; favorite favourite; honor honour; labor labour; neighbor neighbour; center centre;
fiber fibre; meter metre; liter litre; theater theatre; catalog catalogue; dialog dialogue;
program programme; gray grey; license licence; defense defence; offense offence; check cheque;
canceled cancelled; canceling cancelling; labeled labelled; labeling labelling; modeling
modelling; modeled modelled; traveling travelling; signaled signalled; artifact artefact; judgment
judgement; config configuration configure configured configures; auth authentication; repo
repository; repos repositories; db database; docs documentation; env environment; param parameter;
params parameters; prod production; perf performance; info information; max maximum; min minimum;
app application; dir directory; dep dependency; deps dependencies; spec specification; temp
temporary;
"""

IRREGULAR: dict[str, str] = {
    form: base
    for base, *forms in (entry.split() for entry in _FORMS.split(";") if entry.strip())
    for form in forms
}
"""Form → base form; both in lower case. The base form still goes through the stemmer."""
