"use strict";
// Text: what titles of pages say in words and numbers, in the languages people watch in.
(() => {
  const { of, all, oneOf } = globalThis.epicrec.words;
  const SEASON = `(?:${all("season")})\\.?`;
  const EPISODE = `(?:[eé]p|${all("episode")})(?!\\p{L})\\.?`;
  const GAP = "[^\\p{L}\\d]{0,5}";
  const made = (...parts) => new RegExp(parts.join(""), "iu");
  const BOTH = [
    made("(?<![\\p{L}\\d])[ST]\\.?\\s?(?<s>\\d{1,2})\\s*[-:.,·/| ]*\\s*[EÉF](?:p\\.?)?\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])[STKΚ](?<s>\\d{1,2})\\s?[:.,·]?\\s?[AJOBΕ]\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])T(?<s>\\d{1,2})\\s*[-:.,·/| ]*\\s*C(?:ap\\.?)?\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])(?<s>\\d{1,2})x(?<e>\\d{2,3})(?![\\p{L}\\d])"),
    made("(?<![\\p{L}\\d])[ST](?<s>\\d{1,2})", GAP, EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)"),
    made(SEASON, "\\s*(?<s>\\d{1,2})(?!\\d)", GAP, EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)"),
    made(EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)", GAP, SEASON, "\\s*(?<s>\\d{1,2})(?!\\d)"),
    made("(?<![\\p{L}\\d])(?<s>\\d{1,2})(?:[.ªº]|-?[йя])?\\s*", SEASON, GAP, "(?<e>\\d{1,4})(?:[.ªº]|-?[йя])?\\s*", EPISODE),
    made("(?<s>\\d{1,2})[.ªº]\\s*", SEASON, GAP, EPISODE, "\\s*(?<e>\\d{1,4})(?!\\d)"),
    made(SEASON, "\\s*(?<s>\\d{1,2})", GAP, "(?<e>\\d{1,4})\\.\\s*", EPISODE),
    made("(?<!\\d)(?<s>\\d{1,2})\\.\\s*(?:série|séria|sezóna)", GAP, "(?<e>\\d{1,4})\\.\\s*", EPISODE),
    made("(?<![\\p{L}\\d])(?:", SEASON, "\\s*|[ST])(?<s>\\d{1,2})\\s*\\((?<e>\\d{1,4})/\\d+\\)"),
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
    made("(?<!\\d)(?<e>\\d{1,4})\\.\\s*(?:", EPISODE, "|del(?!\\p{L}))"),
    made("第\\s*(?<e>\\d{1,4})\\s*[话話回集]"),
    made("(?<![\\p{L}\\d])제?\\s*(?<e>\\d{1,4})\\s*[화회话話](?!\\p{L})"),
    made("\\((?<e>\\d{1,4})/\\d{1,4}\\)"),
    made("(?<![\\p{L}\\d&])#\\s?(?<e>\\d{1,4})(?![\\p{L}\\d])"),
    made("(?:^|[|–-] )F(?!1 )(?<e>\\d{1,3}) [-–] (?=\\p{L})"), // "F3 - Name"
    made("(?<=\\p{L} )\\((?<e>\\d{1,3})\\)(?=\\s*(?:$|[-–:|]))"),
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

  // What stands before and after the first words about season and episode; null where there are none.
  function aroundNumbers(text) {
    const found = [...BOTH, ...ONLY_SEASON, ...ONE].map((p) => p.exec(text)).filter(Boolean)
      .sort((a, b) => a.index - b.index)[0];
    return found ? [text.slice(0, found.index), text.slice(found.index + found[0].length)].map(trim) : null;
  }
  const beforeNumbers = (text) => aroundNumbers(text)?.[0] ?? null;

  const DIGITS = { "٠": 0x660, "۰": 0x6f0, "०": 0x966, "০": 0x9e6, "௦": 0xbe6, "౦": 0xc66, "๐": 0xe50 };
  const digit = (one) => String(one.codePointAt(0) - Object.values(DIGITS).findLast((zero) => zero <= one.codePointAt(0)));
  // One line of text, without marks nobody sees; digits of other scripts are read as ours.
  function clean(text) {
    return (text ?? "").replace(/[٠-٩۰-۹०-९০-৯௦-௯౦-౯๐-๙]/g, digit).replace(/[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, "").replace(/\s+/g, " ").trim();
  }

  const FILE = /^(?:file:|.*\/\s*)?([^/]+?)\.(?:mkv|mp4|webm|avi|ogv|m4v|mov)(?![\p{L}\d])/iu;
  // The name of a file as a title: "Name.1971.1080p.BluRay.mkv" is the whole film Name (1971).
  const unfiled = (text) => text.replace(/^Index of \/(?:.*\/)?([^/]+)\/?$/, "$1").replace(FILE, (all, name) => {
    const spaced = name.includes(" ") ? name : name.replaceAll(/[._]/g, " "), made = /^(.*?\S) \(?((?:19|20)\d\d)\)? .*(?:\d{3,4}p|blu-?ray|dvd|web|x26[45])/i.exec(spaced);
    return made && !numbers(spaced) ? `${made[1]} (${made[2]}) full movie` : spaced;
  });

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

  const HOURS = "(?:h|hrs?|hours?|std|stunden?|heures?|horas?|or[eăa]|uur|tim(?:mar)?|tuntia?|godz|hod|óra|ó|ώρ(?:α|ες)|saat|sa|ч|час\\p{L}*|год|ساعة|ساعات|ساعت|שעה|שעות|giờ|jam|घंट\\p{M}*)(?!\\p{L})|時間|小时|小時|시간|ชั่วโมง|ชม";
  const IN_HOURS = made("(\\d+)\\s*(?:", HOURS, ")\\.?\\s*(?:(?:and|et|und|y|e|و)\\s*)?(?:(\\d+)\\s*(?:m|", all("minute"), "))?");
  const IN_MINUTES = made("(\\d+)\\s*(?:", all("minute"), ")");
  // Seconds of "PT2H16M", "1h 58min", "113 Min." or "143分"; null where there are none.
  function seconds(text) {
    const said = clean(String(text ?? ""));
    if (/^\d+$/.test(said)) return Number(said);
    const iso = /^P(?:T|.*T)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?/i.exec(said);
    if (iso && (iso[1] || iso[2] || iso[3])) {
      return 3600 * (iso[1] ?? 0) + 60 * (iso[2] ?? 0) + Number(iso[3] ?? 0);
    }
    const hours = IN_HOURS.exec(said);
    if (hours) return 3600 * hours[1] + 60 * (hours[2] ?? 0);
    const minutes = IN_MINUTES.exec(said);
    return minutes ? 60 * minutes[1] : null;
  }

  const ANOTHER_YEAR = /\d{1,2}[./]\s?\d{1,2}[./]\s?\d{2,4}|(?<!\d)\d{1,2}(?:\.|er|st|nd|rd|th)? (?:de |d[ei] )?\p{L}{3,}\.? (?:de )?\d{4}|\p{L}{3,}\.? \d{1,2}, \d{4}|©|\d{4}-\d\d|\d{4}\s*[-–]\s*\d{4}|(?<!\p{L})(?:since|seit|until|bis|jusqu|added|verfügbar|available|upload\w*|views|restored|restauriert|restaur\p{L}+|copyright|recorded|hochgeladen|online|aufgezeichnet|aufzeichnung|depuis|desde|dal|since)(?!\p{L})/iu;
  const SEPARATED = "\\s*[·•|/∙,;]";
  const YEAR_LINE = made(
    "^\\D{0,3}", YEAR, "(?:\\D{0,3}$|年|", SEPARATED, ")|", SEPARATED, "\\s*(?:\\p{L}+[ /]){0,2}(?:1[89]\\d\\d|20\\d\\d)(?:$|", SEPARATED, ")|",
    "^[(\\[]?(?:[\\p{L}.]+[ /,-]+){1,4}(?:1[89]\\d\\d|20\\d\\d)(?:$|", SEPARATED, ")|",
    "^(?:", all("year"), ")\\s*[::]?\\s*(?:1[89]\\d\\d|20\\d\\d)",
  );
  // Short lines beside the heading: what it is, when and by whom it was made, how long it is.
  const beside = (facts) => [...facts.above, ...facts.small].filter((one) => one.length < 80 && !ANOTHER_ONE.test(one));
  const ANOTHER_ONE = /^(?:\p{L}+ )?(?:next|previous|prev|nächste|vorherige|vorige|weiter|suivant|précédent|siguiente|anterior|próxim|prossim|precedente|volgende|vorige|nästa|föregående|następn|poprzedni|следующ|предыдущ|次の|前の)|→|»/iu;

  // Of such lines those that name what it is; a sentence tells what happens in it.
  const labels = (facts) => beside(facts).filter((one) => !isProse(one));
  const isProse = (line) => !/[·•|]|\d\s*\p{L}+\.$/u.test(line) && (/[。！？]$/.test(line) || (/\p{L}[.!?…]["”»]?$/u.test(line) && line.split(" ").length > 3));
  // The short sentences of longer lines, each line's first one first.
  const sentences = (facts) => facts.small.filter((one) => one.length >= 80).map((one) => one.split(/(?<=[.!?])\s+/).filter((part) => part.length < 80));

  const LASTING = made("\\d\\s*(?:", all("minute"), "|", HOURS, ")(?!\\p{L}{9})");
  // How long it is said to be in such a line, in seconds.
  function nearLength(facts) {
    return beside(facts).map((one) => (LASTING.test(one) ? seconds(one) : null)).find((one) => one >= 180) ?? null;
  }

  // A year alone in such a line.
  function nearYear(facts) {
    const lines = beside(facts).filter((one) => YEAR_LINE.test(one) && !ANOTHER_YEAR.test(one)), months = lines.filter((one) => /^\p{L}+ \d{4}$/u.test(one));
    const years = new Set(lines.filter((one) => months.length < 2 || !months.includes(one)).map(yearIn)); // "March 2024, April 2024" is a calendar
    return years.size === 1 ? [...years][0] : null;
  }

  function isSiteName(part, facts) {
    const host = plain(new URL(facts.address).hostname.replace(/^www\./, "").replace(/(?:\.(?:co|com|org|net|ac|gov))?\.\w+$/, "").split(".").at(-1));
    return isAround(part) || [...facts.names.map(plain), host].some((name) => name && (plain(part) === name || (plain(part).length > 3 && name.includes(plain(part))) || (plain(part).length > 1 && host.startsWith(plain(part))) || (name.length > 3 && plain(part).includes(name) && part.split(" ").length < 4)));
  }

  // A title of a page without the name of its site.
  function withoutSite(title, facts) {
    const isSite = (part) => isSiteName(part, facts);
    const parts = clean(title).split(/(\s+[-–—|•·»:]\s+|\s*[|•»]\s*)/), first = /^(.*?):\s+(?=\S)/.exec(parts[0]);
    if (first && isSite(first[1])) parts[0] = parts[0].slice(first[0].length);
    const whole = parts.length;
    while (parts.length > 2 && isSite(parts.at(-1))) parts.splice(-2);
    while (parts.length > 2 && isSite(parts[0])) parts.splice(0, 2);
    const heading = facts.h1[0];
    if (parts.length > 2 && parts.length === whole && !(heading && plain(heading).includes(plain(parts.at(-1)))) && /[|•·»]/.test(parts.at(-2))) parts.splice(-2);
    const verb = /^(?:watch|stream|regarder|guarda|assistir)\s+(?=\S)/i;
    const bare = parts.join("");
    if (verb.test(bare) && heading && plain(heading) === plain(bare.replace(verb, ""))) return trim(heading);
    return trim(bare.replace(/^(?:watch|stream|regarder|ver)\s+(?=.*\b(?:online|free|full|stream|gratis|hd)\b)/i, "").replace(/\s*\b(?:online (?:anschauen|ansehen|stream\w*)|stream\w* online|hier anschauen|watch online)\b.*$/i, ""));
  }

  const SAID_OF_IT = "free with ads|with ads|mit werbung|con anuncios|u?hd|full hd|4k(?: (?:restoration|restored|remaster\\p{L}*))?|omu|omeu|ov|omd|df|ova|vf|vo(?:st\\p{L}*)?|deutsch|german|english|subbed|dubbed|sub\\p{L}* \\p{L}+|uncut|unrated|fsk ?\\d+|online|stream\\p{L}*|gratis|kostenlos|free|signed|(?:mit )?(?:audiodeskription|untertiteln?|gebärdensprache)|hörfassung|klare sprache|audio[- ]described|audio description" +
    "|(?:the )?(?:director['’]?s?|extended|final|theatrical|ultimate|special|unrated|collector['’]?s?|anniversary|restored|remastered|\\d+th anniversary)(?: \\p{L}+)? (?:cut|edition|version)|(?:digitally )?(?:restored|remastered|restoration)|(?:\\p{L}+)?restaurierte fassung|restauriert|langfassung|kinofassung|director['’]?s cut|extended|versione (?:restaurata|integrale)|restaurato|version (?:restaurée|longue|intégrale)|versión (?:restaurada|extendida)|montaje del director";
  const BRACKET = /\s*[([（]([^()[\]（）]*)[)\]）]$/;
  const BEHIND = made("\\s*(?:[([]\\s*(?:", SAID_OF_IT, ")(?:[,/;·|]? ?(?:", SAID_OF_IT, "))*\\s*[)\\]]|\\s[-–—:|·]\\s*(?:", SAID_OF_IT, "))\\s*$");
  const LABEL = /^(?:film|movie|spielfilm|fernsehfilm|kurzfilm|short film|dokumentarfilm|dokumentation|doku|documentary|documentaire|documental|documentario|documentário|dokumentär|court métrage|cortometraje|cortometraggio|фильм|фільм)\s?[:|–-]\s+(?=\S)/iu;
  // "The film Name", where letters have no cases that would tell a name from a word.
  const CALLED_FILM = new RegExp(`^((?:${[...of("film"), ...of("short")].filter((word) => /^[^\\p{Lu}\\p{Ll}]+$/u.test(word.replaceAll("\\p{L}", ""))).join("|")}))\\s+(\\S.*)$`, "u");
  // "Watch Name", "Name online": verbs no film begins with, and what stands behind a name in small letters.
  const WATCHED = /^(?:(?:[Rr]egarder|[Aa]ssist(?:ir|a)|[Oo]glądaj|[Gg]uarda|[Сс]мотреть|[Дд]ивитися|[Ss]ledujte|[Nn]onton|[Xx]em|[Gg]ledaj)\s+(\p{Lu}.*)|(\p{Lu}.*?\S)(?:\s+(?:(?:im |en )?stream(?:ing|en)?|online|gratis|kostenlos|ansehen|anschauen|en ligne|en vod|en VOD|izle|смотреть|онлайн|бесплатно|дивитися))+|(.*?\S)(?:を(?:見る|観る|視聴\p{L}*)|の(?:視聴|動画)| 보기| 다시보기))$/u;
  // A film's title without what is said of this edition or recording of it.
  function bare(title) {
    const found = WATCHED.exec(title);
    if (found) return bare(found[1] ?? found[2] ?? found[3]);
    const said = CALLED_FILM.exec(title);
    if (said && said[2].length > 1) return bare(said[2]);
    const cut = (FILM.test(BRACKET.exec(title)?.[1] ?? "") ? title.replace(BRACKET, "") : title).replace(BEHIND, "").replace(LABEL, "");
    return cut === title || !cut ? title : bare(cut);
  }

  // Words that may stand behind "full movie" without saying that it is something else.
  const BEHIND_WHOLE = /^(?:in|auf|en|with|mit|free|gratis|kostenlos|online|hd|hq|uhd|4k|\d+p?|english|englisch|deutsch|german|french|français|español|castellano|latino|italiano|português|hindi|subtitles?|subs?|subtitulad[ao]|vostfr|vf|vo|legendado|dublado|drama|thriller|western|horror|comedy|romance|action|adventure|crime|noir|sci-fi|classic|remastered|restored|colou?ri[sz]ed|movie|film|фильм|black|and|white|[&+,.:!*#-]+)$/i;
  // "Full movie", not "full movie score": what follows in the same breath is said of the film's recording.
  function isWhole(title) {
    const found = WHOLE.exec(title);
    if (!found) return false;
    const behind = /^[^|()[\]–—•:"„“]*/.exec(title.slice(found.index + found[0].length))[0].split(/\s-\s/)[0];
    return trim(title.slice(0, found.index)) === "" || withYear(title.slice(0, found.index)) !== null || /^\s*(?:by|von|par|di|de|with|mit|avec|con|com|med|z)\s+\p{Lu}/u.test(behind) || clean(behind).split(" ").every((word) => isSaid(word));
  }
  const isSaid = (word) => isAround(word) || BEHIND_WHOLE.test(word);

  // What stands behind a name and its year names somebody, or the recording; a sentence speaks about the film.
  function isQuiet(rest) {
    const words = rest.replace(/[([][^)\]]*[)\]]/g, " ").split(/[\s|,–-]+/).filter((word) => !isSaid(word));
    return words.length <= 2 && words.every((word) => /^\p{Lu}/u.test(word));
  }

  const AROUND = new Set((of("watch").join(" ") + " player wiedergabe lecteur lecture reproductor riproduttore speler spelare afspiller avspiller odtwarzacz přehrávač lejátszó oynatıcı плеер плейер програвач مشغل 播放 再生 재생 playing video videos home startseite start accueil inicio watch stream streamen streaming voir regarder ver assistir guarda guardare oglądaj izle смотреть фильм see play online free gratis kostenlos full movie film filme films "
    + "complet completo completa hd vf vostfr en in at on auf bei jetzt hier now here ansehen anschauen schauen legal").split(" "));
  const isAround = (text) => text.toLowerCase().split(/[^\p{L}\p{M}\d]+/u).every((word) => !word || AROUND.has(word));
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

  // Of a name with words around it that say nothing of its own ("Watch … online", "the film …") what another text of the page
  // or its address gives as the name.
  function agreed(name, facts, data) {
    const slugs = pathOf(facts.address).split("/").map((part) => part.replace(/\.\w{2,5}$/, "").replace(/^\d{4,}[-_]|[-_](?:[a-z]?\d{4,}|[\da-f]{8,})$/gi, ""));
    const given = new Set([...facts.h1, ...facts.h2, ...[facts.title, clean(facts.og.title)].flatMap((one) => [withoutSite(one, facts), ...one.split(/\s[-–—|•·:]\s|[|(（]/)]), data.video?.name ?? "", ...slugs].map(plain));
    const first = /^(.+?)\s*[(（][^()（）]*[)）]$/.exec(name)?.[1]; // "Name (another name)"
    if (first && given.has(plain(first)) && !plain(facts.title).includes(plain(name))) return first;
    const words = name.split(" "), isNoise = (one) => (!/^\d+$/.test(one) && isSaid(one.replaceAll(/[^\p{L}\p{M}\d]/gu, "").toLowerCase())) || FILM.test(one);
    for (let less = 1; less < words.length; less += 1) {
      for (let begin = 0; begin <= less; begin += 1) {
        const end = words.length - (less - begin);
        if ([...words.slice(0, begin), ...words.slice(end)].every(isNoise) && given.has(plain(words.slice(begin, end).join(" ")))) return trim(words.slice(begin, end).join(" "));
      }
    }
    return name;
  }

  // What is said behind a name: that it is a short film, and whose.
  const ENDING = /[,:]?\s*(?:an?\s+)?(?:award[- ]winning\s+)?(?:(?:animated |student |\p{L}+\s+)?short(?: film)?(?=$|\s+(?:by|von)|\s*[|([–-])|kurzfilm|court[- ]métrage|cortometrajes?|cortometraggio|curta[- ]metragem|full documentary|documentary|film(?=\s+(?:by|von)\s))(?:\s+(?:by|von|de|di|par)\s.*)?$/iu;

  // Beside a film, never the film: also on a page that is about one.
  const EXTRA = oneOf([
    ...of("extra"),
    "previews?", "first look", "sneak peek", "clips?", "featurette", "making[- ]?of", "outtakes?", "bloopers?", "bonus\\w*", "extras?", "special features?", "promo",
    "szene", "scène", "escena", "recap", "(?:the )?first \\w+ minutes", "(?:die )?ersten \\w+ minuten", "primeros minutos", "hinter der kamera", "tréler", "trailern", "traileren",
    "encuentro con", "meet the \\w+", "gespräch mit", "filmgespräch", "(?:in )?conversation(?: with|(?=:))", "q ?(?:&|and|und) ?a", "gag reel", "audiokommentar",
  ]);
  // What is called like a film and is none; only asked where nothing but words tells.
  const OTHER = oneOf([
    ...of("staged"),
    "scenes?", "szenen", "reviews?", "kritik", "rezension", "critique", "reseña", "recensione", "explained", "erklärt", "expliquée?", "explicad[ao]", "analysis", "analyse",
    "análisis", "breakdown", "ending", "endings", "theory", "theories", "reacts?", "reaction", "reaktion", "reacción", "commentary", "podcast\\w*", "rewatch", "lectures",
    "vorlesung\\w*", "cours", "lesson", "lektion", "tutorial", "webinar", "keynote", "talk", "talks", "talkshow", "panel", "conference", "konferenz", "seminar", "symposium",
    "meeting", "konzerte?", "symphony", "sinfonie", "symphonie", "philharmoni\\w+", "orchest\\w+", "festival", "live", "livestream", "live-?tv", "direct", "music video",
    "official video", "official audio", "musikvideo", "clip officiel", "lyrics?", "soundtrack", "score", "songs?", "album", "playlist", "remix", "karaoke", "gameplay",
    "let'?s play", "walkthrough", "playthrough", "longplay", "cutscenes?", "speedrun", "game", "games", "vlog", "unboxing", "haul", "tagesschau", "tagesthemen", "heute journal",
    "journal", "sportschau", "sports?", "match", "highlights", "bundesliga", "workout", "yoga", "training", "sermon", "predigt", "asmr", "top \\d+", "ranking", "ranked",
    "\\p{L}*essay", "moments", "best of", "how to", "why", "every", "everything", "how", "warum", "wie", "pourquoi", "comment", "things", "facts", "holidays?", "urlaub", "ferien",
    "vacation", "wedding", "hochzeit", "birthday", "geburtstag", "our trip", "my", "unser", "webcam", "cctv", "camera", "dashcam", "pressekonferenz", "press conference", "vs\\.?",
    "playing", "plays", "parliament", "bundestag", "debate", "debatte", "quiz", "show", "magazin", "audiobook", "hörbuch", "hörspiel", "audiobuch", "livre audio", "relaxing",
    "ambience", "sleep", "fireplace", "sounds", "\\p{L}*sitzung", "versammlung", "council", "hearing", "mitschnitt", "aufzeichnung", "theaterstück", "ballett?", "full match",
    "rennen", "grand prix", "unterricht", "schulung", "lernen", "learn", "learning", "zeitraffer", "time-?lapse", "masterclass", "andacht", "messe", "worship", "\\p{L}*tipps?",
    "dj set", "mixtape", "q ?& ?a", "screencast", "demo", "реакция", "прохождение", "урок", "подкаст", "стрим", "разбор", "haber\\p{L}*", "telejournal", "tg\\d", "informativo",
    "spettacolo", "culto", "log ?in", "sign ?in", "anmelden", "404", "not found", "suche", "search", "recherche", "教程", "网课", "授業", "강좌", "ライブ", "実況", "解説", "レビュー", "解说", "直播",
    "리뷰", "실황", "생방송",
  ]);
  const WHOLE = oneOf([
    ...of("whole"),
    "full (?:\\p{L}+ ){0,2}(?:movie|film|length)", "(?:whole|complete|entire) (?:movie|film)", "ganzer (?:film|spielfilm)", "der ganze film",
    "(?:kompletter|vollständiger) (?:film|spielfilm)", "spielfilm", "hele film(?:en)?", "full [iİ]zle", "ganze (?:doku|reportage)", "(?:reportage|reportaje|reportaż|documental|documentario) complet\\p{L}*", "full documentary", "documentaire complet",
    "documental completo",
  ]);
  const FILM = oneOf([
    ...of("film"), ...of("short"),
    "kino", "cin[eé]ma", "cine", "courts?[- ]m[eé]trages?", "\\p{L}*film", "filmmittwoch",
  ]);
  // Who made it, and what sort of story it is.
  const CREDIT = oneOf([
    ...of("director"),
    "(?:dir|rend|yön|red|regi)(?=\\.|:)", "regía", "r\\.?:(?= )",
  ]);
  const GENRE = oneOf([
    ...of("genre"),
    "dram\\p{L}{0,3}", "kom[eé]di\\p{L}*", "animation", "science[- ]fiction", "sci-fi", "film noir", "adventure", "комед\\p{L}+",
  ]);
  // What is no film although the page calls it one.
  const PERFORMED = oneOf([
    "koncert\\p{L}*", "konser\\p{L}*", "концерт\\p{L}*", "kontsert", "konsertti", "concerto", "συναυλία", "קונצרט", "حفلة", "hòa nhạc", "コンサート", "콘서트", "演唱会", "演唱會", "音乐会", "音樂會", "คอนเสิร์ต",
    "\\p{L}*konzert(?:e|mitschnitt|aufzeichnung|film)?", "concerts?", "concierto", "speakers?", "session", "referent(?:in)?", "philharmoni\\w+", "live (?:at|in|from|aus)", "gameplay", "let'?s play", "podcast",
    "lecture", "vorlesung", "webinar", "music video", "musikvideo", "in concert", "en concert", "en concierto", "in concerto", "unplugged", "(?:world|farewell|stadium|reunion|live) tour", "live(?=:|$)",
    "full match", "match replay", "matchday", "spieltag", "highlights", "uefa", "champions league", "premier league", "bundesliga", "la ?liga", "nfl", "nba", "nhl", "mlb", "wwe", "ufc", "grand prix", "world cup", "weltmeisterschaft", "calcio", "fútbol", "fußball",
    "wedding films?", "hochzeitsfilme?", "cinematics", "cutscenes", "game movie", "imagefilm", "markenfilm", "werbefilm", "firmenfilm", "imagevideo", "brand film", "commercial",
  ]);
  // Said of a film by somebody who talks about it, also where the title itself is known.
  const ABOUT_ONE = oneOf([
    "explained", "erklärt", "expliquée?", "reacts?", "reaction", "reaktion", "reviews?", "kritik", "analysis", "analyse", "commentary", "cutscenes?",
    "walkthrough", "ranking", "ranked", "top \\d+", "recap", "audiobook", "hörbuch", "hörspiel", "rewatch", "\\p{L}*essay", "retrospective", "let'?s play", "gameplay", "podcast\\w*",
    "keynote", "webinar", "vorlesung\\w*", "lectures?", "lektion", "lesson", "gottesdienst", "predigt", "sermon", "\\p{L}*sitzung", "pressekonferenz",
    "press conference", "tutorial", "livestream", "full match", "vlog", "zeitraffer", "time-?lapse", "webcam", "unboxing", "meeting",
  ]);
  // An episode that has no number.
  const SPECIAL = /(?<!\p{L})(?:\p{L}+ )?(?:specials?|finale|pilot|weihnachts\p{L}+|spécial(?: noël)?|especial(?: de navidad)?|speciale(?: natale)?)$|^(?:christmas|new year)/iu;
  const SHORT = oneOf([
    ...of("short"),
    "(?:animated|documentary|student|live[- ]action) shorts?",
  ]);

  (globalThis.epicrec ??= {}).text = {
    numbers, lineNumbers, someNumbers, beforeNumbers, aroundNumbers, unfiled, clean, trim, withYear, yearIn, plain, decode, pathOf, seconds, beside, labels, sentences, nearYear, nearLength, LASTING, withoutSite, isSiteName, bare, headed, ownName, agreed, ENDING,
    isWhole, isQuiet, isAround, EXTRA, OTHER, PERFORMED, ABOUT_ONE, WHOLE, FILM, SHORT, CREDIT, GENRE, SPECIAL,
  };
})();
