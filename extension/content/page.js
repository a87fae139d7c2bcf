"use strict";
// Page: which film, series or episode a page says it is about. Two layers: where known sites show it (sites.js), then
// what the page states for machines: schema.org, Open Graph and the browser's media session. Nothing else is guessed.
(() => {
  const { SITES, text: { clean, yearIn, withYear, notation } } = globalThis.epicrec;
  const KINDS = { Movie: "film", TVSeries: "series", TVEpisode: "episode" };
  // What may stand beside a work: the page itself, its site, its place there and its player.
  const BESIDE = new Set([
    "WebPage", "ItemPage", "AboutPage", "WebSite", "Organization", "Corporation", "BreadcrumbList", "ImageObject",
    "VideoObject", "TVSeason", "WatchAction",
  ]);

  const list = (value) => (value == null ? [] : [value].flat());
  const isNode = (value) => value !== null && typeof value === "object";

  // A document and the open shadow roots in it.
  function roots(root) {
    const inner = [...root.querySelectorAll("*")].filter((one) => one.shadowRoot);
    return [root, ...inner.flatMap((one) => roots(one.shadowRoot))];
  }

  function shown(page, selector) {
    return clean(roots(page).map((root) => root.querySelector(selector)).find(Boolean)?.textContent);
  }

  const meta = (page, name) => clean(page.querySelector(`meta[property='${name}'], meta[name='${name}']`)?.content);

  // The three places where a page shows its name; `stale` is what the page before left over.
  function texts(page, stale) {
    const og = meta(page, "og:title");
    return { heading: shown(page, "h1"), title: clean(page.title), og: stale.has(og) ? "" : og };
  }

  // ---- known sites -------------------------------------------------------------------------------

  function known(page, address) {
    const { hostname, pathname } = new URL(address);
    const site = SITES.find(({ host, path }) => `.${hostname}`.endsWith(`.${host}`) && pathname.includes(path));
    const title = site && shown(page, site.title);
    if (!title) return null;
    const line = shown(page, site.numbers);
    const year = site.year ? yearIn(shown(page, site.year)) : null;
    if (!line) return { ...withYear(title), ...(year && { year }), kind: "film", ids: {} };
    // the first two numbers, close together, in any language; or the one of a short line: "E2", "Folge 2"
    const [, season, number] = /^\D*?(\d{1,3})(?![./-]\d)\D{1,12}?(\d{1,3})(?!\d)/.exec(line)
      ?? [null, null, /^(?=.{1,10}$)\D*(\d{1,3})\D*$/.exec(line)?.[1]];
    if (!number) return null; // a trailer, an extra
    return { title, year: null, kind: "episode", season: season && Number(season), number: Number(number), ids: {} };
  }

  // ---- schema.org --------------------------------------------------------------------------------

  const types = (node) => list(node["@type"]).map((type) => String(type).replace(/^.*[/:#]/, ""));
  const kindOf = (node) => types(node).map((type) => KINDS[type]).find(Boolean);

  // A value's words; some sites write HTML in it.
  function words(value) {
    const one = list(value)[0], said = clean(isNode(one) ? one["@value"] ?? one.name : one);
    return /[&<]/.test(said) ? clean(new DOMParser().parseFromString(said, "text/html").body.textContent) : said;
  }

  function parse(text) {
    try {
      return JSON.parse(text.replace(/\/\*.*?\*\/|<!--|-->|<!\[CDATA\[|\]\]>/g, ""));
    } catch {
      return null; // nothing is guessed
    }
  }

  const LD = "script[type='application/ld+json']";
  const blocks = (page) => [...page.querySelectorAll(LD)].map((one) => one.textContent);

  // Microdata in the form of JSON-LD.
  function item(scope) {
    const node = { "@type": scope.getAttribute("itemtype") };
    for (const prop of scope.querySelectorAll("[itemprop]")) {
      if (prop.parentElement.closest("[itemscope]") !== scope) continue;
      const name = prop.getAttribute("itemprop"), link = name === "name" ? [] : ["href"];
      const said = ["content", "datetime", ...link].map((one) => prop.getAttribute(one)).find((one) => one !== null);
      node[name] ??= prop.hasAttribute("itemscope") ? item(prop) : said ?? prop.textContent;
    }
    return node;
  }

  // All that stands on its own in a page's data; of the page itself also what it calls its main thing.
  function nodes(page, stale) {
    const written = blocks(page).filter((text) => !stale.has(text)).flatMap((text) => list(parse(text)));
    const marked = [...page.querySelectorAll("[itemscope][itemtype]:not([itemprop] *, [itemprop])")].map(item);
    const typed = (all) => all.filter((node) => isNode(node) && node["@type"]);
    return typed([...written.flatMap((node) => node?.["@graph"] ?? [node]), ...marked])
      .flatMap((node) => [node, ...(kindOf(node) ? [] : typed(list(node.mainEntity)))]);
  }

  // The one work that the data are about; null where there is none, or several, or something else beside it.
  function stated(page, address, stale) {
    const all = nodes(page, stale);
    if (new URL(address).pathname === "/" || /^(?:article|product)/.test(meta(page, "og:type"))) return null;
    if (!all.flatMap(types).every((type) => KINDS[type] || BESIDE.has(type))) return null;
    let found = all.filter(kindOf);
    if (found.some((node) => kindOf(node) === "episode")) found = found.filter((node) => kindOf(node) !== "series");
    const several = new Set(found.map((node) => words(node.name))).size > 1;
    if (several) found = found.filter((node) => isHere(node.url ?? node["@id"], address));
    return new Set(found.map(kindOf)).size === 1 ? described(found[0], all, texts(page, stale)) : null;
  }

  function isHere(url, address) {
    const path = (one) => (URL.canParse(one, address) ? new URL(one, address).pathname.replace(/\/$/, "") : null);
    return Boolean(url) && path(url) === path(address);
  }

  function described(node, all, names) {
    const whole = (value) => { // what stands elsewhere in the data, by its id
      const one = list(value)[0];
      return all.find((other) => one?.["@id"] && other["@id"] === one["@id"]) ?? one;
    };
    const kind = kindOf(node), { title, year } = withYear(words(node.name));
    const work = {
      title, year: year ?? yearOf(node, title, names), kind, ids: ids(node),
      length: seconds(node.duration ?? node.timeRequired), look: true,
    };
    if (kind !== "episode") return title ? work : null;
    const season = whole(node.partOfSeason);
    const series = words(whole(node.partOfSeries ?? node.partOfTVSeries ?? season?.partOfSeries));
    const [inSeason, number] = [season?.seasonNumber ?? season?.position ?? season, node.episodeNumber]
      .map((value) => /\d+/.exec(words(value))?.[0]).map((digits) => (digits ? Number(digits) : null));
    return series ? { ...work, title: withYear(series).title, season: inSeason, number } : null;
  }

  // A full date may be that of the page; the year beside the title is the work's.
  function yearOf(node, title, names) {
    const beside = Object.values(names).filter((text) => text.startsWith(`${title} (`)).map(yearIn);
    const dates = [node.startDate, node.dateCreated, list(node.releasedEvent)[0]?.startDate].map(yearIn);
    const published = /^\d{4}$/.test(node.datePublished) ? yearIn(node.datePublished) : null;
    return [...beside, ...dates, published].find(Boolean) ?? null;
  }

  function ids(node) {
    const links = [node.sameAs, node["@id"], node.url].flatMap(list).join(" ");
    const found = {
      imdb: /imdb\.com\/(?:[a-z]{2}\/)?title\/(tt\d{7,10})(?!\d)/.exec(links)?.[1],
      tmdb: /themoviedb\.org\/(?:movie|tv)\/(\d+)/.exec(links)?.[1],
      wikidata: /wikidata\.org\/(?:wiki|entity)\/(Q\d+)/.exec(links)?.[1],
    };
    return Object.fromEntries(Object.entries(found).filter(([, number]) => number));
  }

  // "PT1H52M"
  function seconds(text) {
    const [, d, h, m, s] = /^P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?$/.exec(clean(text)) ?? [];
    return 86400 * (d ?? 0) + 3600 * (h ?? 0) + 60 * (m ?? 0) + Number(s ?? 0) || null;
  }

  // ---- Open Graph and the media session ----------------------------------------------------------

  function played(page, media, stale) {
    const { heading, title, og } = texts(page, stale), session = clean(media?.title), type = meta(page, "og:type");
    const said = [session, clean(media?.album), ...(type === "video.episode" && og ? [og, title] : [])];
    const numbered = said.map(notation).find(Boolean);
    if (numbered) {
      const { before, ...numbers } = numbered, series = before || clean(media?.artist);
      return series ? { title: series, year: null, kind: "episode", ...numbers, ids: {} } : null;
    }
    // many sites call each of their videos a movie; one that names its director or its actors means it
    const means = ["video:director", "video:actor"].some((name) => meta(page, name));
    if (type !== "video.movie" || !og || !means) return null;
    const name = [session, heading].find((one) => one && og.startsWith(one)) ?? og;
    return { ...withYear(name), kind: "film", ids: {}, length: Number(meta(page, "video:duration")) || null };
  }

  // What the head of a page says, to know on the next one what was left over: pages change by script.
  const head = (page) => new Set([...blocks(page), meta(page, "og:title")]);

  function read(page, address, { media = null, stale = new Set() } = {}) {
    return known(page, address) ?? stated(page, address, stale) ?? played(page, media, stale);
  }

  globalThis.epicrec.page = { read, roots, texts, head };
})();
