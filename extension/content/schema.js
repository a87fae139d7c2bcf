"use strict";
// Schema: what a page says of itself for machines (schema.org as JSON-LD or Microdata).
(() => {
  const { clean, decode, seconds, withYear, yearIn, someNumbers, plain } = globalThis.epicrec.text;
  const WORKS = { Movie: "film", TVSeries: "series", TVEpisode: "episode", Episode: "episode" };
  // A page of these is about something else, whatever film is named in it.
  const ABOUT_ELSE = new Set([
    "Review", "CriticReview", "UserReview", "Article", "NewsArticle", "BlogPosting", "LiveBlogPosting", "ReportageNewsArticle",
    "Product", "Course", "PodcastEpisode", "PodcastSeries", "QAPage", "DiscussionForumPosting", "SocialMediaPosting",
    "SearchResultsPage", "CollectionPage", "ProfilePage",
  ]);
  // These may stand beside a film's own data; without any they say that the page has none.
  const NO_FILM = new Set([
    ...ABOUT_ELSE, "Book", "MusicRecording", "MusicAlbum", "MusicVideoObject", "MusicEvent", "MusicComposition", "MusicGroup",
    "Person", "VideoGame", "Recipe", "HowTo", "FAQPage", "LearningResource", "Clip", "RadioEpisode", "Audiobook", "Event",
    "SportsEvent", "EducationEvent", "BroadcastEvent", "JobPosting", "Quiz", "Blog",
  ]);

  // Sites write these about each of their pages, and who wrote it.
  const POSTED = new Set(["Article", "NewsArticle", "BlogPosting", "Blog", "Person"]);

  const list = (value) => (value == null ? [] : Array.isArray(value) ? value : [value]);
  const isNode = (value) => value !== null && typeof value === "object";
  const types = (node) => list(node["@type"]).map((type) => String(type).replace(/^.*[/:#]/, ""));
  const isOf = (node, ...wanted) => types(node).some((type) => wanted.includes(type));
  const text = (value) => {
    const one = list(value)[0];
    const said = isNode(one) ? one["@value"] ?? one.name ?? "" : one ?? "";
    return clean(decode(String(said)).replace(/<\/?[a-z][^>]*>/gi, ""));
  };

  // A block as it stands, or as a person would read it: entities, comments, commas and breaks set right.
  function parse(block) {
    const bare = block.replace(/\/\*[\s\S]*?\*\/|<!--|-->|<!\[CDATA\[|\]\]>|^\s*\/\/.*$/gm, "").trim().replace(/;$/, "");
    const mended = (said) => said.replace(/[\u0000-\u001f]+/g, " ").replace(/,\s*([}\]])/g, "$1");
    for (const said of [block, bare, mended(bare), mended(decode(bare))]) {
      try {
        return JSON.parse(said);
      } catch { /* the next way of reading it */ }
    }
    return guessed(mended(decode(bare)));
  }

  // What is so broken that only its beginning can be read: its first type, name and dates.
  function guessed(block) {
    const value = (name) => new RegExp(`"${name}"\\s*:\\s*"?([^",}\\]]*)`).exec(block)?.[1];
    const type = value("@type");
    if (!(type in WORKS)) return null;
    return {
      "@type": type, name: value("name"), dateCreated: value("dateCreated"), datePublished: value("datePublished"),
      episodeNumber: value("episodeNumber"), startDate: value("startDate"),
    };
  }

  // All that stands on its own in the blocks; of a page's own node also what it calls its main thing.
  function topNodes(blocks) {
    const found = [];
    for (const block of blocks) {
      for (const root of list(parse(block)).filter(isNode)) {
        for (const node of [...(root["@type"] || !root["@graph"] ? [root] : []), ...list(root["@graph"]).filter(isNode)]) {
          found.push(node);
          if (isOf(node, "WebPage", "ItemPage", "VideoObject", "AboutPage", "WatchAction")) {
            found.push(...list(node.mainEntity).filter((one) => isNode(one) && one["@type"]));
          }
        }
      }
    }
    const byId = new Map(found.filter((node) => node["@id"]).map((node) => [node["@id"], node]));
    return { nodes: found, byId };
  }

  const references = (node, ...names) =>
    names.flatMap((name) => list(node[name])).filter(isNode).map((one) => one["@id"]).filter(Boolean);

  // The one film, series or episode that a page is about; null where it is about none, or several.
  function mainWork(found, facts) {
    const { nodes, byId } = found;
    const spoken = new Set(nodes.flatMap((node) => references(node, "itemReviewed", "workPresented", ...(isElse(node) ? ["about", "mentions"] : []))));
    let works = nodes.filter((node) => types(node).some((type) => type in WORKS) && !spoken.has(node["@id"]) && !isHeard(node) && !(isOf(node, "Product") && /^product/.test(facts.og.type ?? "")));
    if (nodes.some((node) => isOf(node, "SportsEvent", "MusicEvent", "MusicRecording", "MusicVideoObject"))) return null;
    if (nodes.some((node) => isElse(node) && !types(node).some((type) => type in WORKS))) return null;
    // an episode may stand beside its series; a film beside others is one of a list
    const films = works.filter((node) => isOf(node, "Movie")), episodes = works.filter((node) => isOf(node, "TVEpisode", "Episode"));
    if (!films.length && episodes.length === 1) works = episodes;
    const names = new Set(works.map((node) => text(node.name)));
    if (names.size > 1) {
      const here = works.filter((node) => [node.url, node["@id"]].some((url) => url && samePage(String(url), facts.address)));
      if (here.length !== 1) return null;
      works = here;
    }
    return works.length && !isBeside(works[0], nodes, facts) ? work(works[0], byId, facts) : null;
  }

  // The heading names something else that the data describe: a person, a game, an event.
  function isBeside(node, nodes, facts) {
    const head = plain(facts.h1[0] ?? ""), named = (one) => plain(text(one.name));
    return head !== "" && !head.includes(named(node)) && nodes.some((one) => isOf(one, ...NO_FILM) && named(one) === head);
  }

  // An episode of what is only heard.
  const isHeard = (node) => list(seriesOf(node)).some((one) => isNode(one) && types(one).some((type) => /Podcast|Radio/.test(type)));

  const isElse = (node) => types(node).some((type) => ABOUT_ELSE.has(type));

  function samePage(url, address) {
    const path = (one) => one.replace(/^https?:\/\/[^/]+/, "").replace(/[?#].*$/, "").replace(/\/$/, "");
    return path(url) !== "" && path(url) === path(address);
  }

  function work(node, byId, facts) {
    const kind = WORKS[types(node).find((type) => type in WORKS)];
    const whole = (value) => {
      const one = list(value)[0];
      return isNode(one) && one["@id"] && byId.has(one["@id"]) ? byId.get(one["@id"]) : one;
    };
    const named = withYear(text(node.name)) ?? endingYear(text(node.name), node);
    const own = !named || named.rest ? text(node.name) : named.title;
    const released = list(node.releasedEvent).filter(isNode).map((event) => yearIn(event.startDate)).find(Boolean);
    const first = kind === "series" ? yearIn(node.startDate) : null;
    const year = (named && !named.rest ? named.year : null) ?? first ?? yearIn(node.dateCreated) ?? released
      ?? yearIn(node.copyrightYear) ?? yearIn(node.datePublished) ?? yearIn(node.startDate) ?? null;
    const made = { title: own, year, kind, ids: ids(node), length: seconds(node.duration ?? node.timeRequired), look: true, doubtful: doubtful(node) };
    if (kind !== "episode") return made.title ? made : null;
    const season = whole(node.partOfSeason), show = whole(seriesOf(node) ?? (isNode(season) ? seriesOf(season) : null));
    const series = withYear(text(show)) ?? { title: text(show), year: null };
    const said = isNode(season) ? season.seasonNumber ?? season.position ?? someNumbers([text(season.name)]).season : season;
    return {
      ...made, title: series.title, episode: own, season: count(said), number: count(node.episodeNumber),
      year: made.year ?? series.year ?? (isNode(show) ? yearIn(show.startDate) : null),
    };
  }

  // "Name 2016", where the data say the same year.
  function endingYear(name, node) {
    const found = /^(.*\p{L}.*) ((?:19|20)\d\d)$/u.exec(name);
    return found && [node.dateCreated, node.datePublished, node.copyrightYear].some((date) => yearIn(date) === Number(found[2])) ? { title: found[1], year: Number(found[2]), rest: "" } : null;
  }

  const seriesOf = (node) => node.partOfSeries ?? node.partOfTVSeries;

  // The one date there is may be that of the page.
  const doubtful = (node) => {
    if (["dateCreated", "releasedEvent", "copyrightYear", "startDate"].some((name) => node[name])) return null;
    return /^\d{4}-\d/.test(String(node.datePublished ?? "")) ? "day" : "year";
  };

  const count = (value) => {
    const found = /\d+/.exec(String(value ?? ""));
    return found ? Number(found[0]) : null;
  };

  // Its numbers elsewhere, where the page gives them as this very work's.
  function ids(node) {
    const links = [node.sameAs, node["@id"], node.url, node.identifier].flatMap(list)
      .map((one) => (isNode(one) ? String(one.value ?? one["@id"] ?? "") : String(one)));
    return idsIn(links);
  }

  function idsIn(links) {
    const found = {};
    for (const link of links) {
      const imdb = /(?:imdb\.com\/(?:[a-z]{2}\/)?title\/|^)(tt\d{7,})(?!\d)/.exec(link);
      const tmdb = /themoviedb\.org\/(?:movie|tv)\/(\d+)/.exec(link);
      const wikidata = /wikidata\.org\/(?:wiki|entity)\/(?:Special:EntityPage\/)?(Q\d+)/.exec(link);
      if (imdb) found.imdb ??= imdb[1];
      if (tmdb) found.tmdb ??= tmdb[1];
      if (wikidata) found.wikidata ??= wikidata[1];
    }
    return found;
  }

  // What a page's data say in one: its main work, its video, and whether it is about something else.
  function read(facts) {
    const written = topNodes(facts.jsonld);
    const marked = { nodes: facts.microdata.flatMap((node) => [node, ...list(node.mainEntity).filter(isNode)]), byId: new Map() };
    const all = [...written.nodes, ...marked.nodes];
    const videos = all.filter((node) => isOf(node, "VideoObject"));
    return {
      work: mainWork(written, facts) ?? (all.some(isElse) ? null : mainWork(marked, facts)),
      video: videos.length === 1 ? { name: text(videos[0].name), length: seconds(videos[0].duration), genre: text(videos[0].genre), series: text(seriesOf(videos[0])) } : null,
      headline: all.filter((node) => isOf(node, "Article")).map((node) => text(node.headline))[0] ?? "",
      reviewed: all.filter((node) => isOf(node, "Review")).flatMap((node) => list(node.itemReviewed)).filter(isNode).map((node) => text(node.name))[0] ?? null,
      live: JSON.stringify(all).includes('"isLiveBroadcast":true') || /"isLiveBroadcast":\s*"true"/i.test(JSON.stringify(all)),
      posted: all.some((node) => isOf(node, ...POSTED)),
      elsewhere: all.some((node) => types(node).some((type) => NO_FILM.has(type) && !POSTED.has(type)) || (isOf(node, "VideoObject") && list(node.about).some((one) => isNode(one) && types(one).some((type) => type in WORKS)))),
      game: all.some((node) => isOf(node, "VideoGame")),
    };
  }

  globalThis.epicrec.schema = { read, idsIn };
})();
