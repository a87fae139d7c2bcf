"use strict";
// Text: what titles of pages say in words and numbers, in the languages people watch in.
(() => {
  const SEASON =
    "(?:season|series|staffel|saison|temporada|stagione|seizoen|säsong|sæson|sesong|kausi|sezon(?:ul)?|" +
    "(?:seiz|staff|stag|sez|temp|сез|säs|sæs|ses)\\.?(?=\\s?\\d)|sezona[s]?|sezónu?|séria|řada|évad|hooaeg|temp\\.|сезон|κύκλος|σεζόν|الموسم|עונה|सीज़न|सीजन|ซีซั่?น|mùa|musim|فصل|cyfres|þáttaröð|シーズン|시즌)";
  const EPISODE =
    "(?:(?:afl|avsn|avs|afs|eps|epis|сер|эп|еп|böl)\\.?(?=\\s?\\d)|episode|episodio|episódio|épisode|episodul|[eé]p\\.?|folge|flg\\.?|cap[ií]tulo|cap\\.|aflevering|avsnitt|afsnit|jakso|" +
    "odcinek|odc\\.?|bölüm|rész|díl|epizoda|epizóda|epizód|časť|capítol|osa|серия|эпизод|серія|епізод|епизод|выпуск|επεισόδιο|επ\\.|الحلقة|حلقة|פרק|एपिसोड|ตอน(?:ที่)?|tập|puntata|episodi|epizod|diel|sērija|serija|قسمت|þáttur|pennod|エピソード)";
  const GAP = "[^\\p{L}\\d]{0,5}";
  const made = (...parts) => new RegExp(parts.join(""), "iu");
  const BOTH = [
    made("(?<![\\p{L}\\d])[ST]\\.?\\s?(?<s>\\d{1,2})\\s*[-:.,·/| ]*\\s*[EÉF](?:p\\.?)?\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])[STKΚ](?<s>\\d{1,2})\\s?:\\s?[AJOBΕ]\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])T(?<s>\\d{1,2})\\s*[-:.,·/| ]*\\s*C(?:ap\\.?)?\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])(?<s>\\d{1,2})x(?<e>\\d{2,3})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])[ST](?<s>\\d{1,2})", GAP, EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)"),
    made(SEASON, "\\s*(?<s>\\d{1,2})(?!\\d)", GAP, EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)"),
    made(EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)", GAP, SEASON, "\\s*(?<s>\\d{1,2})(?!\\d)"),
    made("(?<![\\p{L}\\d])(?<s>\\d{1,2})(?:[.ªº]|-?[йя])?\\s*", SEASON, GAP, "(?<e>\\d{1,4})(?:[.ªº]|-?[йя])?\\s*", EPISODE),
    made("(?<s>\\d{1,2})[.ªº]\\s*", SEASON, GAP, EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)"),
    made(SEASON, "\\s*(?<s>\\d{1,2})", GAP, "(?<e>\\d{1,4})\\.\\s*", EPISODE),
    made("(?<!\\d)(?<s>\\d{1,2})\\.\\s*(?:série|séria|sezóna)", GAP, "(?<e>\\d{1,4})\\.\\s*", EPISODE),
    made(SEASON, "\\s*(?<s>\\d{1,2})\\s*\\((?<e>\\d{1,4})/\\d+\\)"),
    made(SEASON, "\\s*(?<s>\\d{1,2})\\s*[-:·,]\\s*(?<e>\\d{1,3})\\.\\s"),
    made("第?\\s*(?<s>\\d{1,2})\\s*(?:期|シーズン).{0,4}第\\s*(?<e>\\d{1,4})\\s*[話回]"),
    made("シーズン\\s*(?<s>\\d{1,2}).{0,4}第\\s*(?<e>\\d{1,4})\\s*[話回]"),
    made("第\\s*(?<s>\\d{1,2})\\s*季.{0,4}第\\s*(?<e>\\d{1,4})\\s*[集话話回]"),
    made("시즌\\s*(?<s>\\d{1,2}).{0,4}?(?<e>\\d{1,4})\\s*[화회](?!\\p{L})"),
  ];
  // A line that begins with a word and a number, twice, in any language: where the line is known to be an episode's.
  const LINE = made("^\\p{L}{1,12}\\.?\\s?(?<s>\\d{1,2})\\s*[:,.·|/、–-]?\\s*(?!week|day|night|part|teil|woche|tag|heat|round|show)\\p{L}{1,12}\\.?\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])");
  const ONE = [
    made("(?<![\\p{L}\\d])(?:", EPISODE, "\\s*|[EÉ])(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?<!\\d)(?<e>\\d{1,4})\\.\\s*", EPISODE),
    made("第\\s*(?<e>\\d{1,4})\\s*[话話回集]"),
    made("(?<![\\p{L}\\d])제?\\s*(?<e>\\d{1,4})\\s*[화회话話](?!\\p{L})"),
    made("\\((?<e>\\d{1,4})/\\d{1,4}\\)"),
  ];
  const ONLY_SEASON = [
    made("(?<![\\p{L}\\d])", SEASON, "\\s*(?<s>\\d{1,2})(?!\\d)"),
    made("(?<!\\d)(?<s>\\d{1,2})[.ªº]\\s*", SEASON),
  ];
  const YEAR = "(?<y>1[89]\\d\\d|20\\d\\d)";
  const IN_BRACKETS = made(
    "^(?<t>.*?\\S)\\s*[([（](?:[^()（）]*?[^\\d()（）])??", YEAR,
    "(?:\\s*[-–]\\s*(?:\\d{2,4}|present|heute)?)?(?:[^\\d()（）][^()（）]*)?[)\\]）]",
  );

  const first = (patterns, text) => {
    for (const pattern of patterns) {
      const found = pattern.exec(text);
      if (found) return found;
    }
    return null;
  };

  // Season and number in one text, and what stands before and after them.
  function numbers(text) {
    const found = first(BOTH, text);
    if (!found) return null;
    const { s, e } = found.groups;
    return {
      season: Number(s), number: Number(e),
      before: trim(text.slice(0, found.index)),
      after: trim(text.slice(found.index + found[0].length)),
    };
  }

  // The same from an episode's own line, in any language.
  function lineNumbers(line) {
    const found = numbers(line) ?? LINE.exec(line)?.groups;
    return found ? { season: Number(found.season ?? found.s), number: Number(found.number ?? found.e) } : someNumbers([line]);
  }

  // The same from several texts, each of which may hold half of it: for pages known to be of episodes.
  function someNumbers(texts) {
    for (const text of texts) {
      const both = numbers(text);
      if (both) return { season: both.season, number: both.number };
    }
    const of = (patterns) => texts.map((text) => first(patterns, text)).find(Boolean);
    const season = of(ONLY_SEASON), number = of(ONE);
    return { season: season ? Number(season.groups.s) : null, number: number ? Number(number.groups.e) : null };
  }

  // Where the words about season and episode begin.
  function beforeNumbers(text) {
    const found = [...BOTH, ...ONLY_SEASON, ...ONE].map((p) => p.exec(text)).filter(Boolean)
      .sort((a, b) => a.index - b.index)[0];
    return found ? trim(text.slice(0, found.index)) : null;
  }

  const DIGITS = { "٠": 0x660, "۰": 0x6f0, "०": 0x966, "๐": 0xe50 };
  const digit = (one) => String(one.codePointAt(0) - Object.values(DIGITS).findLast((zero) => zero <= one.codePointAt(0)));
  // One line of text, without marks nobody sees; digits of other scripts are read as ours.
  function clean(text) {
    return (text ?? "").replace(/[٠-٩۰-۹०-९๐-๙]/g, digit).replace(/[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, "").replace(/\s+/g, " ").trim();
  }

  function trim(text) {
    return clean(text).replace(/^【[^】]*】/, "").replace(/^[《「『]([^》」』]+)[》」』]$/, "$1").replace(/^[\s\-–—|:·•,/([▶►]+|[\s\-–—|:·•,/([]+$/g, "");
  }

  // "Heat (1995) – Site" as its title, its year and the rest; null where no year stands in brackets.
  function withYear(text) {
    const found = IN_BRACKETS.exec(clean(text));
    if (!found) return null;
    const year = Number(found.groups.y);
    if (year > new Date().getFullYear() + 2) return null;
    return { title: trim(found.groups.t), year, rest: trim(clean(text).slice(found[0].length)) };
  }

  function yearIn(text) {
    // "2010er", "1990s" and "années 2000" are decades
    const found = /(?<!\d|(?:années|anni|años|anos|jaren|lata|anii|anys|δεκαετία του) )(1[89]\d\d|20\d\d)(?!\d|(?<=0)-\p{L}|['’]?(?:s|er\p{L}*)(?!\p{L})|-(?:tal|luv|х|ies)|년대|年代)/iu.exec(String(text ?? ""));
    return found ? Number(found[1]) : null;
  }

  // What is left of two titles when case, marks and spaces do not count.
  function plain(text) {
    return clean(text).toLowerCase().normalize("NFKD").replace(/[^\p{L}\p{N}]+/gu, "");
  }

  function decode(text) {
    const named = (entity) => new DOMParser().parseFromString(entity, "text/html").documentElement.textContent;
    return text.replace(/&(?:#x([\da-f]+)|#(\d+)|(\w+));/gi, (all, hex, number, name) =>
      hex ? String.fromCodePoint(parseInt(hex, 16)) : number ? String.fromCodePoint(Number(number))
        : named(all) || all);
  }

  // The path of an address in letters; as it stands where it cannot be read.
  function pathOf(address) {
    const { pathname } = new URL(address);
    try {
      return decodeURI(pathname);
    } catch {
      return pathname;
    }
  }

  // Seconds of "PT2H16M", "1h 58min", "113 Min." or "143分"; null where there are none.
  function seconds(text) {
    const said = clean(String(text ?? ""));
    if (/^\d+$/.test(said)) return Number(said);
    const iso = /^P(?:T|.*T)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?/i.exec(said);
    if (iso && (iso[1] || iso[2] || iso[3])) {
      return 3600 * (iso[1] ?? 0) + 60 * (iso[2] ?? 0) + Number(iso[3] ?? 0);
    }
    const hours = /(\d+)\s*(?:h|std|hr|hours?|時間)\b\.?\s*(?:(\d+)\s*(?:m|min|minutes?|分))?/i.exec(said);
    if (hours) return 3600 * hours[1] + 60 * (hours[2] ?? 0);
    const minutes = /(\d+)\s*(?:min|mins|minuten|minutes|分)/i.exec(said);
    return minutes ? 60 * minutes[1] : null;
  }

  const ANOTHER_YEAR = /\d{1,2}[./]\s?\d{1,2}[./]\s?\d{2,4}|(?<!\d)\d{1,2}(?:\.|er|st|nd|rd|th)? (?:de |d[ei] )?\p{L}{3,}\.? (?:de )?\d{4}|\p{L}{3,}\.? \d{1,2}, \d{4}|©|\d{4}-\d\d|\d{4}\s*[-–]\s*\d{4}|(?<!\p{L})(?:since|seit|until|bis|jusqu|added|verfügbar|available|upload\w*|views|restored|restauriert|restaur\p{L}+|copyright|recorded|hochgeladen|online|aufgezeichnet|aufzeichnung|depuis|desde|dal|since)(?!\p{L})/iu;
  const SEPARATED = "\\s*[·•|/∙,;]";
  const YEAR_LINE = made(
    "^\\D{0,3}", YEAR, "(?:\\D{0,3}$|年|", SEPARATED, ")|", SEPARATED, "\\s*(?:\\p{L}+[ /]){0,2}(?:1[89]\\d\\d|20\\d\\d)(?:$|", SEPARATED, ")|",
    "^[(\\[]?(?:[\\p{L}.]+[ /,-]+){1,4}(?:1[89]\\d\\d|20\\d\\d)(?:$|", SEPARATED, ")|",
    "^(?:jahr|year|année|annee|año|anno|ano|an|rok|год|рік|jaar|år|vuosi|έτος|év|godina|yıl|yapım yılı|rok produkcji|gyártási év|año de producción|ano de produção|năm|tahun|سنة|שנה|produktionsjahr|erscheinungsjahr|release year|released|release date|publication date|sortie|estreno|uscita|lançamento|制作年|公開年|年份|年代|上映|연도)\\s*[::]?\\s*(?:1[89]\\d\\d|20\\d\\d)",
  );
  // Short lines beside the heading: what it is, when and by whom it was made, how long it is.
  const beside = (facts) => [...facts.above, ...facts.small].filter((one) => one.length < 80 && !ANOTHER_ONE.test(one));
  const ANOTHER_ONE = /^(?:up )?(?:next|previous|prev|nächste|vorherige|vorige|weiter|suivant|précédent|siguiente|anterior|próxim|prossim|precedente|volgende|vorige|nästa|föregående|następn|poprzedni|следующ|предыдущ|次の|前の)|→|»/iu;

  // Of such lines those that name what it is; a sentence tells what happens in it.
  const labels = (facts) => beside(facts).filter((one) => !isProse(one));
  const isProse = (line) => !/[·•|]|\d\s*\p{L}+\.$/u.test(line) && (/[。！？]$/.test(line) || (/\p{L}[.!?…]["”»]?$/u.test(line) && line.split(" ").length > 3));
  // The short sentences of longer lines, each line's first one first.
  const sentences = (facts) => facts.small.filter((one) => one.length >= 80).map((one) => one.split(/(?<=[.!?])\s+/).filter((part) => part.length < 80));

  // How long it is said to be in such a line, in seconds.
  function nearLength(facts) {
    return beside(facts).map((one) => (/\d\s*(?:min|分|мин|분)|\d\s*(?:h|std)\b/iu.test(one) ? seconds(one) : null)).find((one) => one >= 180) ?? null;
  }

  // A year alone in such a line.
  function nearYear(facts) {
    const years = new Set(beside(facts).filter((one) => YEAR_LINE.test(one) && !ANOTHER_YEAR.test(one)).map(yearIn));
    return years.size === 1 ? [...years][0] : null;
  }

  function isSiteName(part, facts) {
    const host = plain(new URL(facts.address).hostname.replace(/^www\./, "").split(".").slice(-2)[0]);
    return [...facts.names.map(plain), host].some((name) => name && (plain(part) === name || (plain(part).length > 3 && name.includes(plain(part))) || (plain(part).length > 1 && host.startsWith(plain(part))) || (name.length > 3 && plain(part).includes(name) && part.split(" ").length < 4)));
  }

  // A title of a page without the name of its site.
  function withoutSite(title, facts) {
    const isSite = (part) => isSiteName(part, facts);
    const parts = clean(title).split(/(\s+[-–—|•·»:]\s+|\s*[|•»]\s*)/), first = /^(.*?):\s+(?=\S)/.exec(parts[0]);
    if (first && isSite(first[1])) parts[0] = parts[0].slice(first[0].length);
    while (parts.length > 2 && isSite(parts.at(-1))) parts.splice(-2);
    while (parts.length > 2 && isSite(parts[0])) parts.splice(0, 2);
    const heading = facts.h1[0];
    if (parts.length > 2 && !(heading && plain(heading).includes(plain(parts.at(-1)))) && /[|•·»]/.test(parts.at(-2))) parts.splice(-2);
    const verb = /^(?:watch|stream|regarder|guarda|assistir)\s+(?=\S)/i;
    const bare = parts.join("");
    if (verb.test(bare) && heading && plain(heading) === plain(bare.replace(verb, ""))) return trim(heading);
    return trim(bare.replace(/^(?:watch|stream|regarder|ver)\s+(?=.*\b(?:online|free|full|stream|gratis|hd)\b)/i, "").replace(/\s*\b(?:online (?:anschauen|ansehen|stream\w*)|stream\w* online|hier anschauen|watch online)\b.*$/i, ""));
  }

  const SAID_OF_IT = "free with ads|with ads|mit werbung|con anuncios|u?hd|full hd|4k(?: (?:restoration|restored|remaster\\p{L}*))?|omu|omeu|ov|omd|df|ova|vf|vo(?:st\\p{L}*)?|deutsch|german|english|subbed|dubbed|sub\\p{L}* \\p{L}+|uncut|unrated|fsk ?\\d+|online|stream\\p{L}*|gratis|kostenlos|free|signed|(?:mit )?(?:audiodeskription|untertiteln?|gebärdensprache)|hörfassung|klare sprache|audio[- ]described|audio description" +
    "|(?:the )?(?:director['’]?s?|extended|final|theatrical|ultimate|special|unrated|collector['’]?s?|anniversary|restored|remastered|\\d+th anniversary)(?: \\p{L}+)? (?:cut|edition|version)|(?:digitally )?(?:restored|remastered|restoration)|(?:\\p{L}+)?restaurierte fassung|restauriert|langfassung|kinofassung|director['’]?s cut|extended|versione (?:restaurata|integrale)|restaurato|version (?:restaurée|longue|intégrale)|versión (?:restaurada|extendida)|montaje del director";
  const BEHIND = made("\\s*(?:[([]\\s*(?:", SAID_OF_IT, ")(?:[,/;·|]? ?(?:", SAID_OF_IT, "))*\\s*[)\\]]|\\s[-–—:|·]\\s*(?:", SAID_OF_IT, "))\\s*$");
  const LABEL = /^(?:film|movie|spielfilm|fernsehfilm|kurzfilm|short film|dokumentarfilm|dokumentation|doku|documentary|documentaire|documental|documentario|documentário|dokumentär|court métrage|cortometraje|cortometraggio|фильм|фільм)\s?[:|–-]\s+(?=\S)/iu;
  // A film's title without what is said of this edition or recording of it.
  function bare(title) {
    const cut = title.replace(BEHIND, "").replace(LABEL, "");
    return cut === title || !cut ? title : bare(cut);
  }

  // Words that may stand behind "full movie" without saying that it is something else.
  const BEHIND_WHOLE = /^(?:in|auf|en|with|mit|free|gratis|kostenlos|online|hd|hq|uhd|4k|\d+p?|english|englisch|deutsch|german|french|français|español|castellano|latino|italiano|português|hindi|subtitles?|subs?|subtitulad[ao]|vostfr|vf|vo|legendado|dublado|drama|thriller|western|horror|comedy|romance|action|adventure|crime|noir|sci-fi|classic|remastered|restored|colou?ri[sz]ed|movie|film|фильм|black|and|white|[&+,.:!*#-]+)$/i;
  // "Full movie", not "full movie score": what follows in the same breath is said of the film's recording.
  function isWhole(title) {
    const found = WHOLE.exec(title);
    if (!found) return false;
    const behind = /^[^|()[\]–—•:"„“]*/.exec(title.slice(found.index + found[0].length))[0].split(/\s-\s/)[0];
    return trim(title.slice(0, found.index)) === "" || /^\s*(?:by|von|par|di|de|with|mit|avec|con|com|med|z)\s+\p{Lu}/u.test(behind) || clean(behind).split(" ").every((word) => isSaid(word));
  }
  const isSaid = (word) => isAround(word) || BEHIND_WHOLE.test(word);

  // What stands behind a name and its year names somebody, or the recording; a sentence speaks about the film.
  function isQuiet(rest) {
    const words = rest.replace(/[([][^)\]]*[)\]]/g, " ").split(/[\s|,–-]+/).filter((word) => !isSaid(word));
    return words.length <= 2 && words.every((word) => /^\p{Lu}/u.test(word));
  }

  const AROUND = new Set(("watch stream streamen streaming voir regarder ver assistir guarda guardare oglądaj izle смотреть фильм see play online free gratis kostenlos full movie film filme films "
    + "complet completo completa hd vf vostfr en in at on auf bei jetzt hier now here ansehen anschauen schauen legal").split(" "));
  const isAround = (text) => text.toLowerCase().split(/[^\p{L}\d]+/u).every((word) => !word || AROUND.has(word));
  // The heading, where a title is the heading and words around it ("Watch … online").
  function headed(title, facts) {
    for (const head of [...facts.h1, ...facts.h2]) {
      const at = head.length > 1 ? title.toLowerCase().indexOf(head.toLowerCase()) : -1;
      if (at < 0) continue;
      const rest = [title.slice(0, at), title.slice(at + head.length)].map(trim);
      if (rest.some(Boolean) && rest.every((one) => isAround(one) || isSiteName(one, facts))) return head;
    }
    return title;
  }

  // The work's own name in a title that has more around it, a strand before it or words behind: the
  // heading, where the title holds it; the name of the page's video; else the title as it stands.
  function ownName(said, facts, data) {
    const held = (name) => name.length > 1 && !isSiteName(name, facts) && new RegExp(`(?<![\\p{L}\\d])${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\p{L}\\d])`, "iu").test(said);
    const inside = [facts.h1[0], data.video?.name].map((one) => withYear(one ?? "")?.title ?? one ?? "").find(held);
    return inside ?? headed(said, facts);
  }

  // What is said behind a name: that it is a short film, and whose.
  const ENDING = /[,:]?\s*(?:an?\s+)?(?:award[- ]winning\s+)?(?:(?:animated |student |\p{L}+\s+)?short(?: film)?(?=$|\s+(?:by|von)|\s*[|([–-])|kurzfilm|court[- ]métrage|cortometrajes?|cortometraggio|curta[- ]metragem|full documentary|documentary|film(?=\s+(?:by|von)\s))(?:\s+(?:by|von|de|di|par)\s.*)?$/iu;

  // `loose` are words of scripts without spaces.
  const words = (list, loose = "(?!)") => new RegExp(`(?<![\\p{L}\\d])(?:${list.join("|")})(?![\\p{L}\\d])|${loose}`, "iu");
  // Beside a film, never the film: also on a page that is about one.
  const EXTRA = words([
    "trailer\\d*", "trailers", "teaser", "teasers", "previews?", "vorschau", "bande[- ]annonce", "tráiler", "avance",
    "first look", "sneak peek", "clips?", "featurette", "making[- ]?of", "behind the scenes",
    "hinter den kulissen", "coulisses", "outtakes?", "bloopers?", "deleted scenes?", "bonus\\w*", "extras?",
    "special features?", "interviews?", "promo", "ausschnitt", "extrait", "szene", "scène", "escena", "recap",
    "(?:the )?first \\w+ minutes", "(?:die )?ersten \\w+ minuten", "premières minutes", "primi minuti", "primeros minutos",
    "трейлер\\p{L}*", "тизер", "fragman", "zwiastun", "előzetes", "upoutávka", "ukázka", "anteprima", "extracto", "estratto", "fragment", "fragmento", "urywek",
    "entrevistas?", "intervista", "entretien", "intervju", "wywiad", "rozhovor", "интервью", "hinter der kamera", "dietro le quinte", "detrás de (?:las )?cámaras", "за кадром",
    "bakom kulisserna", "bag kulisserne", "bak kulissene", "kulissien takana", "za kulisami", "zákulisí", "kulisszák mögött", "kamera arkası", "закулись\\p{L}*", "παρασκήνια", "bastidores", "culise", "מאחורי הקלעים", "كواليس", "hậu trường",
    "haastattelu", "interjú\\p{L}*", "röportaj\\p{L}*", "συνέντευξη", "ראיון", "مقابلة", "حوار مع", "інтерв.ю", "interviu\\p{L}*", "interviul", "phỏng vấn", "tréler", "trailern", "traileren", "traileri", "трейлър", "τρέιλερ", "טריילר", "إعلان", "ukážka", "részlet", "ennakko", "förhandsvisning",
    "rencontres? avec", "encuentro con", "incontro con", "meet the \\w+", "gespräch mit", "im gespräch", "filmgespräch", "conversation with", "q ?(?:&|and|und) ?a", "gag reel", "escenas eliminadas", "scene eliminate", "geschnittene szenen", "audiokommentar",
  ], "予告|预告|預告|예고편|티저|メイキング|花絮|片段|インタビュー|采访|인터뷰");
  // What is called like a film and is none; only asked where nothing but words tells.
  const OTHER = words([
    "scenes?", "szenen", "reviews?", "kritik", "rezension", "critique", "reseña", "recensione", "explained",
    "erklärt", "expliquée?", "explicad[ao]", "analysis", "analyse", "análisis", "breakdown", "ending", "endings",
    "theory", "theories", "reacts?", "reaction", "reaktion", "reacción", "commentary", "podcast\\w*", "rewatch",
    "lecture", "lectures", "vorlesung\\w*", "cours", "course", "kurs", "lesson", "lektion", "tutorial", "webinar",
    "keynote", "talk", "talks", "talkshow", "vortrag", "panel", "conference", "konferenz", "conférence", "conferencia",
    "seminar", "workshop", "symposium", "meeting", "concerts?", "konzerte?", "concierto", "concerto", "symphony",
    "sinfonie", "symphonie", "philharmoni\\w+", "orchest\\w+", "oper", "opera", "opéra", "festival", "live",
    "livestream", "live-?tv", "direct", "music video", "official video", "official audio", "musikvideo", "clip officiel",
    "lyrics?", "soundtrack", "score", "songs?", "album", "playlist", "remix", "karaoke", "gameplay", "let'?s play",
    "walkthrough", "playthrough", "longplay", "cutscenes?", "speedrun", "game", "games", "vlog", "unboxing", "haul",
    "news", "nachrichten", "tagesschau", "tagesthemen", "heute journal", "journal", "actualités", "noticias",
    "sportschau", "sports?", "match", "highlights", "bundesliga", "workout", "yoga", "training", "sermon",
    "gottesdienst", "predigt", "asmr", "top \\d+", "ranking", "ranked", "\\p{L}*essay", "moments", "best of", "how to", "why", "every", "everything",
    "how", "warum", "wie", "pourquoi", "comment", "things", "facts", "holidays?", "urlaub", "ferien", "vacation", "wedding",
    "hochzeit", "birthday", "geburtstag", "our trip", "my", "unser", "webcam", "cctv", "camera", "dashcam", "pressekonferenz",
    "press conference", "vs\\.?", "playing", "plays", "parliament", "bundestag", "debate", "debatte", "quiz", "show", "magazin", "audiobook",
    "hörbuch", "hörspiel", "audiobuch", "livre audio", "relaxing", "ambience", "sleep", "fireplace", "sounds",
    "\\p{L}*sitzung", "versammlung", "council", "hearing", "mitschnitt", "aufzeichnung", "theaterstück", "ballett?", "full match", "rennen", "grand prix",
    "unterricht", "schulung", "lernen", "learn", "learning", "zeitraffer", "time-?lapse", "masterclass", "andacht", "messe", "worship", "\\p{L}*tipps?", "lesung", "dj set", "mixtape", "q ?& ?a", "screencast", "demo",
    "концерт\\p{L}*", "лекци\\p{L}*", "новости", "матч", "обзор", "реакция", "прохождение", "урок", "подкаст", "стрим", "разбор", "wykład", "koncert\\p{L}*", "recenzja", "mecz", "wiadomości",
    "přednáška", "zprávy", "zápas", "előadás", "híradó", "konser", "ders", "haber\\p{L}*", "maç", "telejournal", "telegiornale", "notiziario", "tg\\d", "telediario", "informativo", "partita", "partido",
    "föreläsning", "nyheter", "gudstjänst", "foredrag", "nyheder", "uutiset", "hoorcollege", "journaal", "lezione", "clase", "aula", "palestra", "conferenza", "spettacolo", "misa", "missa", "messa", "culto",
    "log ?in", "sign ?in", "anmelden", "404", "not found", "suche", "search", "recherche",
  ], "公开课|课程|教程|网课|講座|授業|강좌|コンサート|ライブ|ニュース|講義|実況|解説|レビュー|讲座|音乐会|新闻|解说|直播|콘서트|뉴스|강의|리뷰|실황|생방송");
  const WHOLE = words([
    "full (?:\\p{L}+ ){0,2}(?:movie|film|length)", "(?:whole|complete|entire) (?:movie|film)", "ganzer (?:film|spielfilm)", "der ganze film",
    "(?:kompletter|vollständiger) (?:film|spielfilm)", "film komplett", "film complet", "película completa",
    "pelicula completa", "film completo", "filme completo", "spielfilm", "полный фильм", "cały film", "hele film(?:en)?",
    "full film", "teljes film", "celý film", "hela filmen", "koko elokuva", "повний фільм", "ολόκληρη ταινία", "film întreg", "فيلم كامل", "full [iİ]zle", "tek parça",
    "die ganze doku", "ganze doku", "full documentary", "documentaire complet", "documental completo", "feature film", "in voller länge",
  ], "本編フル|完整版|전체 ?영화|풀영화");
  const FILM = words([
    "film", "films", "filme", "filmen", "spielfilm\\w*", "fernsehfilm\\w*", "kinofilm\\w*", "movies?", "kino", "cin[eé]ma", "cine",
    "pel[ií]culas?", "doku\\w*", "documentar\\w+", "documentaire\\w*", "documental", "kurzfilm\\w*", "courts?[- ]m[eé]trages?",
    "short film", "cortometraje", "фильм\\p{L}*", "фільм\\p{L}*", "\\p{L}*film", "ταινία", "elokuva\\p{L}*", "filmi", "فيلم", "סרט", "फिल्म", "फ़िल्म", "phim", "dokument\\p{L}*", "feature", "filmmittwoch", "kvikmynd", "filmas", "filmovi", "филм",
  ], "映画|邦画|洋画|电影|電影|영화|ภาพยนตร์");
  // What is no film although the page calls it one.
  const PERFORMED = words([
    "konzerte?", "concerts?", "concierto", "philharmoni\\w+", "live (?:at|in|from|aus)", "gameplay", "let'?s play", "podcast",
    "lecture", "vorlesung", "webinar", "music video", "musikvideo", "in concert", "en concert", "en concierto", "in concerto", "unplugged", "(?:world|farewell|stadium|reunion|live) tour", "live(?=:|$)",
    "full match", "match replay", "matchday", "spieltag", "highlights", "uefa", "champions league", "premier league", "bundesliga", "la ?liga", "nfl", "nba", "nhl", "mlb", "wwe", "ufc", "grand prix", "world cup", "weltmeisterschaft", "calcio", "fútbol", "fußball",
    "wedding films?", "hochzeitsfilme?", "cinematics", "cutscenes", "game movie", "imagefilm", "markenfilm", "werbefilm", "firmenfilm", "imagevideo", "brand film", "commercial",
  ]);
  // Said of a film by somebody who talks about it, also where the title itself is known.
  const ABOUT_ONE = words([
    "explained", "erklärt", "expliquée?", "reacts?", "reaction", "reaktion", "reviews?", "kritik", "analysis", "analyse", "commentary", "cutscenes?",
    "walkthrough", "ranking", "ranked", "top \\d+", "recap", "audiobook", "hörbuch", "hörspiel", "rewatch", "\\p{L}*essay", "retrospective", "let'?s play", "gameplay", "podcast\\w*",
    "keynote", "webinar", "vorlesung\\w*", "lectures?", "lektion", "lesson", "gottesdienst", "predigt", "sermon", "\\p{L}*sitzung", "pressekonferenz",
    "press conference", "tutorial", "livestream", "full match", "vlog", "zeitraffer", "time-?lapse", "webcam", "unboxing", "meeting",
  ]);
  const SHORT = words(["kurzfilm\\w*", "court[- ]métrages?", "courts[- ]métrages", "short films?", "(?:animated|documentary|student|live[- ]action) shorts?", "cortometrajes?", "cortometraggi\\w*", "curtas?[- ]metragens?", "curta[- ]metragem", "kortfilm\\w*", "korte film", "короткометражн\\p{L}+", "短編映画", "短片", "단편영화"]);

  (globalThis.epicrec ??= {}).text = {
    numbers, lineNumbers, someNumbers, beforeNumbers, clean, trim, withYear, yearIn, plain, decode, pathOf, seconds, beside, labels, sentences, nearYear, nearLength, withoutSite, isSiteName, bare, headed, ownName, ENDING,
    isWhole, isQuiet, isAround, EXTRA, OTHER, PERFORMED, ABOUT_ONE, WHOLE, FILM, SHORT,
  };
})();
