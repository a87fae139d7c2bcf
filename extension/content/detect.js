"use strict";
// Detect: from the facts of a page to what it is about, and from what was played to what was seen.
// Pure: it knows no page, no clock and no network.
(() => {
  const { clean, trim, numbers, someNumbers, beforeNumbers, aroundNumbers, withYear, yearIn, plain, pathOf, seconds, beside, labels, sentences, nearYear, nearLength, LASTING, withoutSite, isSiteName, bare, headed, ownName, agreed, isWhole, isAround, ENDING, EXTRA, OTHER, PERFORMED, ABOUT_ONE, WHOLE, FILM, SHORT, CREDIT, GENRE, SPECIAL } =
    globalThis.epicrec.text;
  const { of, oneOf } = globalThis.epicrec.words;
  const HALF = 0.5;
  const LIVE = /^\/(?:[^/]+\/)*(?:live|livestream|live-tv|direct|en-direct)(?:\/|$)/i;
  const NO_FILM_TYPES = /^(?:product|profile|book|music|game)/;

  // What the page is about: {title, year, kind, season, number, ids, look, least, length}, or null.
  function identify(facts) {
    const data = globalThis.epicrec.schema.read(facts);
    const { hostname, pathname } = new URL(facts.address);
    const site = facts.marks && globalThis.epicrec.sites.find(({ host }) => host.test(hostname));
    const known = site ? site.read(facts, facts.marks, data) : undefined;
    if (known !== undefined) return known && finished(known, 3);
    if (data.live || LIVE.test(pathname)) return null;
    const own = structured(facts, data);
    if (own) return finished(own, 3);
    if (isNoWork(facts, data)) return null;
    for (const [layer, rank] of [[openGraph, 2], [written, 1]]) {
      const found = layer(facts, data);
      if (found) return finished({ ...found, title: agreed(found.title, facts, data) }, rank);
    }
    return null;
  }

  // Whether words say that what is shown is something beside a film, or performed, or played for points.
  function isNoWork(facts, data) {
    const texts = [facts.title, ...facts.h1, clean(facts.og.title), data.video?.name ?? "", address(facts), ...facts.above];
    // a film may be called by any word, where its page gives it a year and calls it a film
    const named = /movie/.test(facts.og.type ?? "") && facts.h1[0] && saidYear(facts, facts.h1[0]) ? facts.h1[0].toLowerCase() : null;
    const spoken = texts.map((one) => (named ? one.toLowerCase().replaceAll(named, " ") : one)).join(" | ");
    const near = unnamed([...under(facts), ...labels(facts)], facts).join(" | "), site = [...facts.names, facts.title.replace(withoutSite(facts.title, facts), "")].join(" | ");
    // words before a name in quotation marks speak about it
    if ([...facts.h1, clean(facts.og.title)].some((one) => /\p{L}\s*[„“"«].+[”“"»]/u.test(one)) || beside(facts).some((one) => /^\S+\s*[·•|,–-]\s*\d/u.test(one) && EXTRA.test(one))) return true;
    if (labels(facts).some((one) => SORTED.test(one)) && !labels(facts).some((one) => FILM.test(one) || GENRE.test(one))) return true;
    // the line that says how long it is says what it is
    if (labels(facts).some((one) => LASTING.test(one) && ABOUT_ONE.test(one))) return true;
    if ((data.posted || /^article/.test(facts.og.type ?? "")) && !isShown(facts)) return true;
    return data.elsewhere || NO_FILM_TYPES.test(facts.og.type ?? "") || EXTRA.test(spoken) || PERFORMED.test(`${spoken} | ${near}`) || ((STAGED.test(`${near} | ${site}`) || STAGE.test(`${new URL(facts.address).hostname} | ${site}`)) && !FILM.test(near)) || (STAGED.test(spoken) && !Object.values(signsOf(facts)).some(Boolean));
  }

  // Headings that belong to the first one, not to other parts of the page.
  const under = (facts) => facts.h2.filter((one) => !facts.parts.includes(one));

  // Lines without an episode's own name, which may hold any word where films and series are shown.
  const unnamed = (texts, facts) => texts.map((one) => {
    const after = signsOf(facts).called ? numbers(one)?.after ?? "" : "";
    return after.includes(" ") ? one.replace(after, "") : one;
  });

  // Who made it or of when it is, and how long it is, beside the heading: an article that shows a film, where what plays is as long.
  const isShown = (facts) => {
    const dated = facts.h1.some((one) => withYear(one)?.rest === ""), said = beside(facts);
    return (nearLength(facts) !== null && said.some((one) => CREDIT.test(one) || (FILM.test(one) && (dated || isMade(one))))) || (dated && isWhole(facts.title));
  };

  // `rank`: how much is to be said for it; what is surer is not given up for what is less so.
  const STRAND = /^(Tatort|Polizeiruf 110): (?=\S)/; // films that are called a series
  const finished = (found, rank) => (found.kind === "film" && !found.look && STRAND.test(found.title) ? finished({ ...found, title: STRAND.exec(found.title)[1], kind: "episode" }, rank) : {
    rank, year: null, season: null, number: null, ids: {}, length: null, look: false, ...found, title: found.kind === "film" ? bare(found.title) : found.title,
  });

  // The first page of a site, which shows one work among others.
  const isFront = (facts, work) => /^\/(?:[a-z]{2}(?:-[a-z]{2})?|home|browse|start|index\.\w+)?\/?$/i.test(new URL(facts.address).pathname)
    && ![facts.title, ...facts.h1].some((one) => plain(one).includes(plain(work.title)));

  // Layer one: the page's own data, schema.org.
  function structured(facts, data) {
    const { work } = data;
    if (!work || isFront(facts, work)) return null;
    const texts = [...facts.h1, ...facts.h2, facts.title, clean(facts.og.title), ...beside(facts), address(facts)];
    if (work.kind === "film") {
      const said = saidYear(facts, work.title);
      const near = nearYear(facts); // two years on one page: one of them is another's
      // a full date of our days may be that of the page, unless the page says the year in words too
      const unsaid = work.doubtful === "day" && work.year > 2005 && !text(facts).includes(work.year);
      const year = said ?? ((near && near !== work.year) || unsaid ? null : work.year);
      const around = [facts.title, ...facts.h1].join(" | ").replaceAll(work.title, "");
      if (/^article/.test(facts.og.type ?? "") && facts.h1.some((one) => ABOUT_ONE.test(one.replace(work.title, "")))) return null; // what a review reviews
      return { ...work, year, least: EXTRA.test(around) ? 3600 : work.length ? Math.min(1200, leastOf(facts)) : leastOf(facts), length: work.length ?? lengthOf(data, work.title) ?? nearLength(facts) };
    }
    if (work.kind === "series") {
      const named = [facts.title, ...facts.h1, clean(facts.og.title)].map(numbers).find(Boolean); // the page of an episode, with the series' data
      if (named) return { ...work, kind: "episode", ids: {}, season: named.season, number: named.number, least: 400 };
      const both = texts.map(numbers).find(Boolean);
      return { ...work, least: 600, playing: both ? { kind: "episode", season: both.season, number: both.number } : null };
    }
    const told = someNumbers(texts);
    const title = work.title || seriesIn(facts, work.episode);
    return title ? { ...work, title, season: work.season ?? told.season, number: work.number ?? told.number, least: 400 } : null;
  }

  const text = (facts) => [facts.title, ...facts.h1, ...facts.h2, ...facts.above, ...facts.small, facts.about, clean(facts.og.title)].join(" | ");

  // The length of the page's one video, where it is of this name and not a piece beside it.
  const lengthOf = (data, title) => (data.video && !EXTRA.test(data.video.name) && plain(data.video.name).includes(plain(title)) ? data.video.length : null);

  // How long a film is at least: what is shorter may be a piece of it, unless the page calls it a short one.
  const leastOf = (facts) => (isShort(facts) ? 180 : 2400);
  const isShort = (facts) => SHORT.test([...facts.small, ...facts.above, ...facts.h2, facts.title].join(" ")) || beside(facts).some((one) => /(?:^|[·•|,]\s*)short(?:$|\s*[·•|,])/i.test(one));

  // The year that stands in brackets behind this very title is the film's, whatever dates the data have.
  function saidYear(facts, title) {
    for (const text of [facts.title, clean(facts.og.title), ...facts.h1]) {
      const said = withYear(text);
      if (said && plain(said.title) === plain(title)) return said.year;
    }
    return null;
  }

  const address = (facts) => pathOf(facts.address).replace(facts.french ? /\blecture\b/ : "", "").replaceAll(/[-_/]/g, " ");

  const BETWEEN = /:\s|\s[-–—|]\s/;
  const CALLED = /^(?:watch|stream|serie[ns]?|série|сериал|дорама|dizi|assistir|ver|regarder|guarda|oglądaj)\s+(?=\p{Lu})/iu;
  const COUNTED = /^(?:day|tag|jour|día|giorno|dia|dag|dzień|день|week|woche|lesson|lektion|lección|module|modul|unit|part|teil|partie|parte|session|step|round)\s*\d+(?!\p{L})/iu; // of a course
  const SECTION = /^(?:serien?|series|séries?|seriale?|shows?|tv|tv[- ](?:shows?|series?|serien?)|program\p{L}*|mediathek|videos?|watch|stream|films?|filme|movies?|anime|dramas?|comed\p{L}+|episod\p{L}+|folgen|novelas?|telenovelas?|diziler|sendungen|a-z|kids|kinder|originals?)$/iu;
  // A series' name: what the page's address lies under, or what stands above numbers; or of all that stands before the numbers, or in a heading without any, what most of the page's texts hold.
  function seriesIn(facts, episode) {
    const over = aroundNumbers(facts.h1[0] ?? "")?.join("") === "" ? facts.above : []; // above a heading of numbers alone
    const upper = [...over, ...facts.trail].findLast((one) => !SECTION.test(one) && !GENRE.test(one) && !LASTING.test(one) && beforeNumbers(one) === null && !isSiteName(one, facts));
    if (upper) return upper;
    const lines = beside(facts), at = lines.findIndex((one) => beforeNumbers(one) === "");
    const heads = [...(facts.h1.length ? facts.h1 : under(facts)), withoutSite(facts.title, facts), withoutSite(clean(facts.og.title), facts), ...under(facts)];
    const after = [...heads, ...lines].map(aroundNumbers).map((one) => (one?.[0] ? one[1] : "")), whole = [...heads, ...lines].map((one) => numbers(one)?.after ?? "");
    const own = new Set([episode, numbers(address(facts))?.after ?? "", ...whole, ...after, ...[...whole, ...after].map((one) => one.split(BETWEEN)[0])].filter(Boolean).map(plain));
    const name = (one) => trim((withYear(one)?.title ?? one).replace(CALLED, "").split(/\s+[›>]\s+/).at(-1));
    const pieces = heads.filter((one) => beforeNumbers(one) === null).map((one) => one.split(BETWEEN)).filter((one) => one.length > 1).map(([first]) => first);
    const unnumbered = (texts) => texts.filter((one) => beforeNumbers(one) === null);
    const candidates = [...[...heads, ...lines].map((one) => beforeNumbers(one) ?? ""), ...unnumbered(facts.h1), at > 0 ? lines[at - 1] : at === 0 && !facts.h1.length ? lines[1] ?? "" : "", ...unnumbered(heads), ...pieces]
      .map(name).filter((one) => one.length > 1 && !/^(?:\d+\.\s|\d+ \p{L}+\.?$)/u.test(one) && !COUNTED.test(one) && !own.has(plain(one)) && beforeNumbers(one) !== "" && !isSiteName(one, facts));
    const said = [...heads, ...lines, ...facts.above, address(facts)].map(plain), votes = (one) => said.filter((text) => text.includes(plain(one))).length;
    return candidates.map((one, order) => ({ one, order, votes: votes(one) })).sort((a, b) => b.votes - a.votes || a.order - b.order)[0]?.one ?? null;
  }

  const BESIDE_FILMS = /\/(?:extras?|bonus|interviews?|trailers?|clips?|making-of|behind-the-scenes|teasers?|news|blog|podcasts?)\//i;
  // Layer two: Open Graph, which counts for what is played.
  function openGraph(facts, data) {
    const type = facts.og.type ?? "", title = clean(facts.og.title) || facts.h1[0] || withoutSite(facts.title, facts);
    if (!/^(?:video\.)?(?:movie|episode|tv_show)/.test(type) || !title || BESIDE_FILMS.test(`${new URL(facts.address).pathname}/`)) return null;
    const texts = [title, ...facts.h1, ...facts.h2, facts.title, ...beside(facts), address(facts)];
    const length = seconds(facts.og["video:duration"]) ?? (EXTRA.test(data.video?.name ?? "") ? null : data.video?.length) ?? null;
    if (/movie/.test(type) && !numbers(title)) {
      const whole = withoutSite(title, facts), dated = withYear(whole), name = ownName(dated && !dated.rest ? dated.title : whole, facts, data), said = withYear(name) ?? { title: name, year: dated?.year ?? null };
      const year = said.year ?? saidYear(facts, said.title) ?? yearIn(facts.og["video:release_date"]) ?? nearYear(facts);
      const sign = year !== null || length !== null || Object.values(signsOf(facts)).some(Boolean);
      if (ABOUT_ONE.test(title) || (!sign && OTHER.test(title))) return null;
      return { title: said.title, year, kind: "film", length: length ?? nearLength(facts), least: sign ? (year !== null && nearLength(facts) ? Math.min(1200, leastOf(facts)) : leastOf(facts)) : 3600 };
    }
    const told = someNumbers(texts);
    // an episode without a number is told from news, talks and matches by nothing but its name
    if (told.number === null) return null;
    const series = data.video?.series || seriesIn(facts, null);
    return series ? { title: series, kind: "episode", ...told, length, least: 180 } : null;
  }

  const RATED = /(?<![\p{L}\d])(?:fsk ?\d+|rated (?:g|pg|pg-13|r|nc-17)|pg-13|tv-(?:14|ma|pg|y7))(?![\p{L}\d])/iu;
  // Such a line beside the heading says that this is no film, unless it calls it one.
  const STAGED = oneOf([
    ...of("staged"),
    "webinar", "talk ?show", "talk", "magazin", "ballett?", "livestream", "full match", "podcast", "gameplay", "tutorial", "mitschnitt", "aufzeichnung", "recording", "sitzung",
    "quiz", "orchest\\p{L}*", "conductor", "dirigent\\p{L}*", "philharmoni\\p{L}*", "symphon\\p{L}*", "sinfoni\\p{L}*", "on stage", "inszenierung", "hochamt", "hörbuch",
    "hörspiel", "gelesen von", "kampen", "debat\\p{L}*", "gudstj\\p{L}+", "рецензі?\\p{L}*", "anmeldelse", "recension", "seminar", "yoga", "workout", "fitness", "meditation", "pilates", "dj[- ]set", "\\p{L}*gespräch\\p{L}*",
  ]);
  // A line that is nothing but such a word is the portal's name for this kind of videos.
  const SORTED = /^(?:gaming|games|spiele|jeux vidéo|videojuegos|игры|education|bildung|éducation|educación|образование|sports?|спорт|deportes|music|musik|musique|música|музыка|游戏|遊戲|ゲーム|게임|教育|知识|体育|スポーツ|스포츠|音乐|音楽|음악)$/iu;
  const STAGE = /gam(?:e|ing)(?!lan)|zocker|wedding|hochzeit|mariage|(?<!film|spiel|kino|movie ?)theat(?:er|re)|konzert|concert|klassik|philharmon|bühne|festspiel|opernhaus|schauspiel|staatsoper|teatro|ballet/iu;
  const WHERE = /\/(?:films?|filme|movies?|watch|player|play|stream\w*|kino|cine(?:ma)?|pel[ií]culas?|spielfilme?|titles?|feature|documentar\w+|dokus?|ver|voir|guarda|regarder|assistir|ogladaj|izle|abspielen|wiedergabe|spielen|detail|vod)\//i;
  const OF_FILMS = /\/(?:films?|filme|movies?|kino|cine(?:ma)?|pel[ií]culas?|spielfilme?|feature|documentar\w+|dokus?)\//i;
  // Sites of these have long videos that are no films.
  const OTHER_SITE = /(?:^|[.-])(?:kurse?|courses?|learn\w*|lern\w*|academy|akademie|school|schule|uni|mooc|edu|sport\w*|gam(?:es?|ing)|news|radio|podcasts?|church|kirche|gemeinde|stadt|events?|conf\w*|music|musik|concerts?)(?:$|[.-])/i;
  const MAKER = /(?<!\p{L})(?:a film by|ein film von|un film de|un film di|een film van)(?!\p{L})/iu;
  const STREAMS = /(?:^|\.)(?:hulu|max|hbomax|paramountplus|peacocktv|tv\.apple|discoveryplus|crunchyroll|mubi|joyn|tvnow|rtl|wowtv|sky\w*|canalplus|viaplay|starz|shudder|criterionchannel|kanopy|stan|britbox|itv|channel4|nowtv|pluto|plex|rakuten|filmin|hotstar|jiocinema|zee5|sonyliv|viki|viu|vidio|catchplay|bilibili|youku|mgtv|unext|abema|coupangplay|iqiyi|wavve|tving|watcha|tubitv|raiplay|france|rtve|svtplay|nrk|dr|yle|npo|tvp|ceskatelevize|orf|srf|rts|vrt|movistarplus|globoplay|globoplay\.globo|okko|ivi|kinopoisk|kion|wink|megogo|sweet|shahid\.mbc|filimo|namava|blutv|puhutv|tabii|exxen|voyo|cinobo|ertflix|player|videoland|streamz|universcine|lacinetek|chili|flixole|atresplayer|filmfriend|sooner|vieon|fptplay|showmax|crave|hoopladigital)\.(?:com|tv|de|fr|it|es|se|no|dk|fi|nl|pl|cz|at|ch|be|co\.uk|co|net|ru|com\.au|jp|kr|com\.tr|gr|hu|ro|pt|ca|ir|in|vn|me)$/i;
  const SERIAL = /seri|novela|sitcom|dizi|anime|drama|season|staffel|saison|temporada|sezon|\/tv\//i;

  const OWN = /^(?:jellyfin|plex|emby|kodi|stremio)$/i; // where people play their own
  const isOwn = (facts) => [...facts.names, ...new URL(facts.address).hostname.split(".")].some((one) => OWN.test(one));
  // What stands in brackets with a year: "Name (film, 1994)".
  const bracketed = (facts) => [facts.title, ...facts.h1, ...facts.h2].flatMap((one) => /[(（][^()（）]*(?:19|20)\d\d[^()（）]*[)）]/.exec(one) ?? []);

  // "Film director", "festival de cine": something else that has to do with films.
  const OF_FILM = /(?<!\p{L})(?:film|movie|cinema)[- ](?:director|maker|critic|student|stud(?:y|ies)|score|school|festival|history|music|editing|theory|club|night|journalist|quiz|podcast|talk)s?(?!\p{L})|(?<!\p{L})\p{L}+ (?:de|du|di|do) (?:cine|cinéma|cinema)(?!\p{L})/giu;
  // What speaks of films beside a title: the site's name, a genre, who made it, one link to a list of films, the address.
  function signsOf(facts) {
    const { hostname, pathname } = new URL(facts.address), near = beside(facts).join(" | ").replaceAll(OF_FILM, " ");
    return {
      called: /film|movie|kino|cine|flix|reel|screen/i.test(hostname) || STREAMS.test(hostname) || isOwn(facts) || facts.names.some((one) => /film|movie|kino|cine|flix|シネマ|映画|电影/i.test(one)),
      filmed: FILM.test([near, ...bracketed(facts), ...sentences(facts).map(([first = ""]) => first.slice(0, 25))].join(" | ")) || GENRE.test(near) || RATED.test(near),
      credited: CREDIT.test([near, facts.about, ...facts.h1, ...sentences(facts).flat()].join(" | ")),
      linked: Object.values(groupedLinks(facts)).some((one) => one.size === 1),
      placed: OF_FILMS.test(`${pathname}/`),
    };
  }

  // Layer three: words alone. A season and a number, or a title that much else says is a film's.
  function written(facts, data) {
    const { hostname, pathname } = new URL(facts.address);
    const spoken = unnamed([isAround(facts.title) ? "" : facts.title, ...facts.h1, ...under(facts), clean(facts.og.title), data.video?.name ?? ""], facts).map((one) => facts.names.filter((name) => /^\p{L}+\d$/u.test(name)).reduce((said, name) => said.replace(name, " "), one)).join(" | ");
    const texts = [facts.title, ...facts.h1, ...facts.h2, ...beside(facts)];
    const halves = someNumbers(texts);
    const both = texts.map(numbers).find(Boolean) ?? numbers(address(facts)) ?? (halves.season !== null && halves.number !== null ? halves : null);
    const other = OTHER_SITE.test(hostname), { called, filmed, credited, linked, placed } = signsOf(facts);
    const alone = oneNumber([facts.title, ...facts.h1, ...facts.h2]);
    const named = beforeNumbers(withoutSite(facts.title, facts)), agreeing = alone && named && [...facts.h1, ...facts.above].some((text) => plain(text) === plain(named) || (/\/(?:watch|play|player|episod\w*|folgen?|stream)\//i.test(pathname) && plain(beforeNumbers(text)) === plain(named))); // title and heading name the same series
    const one = both ?? ((agreeing || SERIAL.test(hostname + pathname + facts.title) || /第\s*\d+\s*[集话話]|\d+\s*[화회]/u.test([facts.title, ...facts.h1, ...facts.h2].join(" | ")) || called || filmed || credited) && !other ? alone : null);
    if (one) {
      if (OTHER.test(spoken) || (other && !called && !filmed)) return null;
      const series = data.video?.series || seriesIn(facts, one.after ?? "");
      return series ? { title: series, kind: "episode", season: one.season, number: one.number, least: both || (STREAMS.test(hostname) && WHERE.test(`${pathname}/`)) ? 240 : 900 } : null;
    }
    if (alone) return null; // a part of something
    if (SPECIAL.test(under(facts)[0] ?? "") && STREAMS.test(hostname) && facts.h1[0]) return { title: facts.h1[0], kind: "episode", season: null, number: null, least: 900 };
    const page = withoutSite(facts.title, facts);
    const site = [...facts.names, hostname.replace(/^www\./, "").split(".")[0]].map(plain);
    const heading = facts.h1.find((one) => !site.includes(plain(one)) && beforeNumbers(one) !== "") ?? (site.includes(plain(page)) ? facts.h2[0] : undefined);
    const slug = /([a-z\d]+(?:-[a-z\d]+)*)-((?:19|20)\d\d)\/?$/.exec(pathname);
    const nameless = !heading && !data.video?.name && !facts.pictures[0] && !facts.h2.length && isSiteName(page, facts);
    // a player without any heading: the name, and below it the year and the length
    const [first = "", ...next] = facts.h1.length ? [] : [...facts.h2.slice(0, 1), ...facts.small].slice(0, 4), shown = next.some(isMade) || nearYear({ above: [], small: next }) ? first : "";
    const title = shown ? shown : nameless && slug ? `${slug[1].replaceAll("-", " ")} (${slug[2]})` : heading ?? (data.video?.name || facts.pictures[0] || headed(page, facts));
    const said = withYear(title) ?? withYear(facts.title) ?? withYear(clean(facts.og.title));
    const name = withYear(title)?.title ?? title;
    if (!name || ABOUT_ONE.test(name) || (!heading && !shown && isSiteName(name, facts))) return null;
    // the page's title alone, which nothing else on it says, may be the site's name
    const agree = heading || shown || said || [...facts.small, ...facts.above, ...facts.h2, clean(facts.og.title), data.video?.name ?? "", ...facts.pictures, pathOf(facts.address)].some((one) => plain(one).includes(plain(bare(name))));
    if (!agree && !isWhole(facts.title)) return null;
    const sure = said && (plain(said.title) === plain(name) || plain(facts.title).includes(plain(name)));
    const whole = isWhole(facts.title), where = WHERE.test(`${pathname}/`) || isOwn(facts);
    const byMaker = facts.h1.some((one) => MAKER.test(one));
    // a title may hold any word, if enough else says that it is one
    const trusted = sure && (placed || called || filmed || credited);
    if (OTHER.test((trusted ? spoken.replaceAll(name, " ") : isShown(facts) ? spoken.replaceAll(/festival/gi, " ") : spoken).replace(WHOLE, " "))) return null;
    const year = said?.year ?? nearYear(facts), length = data.video?.length ?? nearLength(facts);
    const told = beside(facts).some(isMade);
    const points = 2 * Boolean(sure) + 2 * whole + where + called + filmed + 2 * credited + 2 * linked + (!sure && year !== null) + Boolean(length) + told;
    const old = sure && said.year < 1965 && !/[:|–-]/.test(name);
    // a name and a year alone may be anybody's video: something must speak of films, or of a place where they are played
    // but of times when nobody put up videos of his own; a site's name alone says little, so it must be long
    const signs = whole || (called && (where || STREAMS.test(hostname))) || filmed || credited || linked || placed || old || (shown && where);
    if (points < (other ? 4 : 2) || (!signs && !called)) return null;
    return {
      title: trim(name.replace(WHOLE, "").replace(ENDING, "")) || name, year, kind: "film", length,
      // what is said to be so long, by whom and of when, may be short
      least: !signs ? 4800 : isShort(facts) ? 300 : byMaker ? 600 : (credited || (filmed && sure)) && year !== null && length ? 1200 : points > 2 ? 2400 : sure && !old ? 4800 : 3600,
    };
  }

  // A line that says of when it is and how long.
  const isMade = (line) => Boolean(yearIn(line)) && (LASTING.test(line) || /\dm\b/i.test(line)) && !/\d{1,2}[./]\d{1,2}[./]/.test(line);

  // The pages of lists of films that this page links to, by list: one alone is about what this page is about.
  function groupedLinks(facts) {
    const found = {};
    for (const link of facts.links) (found[new URL(link).hostname.split(".").at(-2)] ??= new Set()).add(/(?:title|movie|film)\/([\w-]+)/.exec(link)?.[1]);
    return found;
  }

  // An episode's number alone, where the words around it say that it is one.
  function oneNumber(texts) {
    const { number } = someNumbers(texts);
    return number === null ? null : { season: null, number };
  }

  // The film of the page before, where this one, its player, says no more than the name.
  function goesOn(left, facts) {
    const named = left?.kind === "film" && [withoutSite(facts.title, facts), ...facts.h1, ...facts.h2].some((one) => plain(withYear(one)?.title ?? one) === plain(left.title));
    return named ? { ...left, look: false, rank: 1 } : null;
  }

  // Whether this video is the thing itself, and was seen: at least half of its length was played.
  function isSeen(found, { duration, share, label }) {
    if (!Number.isFinite(duration) || share < HALF || EXTRA.test(label)) return false;
    if ((found.length && duration < 0.7 * found.length) || duration > found.most) return false; // a piece of it, or an evening
    const asLong = found.length && found.length >= 60 && Math.abs(duration - found.length) <= 0.2 * found.length;
    return duration >= found.least || Boolean(asLong && found.least <= 1200);
  }

  // What was seen of what the page is about, for the person's history; null where nothing was.
  function judge(found, videos) {
    if (!found) return null;
    const seen = videos.filter((video) => isSeen(found, video)).sort((a, b) => b.duration - a.duration)[0];
    if (seen && (found.kind !== "series" || found.playing)) return report({ ...found, ...found.playing }, "watched", seen.share);
    return found.look ? report(found, "looked at", null) : null;
  }

  function report({ title, year, kind, season, number, ids }, how, share) {
    const made = { title: title.slice(0, 200), year, kind, season: null, number: null, ids, how, share };
    return kind === "episode" ? { ...made, season, number } : made;
  }

  globalThis.epicrec.detect = { identify, goesOn, judge, report };
})();
