"use strict";
// Playing: which parts of a page's videos were played, each counted once.
(() => {
  const { roots } = globalThis.epicrec.page;
  const EVENTS = ["play", "playing", "timeupdate", "pause", "ended", "seeking", "seeked", "emptied", "ratechange"];
  const MOVES = ["timeupdate", "pause", "ended", "ratechange", "playing"]; // after these a video has played on

  // Two stretches that touch become one.
  function add(parts, begin, end) {
    const apart = parts.filter(([a, b]) => b < begin || a > end);
    const touching = parts.filter(([a, b]) => b >= begin && a <= end).flat();
    return [...apart, [Math.min(begin, ...touching), Math.max(end, ...touching)]];
  }

  const total = (parts) => parts.reduce((sum, [begin, end]) => sum + end - begin, 0);

  // Follows every video of a document, also those in open shadow roots; `changed` hears that something was played.
  class Playing {
    #videos = new Map();
    #changed;

    constructor(changed) {
      this.#changed = changed;
    }

    // Videos that came since the last look.
    look(page) {
      for (const root of roots(page)) for (const video of root.querySelectorAll("video")) this.#follow(video);
    }

    forget() {
      for (const { played } of this.#videos.values()) played.clear();
    }

    // The length of each source of each video, and the share of it that was played.
    all() {
      const sources = [...this.#videos.values()].flatMap(({ played }) => [...played.entries()]);
      return sources.map(([source, { duration, parts }]) => ({
        source, duration, share: Math.min(1, total(parts) / duration),
      }));
    }

    #follow(video) {
      if (this.#videos.has(video)) return;
      const state = { at: video.paused ? null : video.currentTime, played: new Map() };
      this.#videos.set(video, state);
      for (const name of EVENTS) video.addEventListener(name, () => this.#hear(video, state, name), true);
    }

    #hear(video, state, name) {
      const now = video.currentTime, moved = MOVES.includes(name) && !video.seeking;
      if (moved && state.at !== null && now > state.at) this.#note(video, state, now);
      const stopped = video.paused || video.ended || video.seeking || name === "emptied";
      state.at = stopped && name !== "play" && name !== "playing" ? null : now;
      if (name !== "timeupdate" && name !== "ratechange") this.#changed();
    }

    #note({ currentSrc, duration }, { at, played }, end) {
      if (!Number.isFinite(duration) || duration <= 0) return; // live
      const key = `${currentSrc}|${Math.round(duration)}`, known = played.get(key) ?? { duration, parts: [] };
      const twentieths = () => Math.floor(20 * total(known.parts) / duration), before = twentieths();
      known.parts = add(known.parts, at, end);
      played.set(key, known);
      if (twentieths() > before) this.#changed();
    }
  }

  globalThis.epicrec.Playing = Playing;
})();
