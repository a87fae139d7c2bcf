"use strict";
// Detect: from the facts of a page to what it is about, and from what was played to what was seen.
// Pure: it knows no page, no clock and no network.
(() => {
  const { clean, trim, numbers, someNumbers, beforeNumbers, withYear, yearIn, plain, seconds, EXTRA, OTHER, PERFORMED, ABOUT_ONE, WHOLE, FILM, SHORT } =
    globalThis.epicrec.text;
  const HALF = 0.5;
  const LIVE = /^\/(?:[^/]+\/)*(?:live|livestream|live-tv|direct|en-direct)(?:\/|$)/i;
  const NO_FILM_TYPES = /^(?:article|product|profile|book|music|game)/;

  // What the page is about: {title, year, kind, season, number, ids, look, least, length}, or null.
  function identify(facts) {
    const data = globalThis.epicrec.schema.read(facts);
    const { hostname, pathname } = new URL(facts.address);
    const site = facts.marks && globalThis.epicrec.sites.find(({ host }) => host.test(hostname));
    const known = site ? site.read(facts, facts.marks, data) : undefined;
    if (known !== undefined) return known && finished(known, 3);
    if (data.live || LIVE.test(pathname)) return null;
    for (const [layer, rank] of [[structured, 3], [openGraph, 2], [written, 1]]) {
      const found = layer(facts, data);
      if (found) return finished(found, rank);
    }
    return null;
  }

  // `rank`: how much is to be said for it; what is surer is not given up for what is less so.
  const finished = (found, rank) => ({ rank, year: null, season: null, number: null, ids: {}, length: null, look: false, ...found });

  // Layer one: the page's own data, schema.org.
  function structured(facts, data) {
    const { work } = data;
    if (!work) return null;
    const texts = [...facts.h1, ...facts.h2, facts.title, clean(facts.og.title), address(facts)];
    if (work.kind === "film") {
      const said = saidYear(facts, work.title);
      const near = work.doubtful ? nearYear(facts) : null;
      const year = said ?? (near && near !== work.year ? null : work.year);
      const around = [facts.title, ...facts.h1].join(" | ").replaceAll(work.title, "");
      return { ...work, year, least: EXTRA.test(around) ? 3600 : leastOf(facts), length: work.length ?? data.video?.length ?? null };
    }
    if (work.kind === "series") {
      const both = texts.map(numbers).find(Boolean);
      return { ...work, least: 600, playing: both ? { kind: "episode", season: both.season, number: both.number } : null };
    }
    const told = someNumbers(texts);
    const title = work.title || seriesIn(facts, work.episode);
    return title ? { ...work, title, season: work.season ?? told.season, number: work.number ?? told.number, least: 180 } : null;
  }

  // How long a film is at least: what is shorter may be a piece of it, unless the page calls it a short one.
  const leastOf = (facts) => (SHORT.test([...facts.small, ...facts.h2, facts.title].join(" ")) ? 180 : 1200);

  // The year that stands in brackets behind this very title is the film's, whatever dates the data have.
  function saidYear(facts, title) {
    for (const text of [facts.title, clean(facts.og.title), ...facts.h1]) {
      const said = withYear(text);
      if (said && plain(said.title) === plain(title)) return said.year;
    }
    return null;
  }

  const address = (facts) => decodeURI(new URL(facts.address).pathname).replaceAll(/[-_/]/g, " ");

  // The series' name, where an episode's data leave it out: what stands before its numbers, or the heading beside it.
  function seriesIn(facts, episode) {
    const candidates = [facts.title, clean(facts.og.title), ...facts.h1, ...facts.h2].map(beforeNumbers)
      .concat(facts.h1, facts.h2).map((one) => withYear(one ?? "")?.title ?? trim(one ?? ""));
    return candidates.find((one) => one.length > 1 && plain(one) !== plain(episode ?? "")) ?? null;
  }

  // Layer two: Open Graph, which counts for what is played.
  function openGraph(facts, data) {
    const type = facts.og.type ?? "", title = clean(facts.og.title);
    if (!/^video\.(?:movie|episode|tv_show)/.test(type) || data.elsewhere || !title || EXTRA.test(title) || EXTRA.test(facts.title)) return null;
    if (PERFORMED.test([facts.title, ...facts.h2, ...facts.small, address(facts)].join(" | "))) return null;
    const texts = [title, ...facts.h1, ...facts.h2, facts.title, address(facts)];
    const length = seconds(facts.og["video:duration"]) ?? data.video?.length ?? null;
    if (type === "video.movie" && !numbers(title)) {
      const said = withYear(withoutSite(title, facts)) ?? { title: withoutSite(title, facts), year: null };
      const year = said.year ?? saidYear(facts, said.title) ?? yearIn(facts.og["video:release_date"]) ?? nearYear(facts);
      return { title: said.title, year, kind: "film", length, least: leastOf(facts) };
    }
    const told = someNumbers(texts);
    if (type === "video.tv_show" && told.number === null) return null;
    const series = [facts.title, ...facts.h1, title, ...facts.h2].map(beforeNumbers).map((one) => trim(withoutSite(one ?? "", facts))).find((one) => one.length > 1)
      ?? title.split(/:\s|\s[-–—|]\s/)[0];
    return { title: withYear(series)?.title ?? series, kind: "episode", ...told, length, least: 180 };
  }

  // Layer three: words alone. A season and a number, or a title that much else says is a film's.
  function written(facts, data) {
    const { hostname, pathname } = new URL(facts.address);
    const spoken = [facts.title, ...facts.h1, ...facts.h2, clean(facts.og.title), data.video?.name ?? ""].join(" | ");
    const all = `${spoken} | ${address(facts)}`;
    if (PERFORMED.test(all) || data.elsewhere || NO_FILM_TYPES.test(facts.og.type ?? "") || EXTRA.test(all)) return null;
    const heading = facts.h1.find((one) => !facts.names.some((name) => plain(name) === plain(one)));
    const both = [facts.title, ...facts.h1, ...facts.h2].map(numbers).find(Boolean) ?? numbers(address(facts));
    const title = heading ?? data.video?.name ?? facts.pictures[0] ?? withoutSite(facts.title, facts);
    if (both) {
      if (OTHER.test(spoken)) return null;
      const series = seriesIn(facts, both.after);
      return series ? { title: series, kind: "episode", season: both.season, number: both.number, least: 240 } : null;
    }
    const said = withYear(title) ?? withYear(facts.title) ?? withYear(clean(facts.og.title));
    const name = withYear(title)?.title ?? title;
    const sure = said && (plain(said.title) === plain(name) || plain(facts.title).includes(plain(name)));
    const whole = WHOLE.test(facts.title);
    if (!name || ABOUT_ONE.test(name)) return null;
    const where = /\/(?:films?|filme|movies?|watch|player|play|stream\w*|kino|cine(?:ma)?|pel[ií]culas?|spielfilme?|title|titles|feature|documentar\w+|dokus?)\//i.test(`${pathname}/`);
    const called = /film|movie|kino|cine|flix|reel|screen/i.test(hostname) || facts.names.some((one) => /film|movie|kino|cine|flix|シネマ|映画/i.test(one));
    const beside = FILM.test(facts.small.join(" ")) || /\b(?:directed by|director|regie|réalisé|réalisation|dirigida|regia)\b|監督/i.test(facts.small.join(" "));
    // a title may hold any word, if enough else says that it is one
    const trusted = sure && (where || called || beside);
    if (OTHER.test((trusted ? spoken.replaceAll(name, " ") : spoken).replace(WHOLE, " "))) return null;
    const points = 2 * Boolean(sure) + 2 * whole + where + called + beside;
    if (points < 2) return null;
    const short = SHORT.test([...facts.small, ...facts.h2].join(" "));
    return {
      title: name.replace(WHOLE, "").trim() || name, year: said?.year ?? nearYear(facts), kind: "film",
      length: data.video?.length ?? null, least: short ? 300 : points > 2 ? 2400 : sure ? 4800 : 3600,
    };
  }

  const ANOTHER_YEAR = /\d{1,2}[./]\s?\d{1,2}[./]\s?\d{2,4}|©|\d{4}-\d\d|\b(?:since|seit|until|bis|jusqu|added|verfügbar|available|upload\w*|views|restored|restauriert|copyright|recorded|hochgeladen)\b/i;
  const YEAR_LINE = /^\D{0,3}(?:1[89]\d\d|20\d\d)(?:\D{0,3}$|年|\s*[·•|/∙,])|[·•|/∙,]\s*(?:\p{L}+ )?(?:1[89]\d\d|20\d\d)(?:$|\s*[·•|/∙,])/u;
  // A year alone in a line of small print below the title.
  function nearYear(facts) {
    const line = facts.small.find((one) => one.length < 60 && YEAR_LINE.test(one) && !ANOTHER_YEAR.test(one));
    return line ? yearIn(line) : null;
  }

  // A title of a page without the name of its site.
  function withoutSite(title, facts) {
    const host = plain(new URL(facts.address).hostname.replace(/^www\./, "").split(".").slice(-2)[0]);
    const isSite = (part) => [...facts.names.map(plain), host].some((name) => name && (plain(part) === name || (plain(part).length > 3 && name.includes(plain(part))) || (name.length > 3 && plain(part).includes(name) && part.split(" ").length < 4)));
    const parts = clean(title).split(/(\s+[-–—|•·»:]\s+|\s*[|•»]\s*)/);
    while (parts.length > 2 && isSite(parts.at(-1))) parts.splice(-2);
    while (parts.length > 2 && isSite(parts[0])) parts.splice(0, 2);
    const heading = facts.h1[0];
    if (parts.length > 2 && !(heading && plain(heading).includes(plain(parts.at(-1)))) && /[|•·»]/.test(parts.at(-2))) parts.splice(-2);
    const verb = /^(?:watch|stream|regarder|guarda|assistir)\s+(?=\S)/i;
    const bare = parts.join("");
    if (verb.test(bare) && heading && plain(heading) === plain(bare.replace(verb, ""))) return trim(heading);
    return trim(bare.replace(/^(?:watch|stream|regarder|ver)\s+(?=.*\b(?:online|free|full|stream|gratis|hd)\b)/i, "").replace(/\s*\b(?:online (?:anschauen|ansehen|stream\w*)|stream\w* online|hier anschauen|watch online)\b.*$/i, ""));
  }

  // Whether this video is the thing itself, and was seen: at least half of its length was played.
  function isSeen(found, { duration, share, label }) {
    if (!Number.isFinite(duration) || share < HALF || EXTRA.test(label)) return false;
    if (found.length && duration < HALF * found.length) return false;
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

  globalThis.epicrec.detect = { identify, judge, report };
})();
