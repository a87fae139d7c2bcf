"use strict";
// Sites: where known pages show what they play or are about. `marks` are the elements that are read;
// `read` makes of their texts what the page is about, null for "nothing here"; undefined leaves the
// page to what every page is asked.
(() => {
  const { clean, trim, numbers, lineNumbers, someNumbers, beforeNumbers, withYear, yearIn, plain, pathOf, seconds, beside, nearYear, withoutSite, isWhole, isQuiet, isAround, ENDING, EXTRA, OTHER, PERFORMED, ABOUT_ONE, WHOLE, FILM, SHORT, CREDIT, GENRE: STORY, SPECIAL } =
    globalThis.epicrec.text;
  const { of, all, oneOf } = globalThis.epicrec.words;
  const { idsIn } = globalThis.epicrec.schema;
  const path = (facts) => new URL(facts.address).pathname;
  const film = (title, more = {}) => ({ title: clean(title), year: null, kind: "film", ids: {}, least: 300, ...more });
  const episode = (title, texts, more = {}) => ({
    title: clean(title), year: null, kind: "episode", ids: {}, least: 180, ...someNumbers(texts), ...more,
  });

  const BESIDE = /^(?:trailer|teaser)\b\s*:|\b(?:trailer|teaser)(?: \d+)?$|making[- ]of|behind the scenes|featurette|hinter den kulissen|\bbonus/i;
  const ON_TOUR = /\p{L}\s*[:|–-]\s.*(?<!\p{L})tour(?!\p{L})/iu; // "Somebody: the … tour"
  // A player that shows a title, and a second line for episodes.
  function player(title, second, more = {}, numbered = second) {
    // a year or a length below a title says nothing of episodes
    const name = clean(title), line = /^(?:\d{4}|\d+\s?(?:h|min|std)\b[^:]*)$/i.test(clean(second)) ? "" : clean(second);
    const behind = name.split(/:\s|\s[-–—|]\s/).slice(1).join(" | "); // "Name: the making of it"
    if (!name || EXTRA.test(line) || EXTRA.test(behind) || BESIDE.test(name) || (!line && ON_TOUR.test(name)) || PERFORMED.test(`${name} | ${line}`)) return null;
    if (!line) return film(name, more);
    const said = lineNumbers(clean(numbered));
    const both = numbers(line);
    const alone = said.season === null && /^(?![ST])\p{Lu}(\d{1,4})(?!\d)/u.exec(line); // E3, F3, É3, A3, J3
    if (!alone && said.number === null) return null; // a strand, a match, an extra: not told
    return episode(name, [], { ...said, episode: both?.after || undefined, ...(alone ? { season: null, number: Number(alone[1]) } : {}), ...more });
  }

  function netflix(facts, { parts, whole }) {
    if (!/\/watch\//.test(path(facts))) return undefined;
    const [title, ...rest] = parts.length ? parts : whole;
    return title ? player(title, rest.join(" "), {}, rest.length > 1 ? rest[0] : rest.join("")) : undefined;
  }

  function disney(facts, { title, second }) {
    if (!/\/(?:play|video)\//.test(path(facts))) return undefined;
    const numbered = beside(facts).find((one) => numbers(one) || EXTRA.test(one));
    const named = withoutSite(facts.title, facts);
    return player(title[0] ?? (/^disney\s?(?:\+|plus)?$/i.test(named) ? "" : named), second[0] ?? (title.length ? "" : numbered) ?? "");
  }

  function prime(facts, { title, second, heading, year, runtime, genres }, data) {
    // a player that hides its title, on the page of one film
    if (!title.length) return !data.work && heading[0] && year[0] && seconds(runtime[0]) && !someNumbers([facts.title]).season ? film(heading[0], { year: yearIn(year[0]), length: seconds(runtime[0]), least: 2400 }) : undefined;
    if (genres.some((one) => PERFORMED.test(one) || /concert|konzert|sport|live/i.test(one))) return null;
    const same = heading[0] && plain(heading[0]) === plain(title[0]);
    return player(title[0], second[0], { year: same ? yearIn(year[0]) : null, length: same ? seconds(runtime[0]) : null });
  }

  const QUALITY = /^(?:hd|4k|full hd|uhd|english|deutsch|german|free|gratis|restored|colou?ri[sz]ed|classic|kostenlos|subtitled|omu|drama|thriller|western|komödie|comedy|horror|krimi|action|romance|auf deutsch|award[- ]winning)(?:\s.*)?$/i;
  const DOCUMENTARY = /(?<!\p{L})(?:documentary|doku|dokumentation|dokumentarfilm|documentaire|documental|documentario|documentário|belgesel|dokumentär|документальный фильм)(?!\p{L})/iu;
  // An episode is one where that is said, or where the series itself shows it.
  const WHOLE_EPISODE = /(?:full|whole|complete) episode|(?:ganze|komplette) folge|[eé]pis[oó]d[ei]o? (?:complet|completo|intero)|cap[ií]tulo completo|вся серия|полная серия|повний (?:випуск|епізод)|cały odcinek|tam bölüm|puntata (?:intera|completa)|(?:ganze|komplette) episode|hele aflevering|hela avsnittet|hele (?:episoden|afsnittet)|koko jakso|celý díl|teljes (?:epizód|rész)|episodul complet|ολόκληρο επεισόδιο|الحلقة (?:ال)?كاملة|פרק מלא/iu;
  // Sentences of somebody who speaks about films.
  const ABOUT_IT = /^(?:how|why|every|top \d+|(?:i|we) (?:watched|saw|ranked|tried|played|made)|the making|making|warum|wie|pourquoi|comment|por qué|cómo|perché|как|почему)(?![\p{L}:,])/iu;
  const APART = /^(?:فيلم|映画|película|pelicula|фильм)\s*(\S.*?)\s*(?:كامل|本編|completa|полностью)(?!\p{L})(.*)$/iu;
  // "Name 14. Bölüm": such words are said of series alone, where "episode" may be anybody's.
  const PART = /^(.*?)[\s:|–-]*(?:(?<!\p{L})(?:\d{1,3}\.?\s?(?:bölüm|серия|серія)|(?:серия|серія|tập)\s\d{1,3})(?!\p{L})|第\s?\d{1,3}\s?集)/iu;
  function youtube(facts, { heading, channel, rows, badges }, data) {
    if (!/^\/(?:watch|embed)/.test(path(facts))) return null;
    const shown = clean(heading[0] ?? facts.title.replace(/ - YouTube$/, "")), quote = /^([^«"„“]*\p{L}[^«"„“]*)[«"„“](.{2,60}?)[»"”“](.*)$/u.exec(shown);
    const apart = APART.exec(shown); // "the film Name, complete"
    const title = apart ? `${trim(apart[1])} | full movie ${apart[2]}` : quote && isAround(quote[1]) ? quote[2] + quote[3] : shown; // "the film «Name»"
    const whose = plain(channel[0] ?? ""), parts = title.split(/\s+(?:by|von|[|–-])\s+/); // a channel may be called anything
    if (!title || EXTRA.test(whose && plain(parts.at(-1)) === whose ? parts.slice(0, -1).join(" | ") : title) || data.live) return null;
    const genre = data.video?.genre ?? "";
    const made = rows.find((row) => /release|veröffentlich|erscheinung|sortie|estreno|uscita|lançamento|datum/i.test(row));
    const offered = (/youtube/i.test(channel[0] ?? "") && FILM.test(channel[0])) || /^(?:movies|filme|films)$/i.test(channel[0] ?? "") || genre === "Movies" || /movie/.test(facts.og.type ?? "")
      || (rows.length > 1 && made !== undefined);
    const said = withYear(title);
    if (offered) {
      if (numbers(title)) return episode(beforeNumbers(title) || title, [title], { least: 600 });
      return film(said && !said.rest ? said.title : title, { year: said?.year ?? yearIn(made), least: 2400 });
    }
    if (/music|gaming|news|sport|howto|people|science|pets|autos|travel/i.test(genre)) return null;
    // "How it was | Documentary": of a documentary the name may be a sentence
    const sentence = /^([^|]{3,})\s\|\s[^|]*$/.exec(title);
    if (sentence && DOCUMENTARY.test(title.slice(sentence[1].length)) && !ABOUT_ONE.test(title) && !withYear(title) && !OTHER.test(sentence[1].replace(ABOUT_IT, " "))) return film(sentence[1], { least: 1500 });
    if (ABOUT_IT.test(title)) return null;
    const bracket = said ? /[(\[][^()[\]]*\d{4}[^()[\]]*[)\]]/.exec(title)?.[0] ?? "" : ""; // "Name (comedy, directed by somebody, 1973)"
    const short = SHORT.test(title), whole = WHOLE.test(title) ? isWhole(title) : DOCUMENTARY.test(title) || short || CREDIT.test(bracket) || STORY.test(bracket);
    const named = whole && said ? said.title : "";
    if (OTHER.test(title.replace(WHOLE, " ").replace(named, " ")) || ABOUT_ONE.test(title.replace(WHOLE, " "))) return null;
    const counted = someNumbers([title.replace(WHOLE, " ")]).number !== null; // a part of something, or many of them
    const part = PART.exec(title);
    if (part && trim(part[1])) return episode(trim(part[1]), [title], { number: Number(/\d+/.exec(part[0].slice(part[1].length))[0]), least: 1200 });
    if (whole) {
      if (counted) return null;
      const bare = title.replace(WHOLE, " | "), dated = withYear(bare);
      const quoted = /["“„«](.{2,60}?)["”“»]/.exec(title)?.[1];
      if (short && quoted) return film(quoted, { year: dated?.year ?? null, least: 180 });
      const parts = (dated?.title ?? bare).split(/[|()[\]–—•]|\s-\s/).map((part) => trim(part.replace(ENDING, "")))
        .filter((part) => /\p{L}/u.test(part) && !QUALITY.test(part) && !WHOLE.test(part) && !/^(?:short|kurz|film|doku)/i.test(part));
      const end = /^(.*\S)\s+(1[89]\d\d|20\d\d)$/.exec(parts[0] ?? "");
      if (end && !dated && !WHOLE.test(title)) return null; // a film of that year, or about it
      const year = dated?.year ?? yearIn(end?.[2]) ?? yearIn(bare.replace(parts[0], ""));
      return parts[0] ? film(end && !dated ? end[1] : parts[0], { year, least: short ? 180 : DOCUMENTARY.test(title) ? 1200 : 2400 }) : null;
    }
    if (numbers(title) && (/entertainment|film|shows|comedy/i.test(genre) || (!genre && WHOLE_EPISODE.test(title)))) {
      // the series' own channel may name it last
      const series = beforeNumbers(title) || title.split(/\s*[|•]\s*/).find((part) => plain(part) === plain(channel[0] ?? ""));
      const sure = WHOLE_EPISODE.test(title) || /shows/i.test(genre) || (/^[ST]\d+\s?[:·x]?\s?E\d+(?:$|\s*[-–|:·])/i.test(title.slice(series?.length ?? 0).replace(/^[\s|:·–-]+/, "")) && !/[?!]/.test(title) && !OTHER.test(channel[0] ?? "")) || (series && plain(channel[0] ?? "") && (plain(series).includes(plain(channel[0])) || plain(channel[0]).includes(plain(series))));
      return series && sure ? episode(series, [title], { least: WHOLE_EPISODE.test(title) ? 240 : 1200 }) : null;
    }
    if (counted && /film/i.test(genre) && beforeNumbers(title)) return episode(beforeNumbers(title), [title], { least: 1200 });
    if (said && !counted && isQuiet(said.rest) && /film|movie/i.test(genre + badges.join(" ")) && said.title.split(" ").length <= 6 && !/:\s/.test(said.title)) {
      return film(said.title, { year: said.year, least: 3600 });
    }
    return null;
  }

  // The libraries of the broadcasters: what is no film there says so by its programme or its genre.
  const NOT_THERE = /nachrichten|news|journal(?!ist)|politik|(?<!\p{L})talk|show|(?<!tran|pas)sport|konzert|concert|musik|musique|music|(?<!\p{L})oper(?!\p{L})|opéra|opera|proms|magazin|(?<!un)wetter|orchest|sinfoni|symphon|philharmon|(?<!\p{L})chor(?!\p{L})|(?<!\p{L})live|satire|quiz|bühne|theater|théâtre|spectacle|infos|(?<!\p{L})actu|tagesschau|tagesthemen|(?<!\p{L})heute(?!\p{L})|maischberger|miosga|anne will|hart aber fair|illner|(?<!\p{L})lanz(?!\p{L})|monitor|panorama|weltspiegel|brisant|plusminus|(?<!\p{L})fakt(?!\p{L})|extra 3|(?<!\p{L})nuhr|gottesdienst|unterhaltung|gala(?!\p{L})|karneval|fasching|fastnacht|schlager|preisverleihung|parade|festzug|bundestag|landtag|debatte|(?<!be)sitzung/iu;
  const DAY = /(?<!\d)\d{1,2}[./]\s?\d{1,2}[./]\s?(?:\d{2,4})?(?!\d)|(?:vom|of|du|del?) \d{1,2}(?:\.|er)? (?:de )?\p{L}{3,}|^\d{1,2} \p{L}+ \d{4}$/iu;
  const COUNTED = /\(\d+\/\d+\)/, NUMBERED = /\((?!(?:18|19|20)\d\d\))(\d{1,4})\)$/;
  const GENRE = /^(?:serien?|séries?|film\p{L}*|spielfilm\p{L}*|fernsehfilm\p{L}*|kurzfilm\p{L}*|doku\p{L}*|documentair\p{L}*|krimi\p{L}*|drama|comedy|kino|cinéma)(?: .*)?$|film|kino|highlights|folgen|staffel/iu;
  const MADE = /(?<!\p{L})(?:regie|réalisation|réalisé|film|kom[öo]die|drama|drame|krimi|thriller|comédie|melodram|märchen|western|porträt|reportagen?)(?!\p{L})|film von|spielfilm|fernsehfilm|dokumentar/iu;
  const CHANNEL = /^(?:ard|das erste|zdf\w*|arte|3sat|one|funk|kika|phoenix|tagesschau24|alpha|wdr|ndr|mdr|swr|rbb|hr|sr|br|radio bremen)(?:[ -](?:alpha|fernsehen|mediathek|kultur|extra))?$/i;
  function library(facts, marks, data) {
    const page = withoutSite(facts.title, facts), head = clean(facts.h1[0] ?? data.video?.name ?? facts.og.title);
    const title = head && page.startsWith(`${head}: `) ? page.slice(head.length + 2) : head; // "Strand: Name", where the strand is the heading
    const where = path(facts), lines = beside(facts).filter((one) => one.split(" ").length < 12);
    const above = [...facts.above.flatMap((one) => one.split(/[|∙·•]/)).map(trim).filter((one) => one && !CHANNEL.test(one)), ...(title === head ? [] : [head])];
    const suffix = page.includes(title) ? page.slice(page.indexOf(title) + title.length) : "";
    if (data.work) return undefined;
    const kinds = [...above, ...lines, suffix, facts.og.site_name ?? "", clean(facts.title).split("|").at(-1)].join(" | ");
    if (!title || EXTRA.test(title) || EXTRA.test(suffix) || EXTRA.test(above.join(" | ")) || /\/live/.test(where) || NOT_THERE.test(kinds) || DAY.test(title) || ABOUT_ONE.test(title)
      || /\/(?:nachrichten|politik|sport|magazine?|shows|comedy|concert|arte-concert|talk)\//.test(where)) return null;
    const texts = [title, ...facts.h2, ...above, ...lines, page, clean(facts.og.title), pathOf(facts.address).replaceAll(/[-/]/g, " ")];
    const serial = /episode/.test(facts.og.type ?? "") || /(?:^|\| )s[eé]ri/i.test(kinds) || /\/(?:serien|series)\//.test(where) || COUNTED.test(title) || /^(?:tatort|polizeiruf 110)$/i.test(above.at(-1) ?? "");
    const counted = NUMBERED.exec(title);
    if (texts.some(numbers) || serial || counted || someNumbers([title]).number !== null) {
      const whole = numbers(page), before = (text) => beforeNumbers(text) || (COUNTED.test(text) ? text.split(COUNTED)[0] : "");
      const named = [...above.filter((one) => !GENRE.test(one) && beforeNumbers(one) === null).reverse(), ...[page, withoutSite(clean(facts.og.title), facts)].map((one) => (one.endsWith(title) ? trim(one.slice(0, -title.length)) : "")).filter((one) => !GENRE.test(one)), before(title), plain(whole?.before) === plain(title) ? whole.after.replace(/^[^\p{L}\d]+/u, "") : "", before(page), before(clean(facts.og.title)),
                     page.includes(": ") ? page.split(": ")[0] : "", title.split(/:\s|\s[-–]\s/)[0]];
      const names = named.map((one) => trim(one ?? "")).filter((one) => one.length > 1), series = names.find((one) => plain(one) !== plain(title)) ?? names[0];
      return series ? episode(series, texts, counted && !texts.some(numbers) ? { season: null, number: Number(counted[1]) } : {}) : null;
    }
    const known = FILM.test(`${kinds} ${where.replaceAll(/[-/]/g, " ")}`) || WHOLE.test(suffix);
    const said = withYear(title), year = said?.year ?? nearYear(facts);
    // a programme is a film where something says so, or where it is as long as one and nothing speaks against it
    const told = known || year !== null || MADE.test(`${kinds} | ${facts.about}`) || /^video\.movie/.test(facts.og.type ?? "");
    return film(said?.title ?? title, { year, least: known ? 300 : told ? 2400 : 4800, most: known || told ? Infinity : 9000, length: data.video?.length ?? null });
  }

  function bbc(facts, { parts }, data) {
    if (data.work || !/\/iplayer\/episode\//.test(path(facts))) return undefined;
    const page = withoutSite(facts.title.replace(/^BBC iPlayer\s[-–|]\s|\s[-–|]\sBBC iPlayer$/i, ""), facts), head = facts.h1[0] ?? "";
    // "Title - Series 1: 2. Name": the heading says where the title ends
    const numbered = facts.h2.find((one) => numbers(one) || DAY.test(one) || /^\d+\. /.test(one));
    const [title, second = numbered ?? ""] = parts.length ? parts : head && page.startsWith(head) ? [head, trim(page.slice(head.length))]
      : beforeNumbers(page) ? [beforeNumbers(page), trim(page.slice(beforeNumbers(page).length))] : [head || page];
    if (!title || NOT_THERE.test(`${title} ${second}`) || EXTRA.test(title) || DAY.test(trim(second)) || EXTRA.test(second)) return null;
    const said = withYear(title), named = said?.title ?? title;
    const counted = /(?:^|: )(\d{1,2})\. \S/.exec(second); // "The Mirror and the Light: 6. Light"
    if (counted && !numbers(second)) return episode(named, [second], { number: Number(counted[1]) });
    if (SPECIAL.test(second) || (second && /\(\d{4}[–-]/.test(title) && !numbers(second))) return episode(named, [], { season: null, number: null, least: 900 });
    const season = /^Series (\d{1,2}): (?!.*(?:week|results|highlights|heat|final|live|\d{2}\/\d{2}))/i.exec(second); // "Series 39: Supply and Demand"
    if (season && !numbers(second)) return episode(named, [], { season: Number(season[1]), number: null, least: 900 });
    return second ? player(named, trim(second)) : film(named, { year: said?.year ?? nearYear(facts), least: 2400 });
  }

  const NO_WORK = /video ?game|videospiel|jeu vid|videojuego|videogioco|jogo|gra wideo|видеоигра|ビデオゲーム|비디오 게임|电子游戏|podcast|music video|musikvideo|clip musical/i;
  function imdb(facts, { heading, above, series, link }, data) {
    const id = /^(?:\/[a-z]{2}(?:-[a-z]{2})?)?\/title\/(tt\d{7,})/.exec(path(facts))?.[1];
    const titled = clean(facts.og.title ?? "") || clean(facts.title);
    const bracket = /\(([^()]*\d{4}[^()]*)\)/.exec(titled)?.[1] ?? "";
    if (!id || data.game || NO_WORK.test(bracket) || NO_WORK.test(facts.title)) return null;
    const said = withYear(titled);
    const type = facts.og.type ?? "";
    const quoted = /^["“„](.+?)["”“]\s*(.*)$/.exec(said?.title ?? "");
    const kind = data.work?.kind ?? (/episode|folge|épisode|episodio/i.test(type + bracket) || quoted ? "episode"
      : /tv_show|serie|série/i.test(type + bracket) ? "series" : "film");
    const year = said?.year ?? data.work?.year ?? yearIn(bracket);
    const base = { year, kind, ids: { imdb: id }, look: true, length: data.work?.length ?? null, least: 2400 };
    if (kind === "episode") {
      const title = clean(series[0] ?? quoted?.[1] ?? data.work?.title ?? "");
      return title ? { ...base, ...someNumbers([clean(above[0]), clean(facts.title)]), title, episode: clean(heading[0]) } : null;
    }
    const title = clean(data.work?.title ?? said?.title ?? link[0] ?? heading[0]);
    return title && !/^404|not found/i.test(facts.title) ? { ...base, title } : null;
  }

  function letterboxd(facts, { heading, links, year, review }, data) {
    if (!/^\/(?:[\w-]+\/)?film\/[\w-]+\/?(?:\d+\/?|crew\/?|cast\/?|details\/?|genres\/?|releases\/?)?$/.test(path(facts))) return null;
    const og = [facts.og.title, facts.title].map((one) => withYear(clean(one).replace(/^.*\breview of /i, ""))).find(Boolean);
    const title = clean(data.work?.title ?? og?.title ?? data.reviewed ?? heading[0] ?? review[0] ?? "");
    const ids = idsIn(links);
    const kind = links.some((link) => /themoviedb\.org\/tv\//.test(link)) ? "series" : "film";
    return title ? { title, year: og?.year ?? data.work?.year ?? yearIn(year[0]), kind, ids, look: true, least: 2400 } : null;
  }

  const FILM_CATEGORY = new RegExp(`^(?:${[
    "\\d{4}(?:[^\\d]{0,40})? films", "(?:\\p{L}+ ){0,3}films? (?:\\p{L}+ ){0,4}(?:sortie?|del|uit|fra|från|z|von|aus|i) (?:en |el |roku )?\\d{4}",
    "filmtitel \\d{4}", "pel[ií]culas del? \\d{4}", "filmes (?:d[aeo]s? )?(?:\\p{L}+ ){0,3}(?:de )?\\d{4}", "(?:\\p{L}+ )?filmer (?:från |fra )?\\d{4}",
    "(?:\\p{L}+ )*film[yi] z (?:roku )?\\d{4}(?: roku)?", "фильмы[^\\d]{0,40}\\d{4} года", "фільми[^\\d]{0,40}\\d{4}(?: року)?", "филми от \\d{4} година",
    "\\d{4}年の?\\p{L}*(?:映画|电影|電影)(?:作品)?", "\\p{L}*映画作品", "\\d{4}년 (?:\\p{L}+ )?영화", "\\d{4} (?:\\p{L}+ )?filmleri", "vuoden \\d{4} \\p{L}*elokuvat", "\\d{4} filmjei", "filme (?:\\p{L}+ )?(?:din|de) \\d{4}",
    "ταινίες του \\d{4}", "סרטי \\d{4}", "أفلام (?:\\p{L}+ )?\\d{4}", "فیلم‌های (?:\\p{L}+ )?.*\\d{4}.*", "phim (?:\\p{L}+ )*(?:năm )?\\d{4}", "\\d{4}\\. (?:aasta filmid|gada filmas)", "\\d{4} m\\. filmai", "филмови (?:из )?\\d{4}\\.?", "filmovi (?:iz )?\\d{4}\\.?", "filmi leta \\d{4}", "\\d{4} (?:की|में बनी) .*(?:फ़िल्म|फिल्म).*", "\\d{4}ko filmak", "kvikmyndir (?:frá )?\\d{4}", "סרטים משנת \\d{4}", "film (?:\\p{L}+ )?tahun \\d{4}", "pel·lícules (?:\\p{L}+ )*(?:del )?\\d{4}",
  ].join("|")})$`, "iu");
  const SERIES_CATEGORY = /television series (?:debuts|endings)|^fernsehserie|^s[eé]ries? t[eé]l[eé]vis[eé]es? |^serie televisive |^series de televisi[oó]n |^s[eé]ries de televis[aã]o |televisieserie|^tv-seriestarter|^seriale telewizyjne|телесериалы|テレビドラマ|телесеріали|^miniserie|television miniseries|^mini-s[eé]ries?|televizní seriály|televíziós sorozat|televizyon dizi|televisiosarja|tv-serier|电视剧|電視劇|텔레비전 드라마|τηλεοπτικές σειρές|סדרות טלוויזיה|مسلسلات|sèries de televisió|seriale (?:\p{L}+ )?de televiziune/iu;
  const IN_TITLE = /^(.*?)\s*[(（]([^()（）]*)[)）]$/u;
  const FILM_WORD = oneOf([...of("film"), ...of("short"), "filme", "filmi", "filmas", "película", "pelicula"]);
  const SERIES_WORD = new RegExp(`${all("series")}|tv[- ]miniseries|s[eé]rie t[eé]l[eé]vis[eé]e|miniseri\\p{L}*|tv-serie|^(?:serie|seriál|dizi)$|드라마(?:$|이다|입니다|로)|serial(?:ul)? de televiziune|televizijsk\\p{L}+ serij|телевизијск\\p{L}+ сериј|(?:drama|komedi|krimi)serie|σειρά$`, "iu");
  const NO_ARTICLE = /film series|franchise|filmreihe|filmserie|soundtrack|novel|roman(?!\p{L})|album|song|book|character|episode|season|festival|disambiguation|list of|video game|musical|actor|actress|director|company|studio|award|film score|filmmusik|bande originale|controversy|trilogy|screenplay/iu;
  // Labels of an infobox, in the languages there are: who directed it, and how it goes on.
  const DIRECTED = new RegExp(`^(?:${all("director")}|regía|realizaç|zuzendari|leikstj|المخرج)`, "iu");
  const LASTING = new RegExp(`(?<!\\d)(\\d{1,3})\\s*(?:[-–]\\s*\\d{1,3}\\s*)?(?:′|['’]|${all("minute")})`, "iu");
  const GOES_ON = /^(?:(?:antall?|aantal|nr\.|broj|број|брой|кількість|αρ\.|jmlh\.?|jumlah|sezon[uų]) (?:de )?(?:s[aæäe][sz]|seiz|сез|sezo|epi|епи|епі|сер|avs|afs|afl|κύκλ|επεισ|musim|skai)\p{L}*|מספר (?:עונות|פרקים)|(?:شمار|تعداد) (?:فصل|قسمت)|số (?:tập|mùa|phần)|방송 (?:횟수|회수)|temporades|no\. of (?:seasons|episodes|series)|seasons?|episodes?|number of|episoden|folgen|staffeln|nb\. (?:de saisons|d['’]épisodes)|saisons|épisodes|stagioni|puntate|episodi|temporadas|episodios|capítulos|episódios|n\.º|afleveringen|seizoenen|avsnitt|säsonger|sæsoner|sesonger|afsnit|sezon\p{L}*|odcink\p{L}*|liczba odcinków|počet|řad|évadok|epizód\p{L}*|bölüm\p{L}*|kau[ds]\p{L}+|jakso\p{L}+|liczba (?:serii|sezonów)|nº|número de|κύκλοι|季數|시즌|회차|จำนวน(?:ตอน|ฤดูกาล)|episodis|hooaeg\p{L}*|sēriju|denboraldi\p{L}*|fjöldi|(?:सत्र|प्रकरण|एपिसोड)\p{L}*|сезон\p{L}*|сери\p{L}*|число|эпизод\p{L}*|シーズン数|話数|回数|集数|集數|季数|회수|횟수|επεισόδια|עונות|פרקים|عدد|فصل)/iu;
  const IS_FILM = /(?<!\p{L})(?:is|was|ist|war|est|è|es|é|ha sido|was een|is een|är|er|jest|je|on|és)\s[^.]{0,80}?(?:film|movie|película|filme|pel·lícula|elokuva)(?!\p{L})(?! (?:director|actor|actress|producer|critic|score|festival|studio|series|franchise|editor|composer|company|award))|\s[—–]\s[^.]{0,80}?(?:фильм|фільм|филм)(?!\p{L})|\p{L}*filmi?di?r(?!\p{L})|játékfilm(?!\p{L})|(?:映画|电影|電影|영화)(?!\s?(?:監督|导演|導演|감독|배우|俳優|演员|演員|音楽|祭|节|節|シリーズ|系列|会社|公司))/iu;

  // What an article is first said to be.
  const DEFINED = /(?<!\p{L})(?<other>manga|novel(?:la)?|comics?|graphic novel|short story|stage play|play|opera|musical|album|song|soundtrack|video game|franchise|media franchise|film series|character|actor|actress|filmmaker|director|roman|novelle|erzählung|theaterstück|videospiel|bande dessinée|pièce de théâtre|jeu vidéo|novela|cuento|romanzo|racconto|videogioco|powieść|роман|повесть|漫画|小説|小说)(?!\p{L})|(?<work>film|movie|television|fernseh|tv|série|serie|series|sitcom|documentary|película|filme|elokuva|фильм|сериал|映画|ドラマ|电影|영화)/iu;
  const isOtherFirst = (text) => Boolean(DEFINED.exec(text)?.groups.other);

  // "Talk:Heat", in any language; the colon within a title has a space behind it.
  const NO_NAMESPACE = /\/wiki\/[^/:]+:(?![_ ])/;
  function wikipedia(facts, { heading, body, description, categories, box, rows, first, wikidata, other }, data) {
    const space = /(?:^|\s)ns-(\d+)/.exec(body[0] ?? "")?.[1];
    if ((space ? space !== "0" : NO_NAMESPACE.test(pathOf(facts.address))) || other.length) return null;
    const name = clean(heading[0]), bracketed = IN_TITLE.exec(name), bracket = bracketed?.[2] ?? "";
    const about = clean(description[0]) || data.headline, start = clean(first[0]);
    if (!name || NO_ARTICLE.test(bracket) || /^(?:lists? of|liste|lista|lijst|luettelo|elenco|anexo:|seznam|zoznam|список|κατάλογος|קטגוריה|רשימת|قائمة|فهرست|一覧)|(?:一覧|列表|목록)$|(?:season|series|staffel|saison|temporada|stagione|sezon|сезон)\s*\d+$/iu.test(name)) return null;
    const says = categories.flatMap((one) => clean(one).replace(/^\p{L}+:/u, "").split("|")).map(trim), films = says.filter((one) => FILM_CATEGORY.test(one)), series = says.filter((one) => SERIES_CATEGORY.test(one));
    const goesOn = rows.some((row) => GOES_ON.test(clean(row)));
    const lasting = rows.map((row) => LASTING.exec(row)).find(Boolean);
    const directed = rows.some((row) => DIRECTED.test(clean(row))), called = IS_FILM.test(start.slice(0, 250));
    const boxed = !goesOn && ((directed && called) || (lasting && (directed || called || /\bfilm\b|cinema|cinéma|kino|movie/i.test(box[0] ?? ""))));
    const shown = /^(?:film|fernsehfilm|kurzfilm)$/i.test(clean(rows[0]).split(" ")[0] ?? "");
    // the small pages have neither a box nor categories: what the first sentence says
    const said = !rows.length && !says.length && !/\((?:[^()]*\s)?(?:born|geb|née?|nacid|nat[oa]|nasc|ur|f|født|född|род|\*|†)/iu.test(start.slice(0, 150)) ? start.slice(0, 200) : "";
    const isFilm = FILM_WORD.test(bracket) || (IS_FILM.test(said) && yearIn(said) !== null) || /^\d{4}\b.*\b(?:film|movie|documentary|short)\b/i.test(about) || films.length > 0 || boxed || shown;
    const isSeries = /^(?:fernsehserie|série télévisée|serie tv)/i.test(clean(rows[0])) || SERIES_WORD.test(bracket) || SERIES_WORD.test(about) || series.length > 0 || SERIES_WORD.test(said)
      || (goesOn && SERIES_WORD.test(start.slice(0, 250)));
    const kind = SERIES_WORD.test(bracket) ? "series" : FILM_WORD.test(bracket) ? "film" : isFilm && !(isSeries && (goesOn || SERIES_WORD.test(about))) ? "film" : isSeries ? "series" : null;
    if (!FILM_WORD.test(bracket) && !SERIES_WORD.test(bracket) && isOtherFirst(about || start.slice(0, 250).replace(name, ""))) return null;
    if (!kind || (about && NO_ARTICLE.test(about)) || /film (?:series|franchise)|filmreihe|filmserie/i.test(start.slice(0, 120))) return null;
    const dated = rows.find((row) => /release|erschein|sortie|anno|estreno|año|premi[eè]r|erstausstrahlung|diffusion|originalausstrahlung|lançamento|produktionsjahr|jahr|ano |datum|公開|дата|год|jaar|rok|étrenne|année/i.test(row));
    const year = yearIn(bracket) ?? yearIn(/^\d{4}/.exec(about)?.[0]) ?? yearIn((kind === "film" ? films : series).find((one) => yearIn(one)))
      ?? yearIn(dated) ?? (kind === "series" ? yearIn(about) : null) ?? yearIn(start.slice(0, 300));
    const length = kind === "film" && lasting ? 60 * lasting[1] : null; // an article may hold the whole of a short film
    // what stands in brackets tells articles apart, unless the article itself says it
    return { title: bracketed && (FILM_WORD.test(bracket) || SERIES_WORD.test(bracket) || yearIn(bracket) || !plain(start).includes(plain(name))) ? bracketed[1] : name,
             year, kind, ids: idsIn(wikidata), look: true, length, least: length && length < 2400 ? 1200 : 2400 };
  }

  globalThis.epicrec.sites = [
    { host: /(?:^|\.)netflix\.com$/, read: netflix, marks: { parts: "[data-uia='video-title'] > *", whole: "[data-uia='video-title']" } },
    { host: /(?:^|\.)disneyplus\.com$/, read: disney, marks: { title: ".title-field", second: ".subtitle-field" } },
    { host: /(?:^|\.)(?:primevideo\.com|amazon\.(?:com|de|fr|it|es|nl|se|pl|ca|in|co\.uk|co\.jp|com\.\w\w))$/, read: prime,
      marks: { title: ".atvwebplayersdk-title-text", second: ".atvwebplayersdk-subtitle-text", heading: "[data-automation-id='title']",
               year: "[data-automation-id='release-year-badge']", runtime: "[data-automation-id='runtime-badge']", genres: "[data-automation-id^='genre']" } },
    { host: /(?:^|\.)youtube(?:-nocookie)?\.com$/, read: youtube,
      marks: { heading: "ytd-watch-metadata h1, .ytp-title-link", channel: "ytd-channel-name", rows: "ytd-metadata-row-renderer", badges: "ytd-watch-metadata .badge" } },
    { host: /(?:^|\.)(?:ardmediathek\.de|zdf\.de|arte\.tv)$/, read: library, marks: {} },
    { host: /(?:^|\.)bbc\.co\.uk$/, read: bbc, marks: { parts: "h1 > *" } },
    { host: /(?:^|\.)imdb\.com$/, read: imdb,
      marks: { heading: "h1", above: "[data-testid='hero-subnav-bar-season-episode-numbers-section']", series: "[data-testid='hero-title-block__series-link']", link: "[data-testid='subtitle']" } },
    { host: /(?:^|\.)letterboxd\.com$/, read: letterboxd,
      marks: { heading: "h1.primaryname, #content h1", links: "@a[data-track-action]", year: ".releasedate, .metadata", review: ".headline-2 a" } },
    { host: /(?:^|\.)wikipedia\.org$/, read: wikipedia,
      marks: { heading: "#firstHeading, h1", body: "%body", description: ".shortdescription", categories: "#catlinks li, .catlinks li, #catlinks a, #catlinks:not(:has(li, a))", box: "%[class*='infobox']",
               rows: "[class*='infobox'] tr, .sinottico tr, .mw-parser-output > table:first-of-type tr",
               first: ".mw-parser-output p, #mw-content-text p", wikidata: "@#t-wikibase a", other: "#disambigbox, .dmbox-disambig, #Begriffsklärung, .disambigbox, .bandeau-homonymie, .ambox-disambig" } },
  ];
})();
