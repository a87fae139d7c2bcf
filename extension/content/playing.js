"use strict";
// Playing: which parts of a page's videos were played, each counted once.
(() => {
  const { facts, text: { clean } } = globalThis.epicrec;
  const ADVERT = /(?:^|[-_\s])(?:ads?|advert\w*|ima|preroll|midroll|commercial|werbung|sponsor\w*)(?:$|[-_\s])/i;
  const AROUND = /(?:^|\s)(?:\S*-)?(?:ad-showing|ad-interrupting|ad-playing|ads?-?container|preroll|midroll|ad-break)(?:$|\s)/i;
  const EVENTS = ["play", "playing", "timeupdate", "pause", "ended", "seeking", "seeked", "emptied", "durationchange", "ratechange"];
  const JUMP = 30; // seconds between two signs of playing that are taken for one stretch

  // Two stretches that touch become one.
  function add(parts, begin, end) {
    const apart = parts.filter(([a, b]) => b < begin || a > end);
    const touching = parts.filter(([a, b]) => b >= begin && a <= end);
    const one = [Math.min(begin, ...touching.map(([a]) => a)), Math.max(end, ...touching.map(([, b]) => b))];
    return [...apart, one].sort((x, y) => x[0] - y[0]);
  }

  const total = (parts) => parts.reduce((sum, [begin, end]) => sum + end - begin, 0);

  // What is written on and around a video: its own names, those of what holds it, the heading before it.
  function labelOf(video) {
    const words = [];
    for (let at = video, depth = 0; at && depth < 4; depth += 1, at = at.parentElement ?? at.getRootNode().host) {
      if (at.matches?.("body, html, main")) break;
      words.push(at.id, at.getAttribute?.("class"), at.getAttribute?.("aria-label"), at.getAttribute?.("title"));
    }
    const before = video.previousElementSibling;
    if (before?.matches("h2, h3, h4, figcaption")) words.push(before.textContent);
    return clean(words.filter(Boolean).join(" ").replace(/([a-z])([A-Z])/g, "$1 $2").replace(/[-_]+/g, " ")).slice(0, 400);
  }

  // What plays now is an advert, by the names of the video or of what holds it.
  function isAdvert(video) {
    const names = (element) => `${element.id} ${element.getAttribute?.("class") ?? ""}`;
    if (ADVERT.test(names(video))) return true;
    for (let at = video, depth = 0; at && depth < 4; depth += 1, at = at.parentElement ?? at.getRootNode().host) {
      if (AROUND.test(names(at))) return true;
    }
    return false;
  }

  // Follows every video of a document, also those in open shadow roots; `changed` hears that something was played.
  class Playing {
    #videos = new Map();
    #changed;

    constructor(changed) {
      this.#changed = changed;
    }

    // Videos that came since the last look.
    look(page) {
      for (const root of facts.roots(page)) for (const video of root.querySelectorAll("video")) this.#follow(video);
    }

    forget() {
      for (const state of this.#videos.values()) state.played.clear();
    }

    // Each source of each video: its length, the share of it that was played, and what is written on it.
    all() {
      const found = [];
      for (const [video, { played }] of this.#videos) {
        for (const { duration, parts } of played.values()) {
          found.push({ duration, share: Math.min(1, total(parts) / duration), label: labelOf(video) });
        }
      }
      return found;
    }

    #follow(video) {
      if (this.#videos.has(video)) return;
      const state = { at: video.paused ? null : video.currentTime, played: new Map() };
      this.#videos.set(video, state);
      for (const name of EVENTS) video.addEventListener(name, () => this.#hear(video, state, name), true);
    }

    #hear(video, state, name) {
      const now = video.currentTime;
      const moves = ["timeupdate", "pause", "ended", "ratechange", "playing"].includes(name) && !video.seeking;
      if (moves && state.at !== null && now > state.at && now - state.at < JUMP * Math.max(1, video.playbackRate)) this.#note(video, state, state.at, now);
      const stopped = video.paused || video.ended || video.seeking || name === "emptied";
      state.at = stopped && name !== "play" && name !== "playing" ? null : now;
      if (name !== "timeupdate" && name !== "ratechange") this.#changed();
    }

    #note(video, { played }, begin, end) {
      if (!Number.isFinite(video.duration) || video.duration <= 0 || isAdvert(video)) return;
      const key = `${video.currentSrc}|${Math.round(video.duration)}`;
      const known = played.get(key) ?? { duration: video.duration, parts: [] };
      const before = Math.floor(20 * total(known.parts) / known.duration);
      known.parts = add(known.parts, begin, end);
      played.set(key, known);
      if (Math.floor(20 * total(known.parts) / known.duration) > before) this.#changed();
    }
  }

  Object.assign(globalThis.epicrec, { Playing, playing: { add, total } });
})();
