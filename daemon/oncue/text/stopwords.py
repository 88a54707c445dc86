"""Words that carry no subject, by language (ISO 639-1), for `analyzer`: they are dropped before
stemming, and the language with most of them in a text is that text's language.

Written by hand, small on purpose: a word is here because it is frequent in every kind of text.
Apostrophes are already resolved: `don't` is `dont`, `l'eau` was split into `l` and `eau`.
Accents are as written; `analyzer` also takes each word without them.
"""

from __future__ import annotations

_LISTS = {
    "en": """
        a about above after again against all also although always am an and any anybody anyone
        anything are arent around as at be because been before being below between both but by can
        cannot cant could couldnt did didnt do does doesnt doing done dont down during each either
        else ever every everything few for from further get gets getting go goes going got had hadnt
        has hasnt have havent having he her here hers herself hes him himself his how however i if
        im in instead into is isnt it its itself ive just let lets like made make makes making many
        maybe me might more most much must my myself neither no nobody none nor not nothing now of
        off on once one only onto or other others otherwise ought our ours ourselves out over own
        please quite rather really same shall shant she should shouldnt so some somebody someone
        something still such than that thats the their theirs them themselves then there theres
        these they theyre thing things this those though through thus to too toward towards under
        until up upon us very via was wasnt we well were werent weve what whatever whats when where
        whether which while who whom whose why will with within without wont would wouldnt yes yet
        you youd youll your youre yours yourself youve""",
    "de": """
        ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin
        bis bist da dabei dadurch daher damit danach dann daran darauf darf darin das dass davon
        dazu dein deine dem den denn der deren des deshalb dessen dich die dies diese diesem diesen
        dieser dieses dir doch dort du durch ein eine einem einen einer eines einige er es etwa
        etwas euch euer eure falls fast für gab ganz gar gegen geht gibt hab habe haben hat hatte
        hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja
        jede jedem jeden jeder jedes jener jetzt kann kannst kein keine keinem keinen keiner können
        konnte könnte machen macht man mehr mein meine meinem meinen meiner mich mir mit müssen muss
        musste nach nachdem nicht nichts noch nun nur ob obwohl oder ohne schon sehr sein seine
        seinem seinen seiner seit selbst sich sie sind so solche soll sollen sollte sondern sonst
        sowie über um und uns unser unsere unserem unseren unter vom von vor wann war waren warum
        was weil welche welchem welchen welcher welches wenn wer werde werden wessen wie wieder wir
        wird wo wobei wohin wollen worden wurde wurden würde zu zum zur zwischen""",
    "fr": """
        a à afin ai aie ainsi alors après as au aucun aucune aussi autre autres aux avant avec avoir
        avons avez ayant beaucoup bien c ça car ce ceci cela celle celles celui ces cet cette ceux
        chaque chez ci comme comment d dans de des depuis des dès déjà donc dont du elle elles en
        encore entre es est et étaient était été être eu eux fait faire faut font il ils j je jusqu
        l la là le les leur leurs lors lorsqu lorsque lui m ma mais me même mes moi moins mon n ne
        ni non nos notre nous on ont ou où par parce pas peu peut peuvent plus plutôt pour pourquoi
        puis puisque qu quand que quel quelle quelles quels qui quoi s sa sans se selon ses si sinon
        soit son sont sous suis sur t ta te tes toi ton tous tout toute toutes très tu un une vers
        vos votre vous y""",
    "es": """
        a al algo algunas alguno algunos ante antes aquel aquella así aún aunque bajo bien cada como
        cómo con contra cual cuál cuales cualquier cuando cuándo de del desde donde dónde dos
        durante e el él ella ellas ellos en entre era eran es esa esas ese eso esos esta está están
        estas este esto estos fue fueron ha había hace hacer hacia han hasta hay la las le les lo
        los más me mi mí mientras mis mismo mucho muy nada ni no nos nosotros nuestra nuestro o os
        otra otras otro otros para pero por porque pues puede pueden que qué quien quién se según
        ser si sí siempre sin sino sobre solo sólo son su sus también tan tanto te tengo tiene
        tienen toda todas todo todos tras tu tú tus un una unas uno unos usted ustedes y ya yo""",
    "it": """
        a abbiamo ad agli ai al alla alle allo anche ancora avere aveva c che chi ci ciò co coi col
        come con contro cui d da dagli dai dal dall dalla dalle dallo degli dei del dell della delle
        dello dentro di dopo dove due e è ed era erano essere fa fare fino fra già gli ha hai hanno
        ho i il in io l la le lei li lo loro lui ma me meno mentre mi mia mie mio molto ne negli nei
        nel nell nella nelle nello no noi non nostra nostro o ogni oppure per perché però più poi
        prima può qual quale quali quando quanto quella quelle quelli quello questa queste questi
        questo qui quindi se sei sempre senza si sì sia siamo solo sono sta stata stato su sua sugli
        sui sul sull sulla sulle suo tra tu tua tuo tutte tutti tutto un una uno va vi voi""",
    "pt": """
        a à ainda além algum alguma alguns ante antes ao aos apenas após aquela aquele aquilo as às
        até cada com como contra cujo da daquele das de dela dele depois desde dessa desse desta
        deste do dos e é ela elas ele eles em enquanto entre era eram essa essas esse esses esta
        está estão estas estava este estes eu faz fazer foi for foram há isso isto já lá lhe mais
        mas me mesmo meu meus minha muito na nas não nem nenhum nessa nesse nesta neste no nos nós
        nossa nosso num numa o onde os ou outra outras outro outros para pela pelas pelo pelos pode
        podem por porque pouco pra qual quais quando quanto que quê quem são se seja sem sempre ser
        será seu seus sim só sob sobre sua suas também tão tem têm tenho ter teu toda todas todo
        todos tu tudo um uma umas uns vai você vocês""",
    "nl": """
        aan achter al alle alleen alles als altijd andere ben bij binnen bijna dan dat de deze die
        dit doch doen doet door dus een eens elk elke en er erg even gaan gaat geen geweest had
        hadden heb hebben hebt heeft hem het hier hij hoe hun ik in is ja je jij jou jouw jullie kan
        kunnen kon maar maken me meer men met mij mijn moet moeten na naar nee niet niets nog nu of
        om omdat ons onze ook op over pas per sinds te tegen terwijl toch toen tot tussen uit uw van
        vaak vanaf veel via voor vooral waar waarom wanneer waren was wat we weer welk welke wel
        werd werden wie wij wil worden wordt zal ze zeer zelf zich zij zijn zo zoals zonder zou
        zouden""",
    "sv": """
        all alla allt än andra är att av bara blev bli blir både då de dem den denna deras dess
        dessa det detta dig din dina ditt du där därför efter ej eller en er ett fick finns från för
        före få får ge gör göra genom ha hade han har helt henne hennes hon honom hos hur här i
        icke igen ingen inget innan inom inte ja jag kan ju kunde man mellan med men mer mera mig
        min mina mitt mot mycket ni nu någon något några när och också om oss på redan samma sedan
        ska skall skulle som så sig sin sina sitt själv till under upp ut utan vad var vara varför
        varit varje vars vem vi vid vilka vilken vill vilket vår våra över""",
    "da": """
        ad af aldrig alle alt altid anden andet andre at bare begge blev blive bliver da de dem den
        denne der deres det dette dig din dine disse dit dog du efter eller en end endnu er et få
        får for fordi fra før gennem gør gøre ham han hans har havde have hele hende her hos hun
        hvad hvem hver hvilken hvilket hvis hvor hvordan hvorfor hvornår i igen ikke imellem ind
        ingen intet ja jeg jer kan kun kunne lige man mange med meget mellem men mere mig min mine
        mit mod må ned nej nogen noget nogle nok nu når og også om op os over på samme selv siden
        sig sin sine sit skal skulle som sådan så til uden ud under var ved vi vil ville være været
        vores""",
    "no": """
        alle allerede alt andre at av bare begge ble blei bli blir blitt både da de deg dem den
        denne der deres det dette di din disse ditt du eg ein eit eller en enn er et etter få før
        for fordi fra fram gjennom gjør gjøre ha hadde han hans har hele henne hennes her hos hun
        hva hvem hver hvilke hvilken hvilket hvis hvor hvordan hvorfor i igjen ikke ikkje inn ingen
        innen ja jeg kan kom kun kunne man mange med meg meget mellom men mens mer min mitt mot mye
        må når ned nei noe noen nok nå og også om opp oss over på samme seg selv siden sin sine sitt
        skal skulle slik som så til under ut uten var vårt være vært ved vi vil ville vår""",
    "fi": """
        ei eikä eivät ehkä eli emme en enää ennen et ette että eräs hän häntä he heidän heille
        heitä ilman itse ja jo joka jokin joku jolla jonka jos joskus jossa jota jotka jotta joten
        kaikki kanssa kautta keskellä ketkä koska kuin kuinka kuitenkin kuka kun kunnes me meidän
        mikä miksi millä millainen milloin minä minua minun miten missä mistä mitä mitkä mihin
        mukaan mutta muu muut myös ne näin näitä nämä niiden niin niitä no noin nuo nyt näiden
        ole oli olen olemme olet olette olin olisi olivat olla ollut on ovat pitää pois se sekä sen
        siellä siihen siinä siis siitä silti sinä sitä sitten tai tähän tämä tämän tässä tästä tätä
        te tuo vaan vai vaikka vain vielä voi voin voivat yli""",
    "ru": """
        а без более больше будет будто бы был была были было быть в вам вас весь во вот все всегда
        всего всех всю вы где да даже для до его ее её ей если есть еще ещё же за зачем здесь и из
        или им их к как какая какие какой когда кого который которая которые кто куда ли либо
        лучше мне много может можно мой мы на над надо наш нам нас не него нее ней нельзя нет ни
        нибудь никогда них но ну нужно о об он она они оно от очень перед по под после потом потому
        почему почти при про раз разве с сам себе себя сейчас со совсем так также такой там тебя
        тем теперь то тогда того тоже только том тот ту тут ты у уж уже хотя чего чей чем через что
        чтоб чтобы эта эти это этого этой этом этот эту я""",
    "hu": """
        a ahhoz ahogy aki akik akkor alatt általában amely amelyek ami amíg amikor an annak annyi
        arra át az azért azok azon azt aztán azután azzal be bele benne csak de e eddig egész egy
        egyéb egyes egyik egyre el elég először előtt én ennek erre és éppen ez ezek ezen ezért ezt
        ezzel fel felé ha hanem hát hiszen hogy hogyan igen így illetve ilyen is itt jó jól kell
        kellett keresztül ki kívül kívül közben között közül le legalább legyen lehet lenne lesz
        lett ma maga már más meg még mellett mert mely melyik mi mielőtt miért mikor milyen minden
        mindig mint mintha mit mivel most nagyon ne nekem nem néha nélkül nincs ő ők olyan ott össze
        pedig persze rá s saját sem semmi sok sokkal szemben szerint tehát te többi tovább után
        utána úgy új vagy vagyis vagyok valaki valami van vannak vele viszont volna volt voltak
        vissza""",
    "ro": """
        a acea aceasta această aceea acei aceia acel acela acele acelea acest acesta aceste acestea
        acești acolo acum ai aici al ale am ar are aș așa asta astfel atât atunci au avea avem care
        cărei căror cât câte câți că ce cel cele cei cine cu când cum cumva da dacă dar de deci deja
        deși din după e ea ei el ele era este eu fără fi fie fiecare fost iar îi îl îmi în înainte
        încă îl își la le li lor lui mai mâine mea mei mele mereu meu mult multe nici nimic noastre
        noi nostru nu o oare ori orice pe până pentru peste poate prea prin printre sa să sale sau
        său se și sub sunt suntem ta tale tău te toate tot toți totul trebuie tu un una unde unei
        unele unii unor unui va vă voi vor vostru""",
    "tr": """
        acaba ama ancak artık aslında az bana bazı belki ben beni benim beri bile bir biraz birçok
        biri birkaç birşey biz bize bizi bizim böyle bu buna bunda bundan bunlar bunları bunu bunun
        burada çok çünkü da daha de defa değil diğer diye dolayı en fakat gibi göre hala hangi hatta
        hem henüz hep hepsi her hiç için içinde ile ise işte kadar kendi kez ki kim kime mı mi mu mü
        nasıl ne neden nedenle nerede nereye niçin niye o olan olarak oldu olduğu olduğunu olmak
        olsa olur ona ondan onlar onları onun öyle önce sadece sanki sen şey siz şu şuna şunu sonra
        tüm üzere var ve veya ya yani yapmak yok zaten""",
}

# Japanese and Chinese are read as pairs of characters; these pairs are grammar in nearly any text.
_PAIRS = """
    です ます する した して しま ませ せん いる ある ない れる られ った って てい てき たい とき
    から まで より には では とは こと もの ため など この その あの どの どう どこ いつ なぜ なに
    何が 何を 何で ように うに くだ ださ さい でき きる きま すか った たら ので のに のか のは
    のが のを なる なっ どれ れば だっ した たの 什么 怎么 么样 为什 如何 我们 你们 他们 这个 那个
    这些 那些 哪个 哪些 哪里 可以 是否 需要 没有 一个 一下 时候 的时 应该 能不 不能 是不 不是 因为
    所以 如果 但是 还是 或者 以及 已经 就是 多少 请问 哪儿 是什 有什 怎樣 什麼 怎麼 為什 這個 我們
    沒有 하는 하고 하면 했다 합니 니다 습니 있는 있다 없는 어떻 떻게 무엇 이유 에서 으로 입니 인가
    가요 나요 해요 세요 된다 되는 되나 하나 어디 누가 언제 까지 부터 에게"""


STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split()) for language, words in _LISTS.items()
}
"""Language → its stop words, as written."""

STOP_PAIRS = frozenset(_PAIRS.split())
"""Han, Kana and Hangul pairs that are grammar."""
