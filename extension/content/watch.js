"use strict";
// Watch: the part in the tab. It reads the page when it changes, follows what plays, and tells the extension of a film,
// a series or an episode, or of a long video whose name it does not know; of every other page it tells nothing.
(() => {
  const { page: reading, Playing } = globalThis.epicrec;
  const SOON = 400, LOOK = 3000; // milliseconds until a change is read, and until looking is looking
  const HALF = 0.5, LONG = 1200; // the share that counts as watched, and the seconds that make one ask
  const LEAST = { film: 2400, episode: 600 }; // seconds of what says no length: trailers and extras are shorter

  // Whether a video is the work itself, and was watched.
  function isWatched({ kind, length }, { duration, share }) {
    if (share < HALF || !(kind in LEAST)) return false;
    return length ? Math.abs(duration - length) <= 0.2 * length : duration >= LEAST[kind];
  }

  function report({ title, year, kind, season = null, number = null, ids }, how, share) {
    return { title: title.slice(0, 200), year, kind, season, number, ids, how, share };
  }

  // `tell` takes what the tab has to say; `top` is false in a frame. The rest is the browser's, but for tests.
  class Watch {
    #playing = new Playing(() => this.#soon());
    #frames = new Map(); // what plays in frames
    #read = null; #stale = new Set(); // the address that was read, and what the page before it left in the head
    #found = null; #looked = null; #asking = null; #said = new Set();
    #waiting = false;

    constructor({
      tell, top, page = document, address = () => location.href, media = () => navigator.mediaSession?.metadata,
      later = (act, ms) => setTimeout(act, ms),
    }) {
      Object.assign(this, { tell, top, page, address, media, later });
    }

    start() {
      const change = () => this.#soon();
      const attributeFilter = ["content", "src"];
      const all = { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter };
      new MutationObserver(change).observe(this.page, all);
      this.page.addEventListener("play", change, true);
      this.#look();
    }

    // A frame of this page plays something, and may know what.
    hear(frame, said) {
      this.#frames.set(frame, said);
      this.#soon();
    }

    // What the page is about, and what is asked, for the popup.
    get state() {
      return { found: this.#found && report(this.#found, "looked at", null), asking: this.#asking };
    }

    answered() {
      this.#asking = null;
    }

    #soon() {
      if (this.#waiting) return;
      this.#waiting = true;
      this.later(() => { this.#waiting = false; this.#look(); }, SOON);
    }

    #videos() {
      return [...this.#playing.all(), ...[...this.#frames.values()].flatMap(({ videos }) => videos)];
    }

    #look() {
      const address = this.address().replace(/#.*$/, "");
      if (this.#read && this.#read.address !== address) this.#leave(address);
      this.#read = { address, head: reading.head(this.page) };
      this.#playing.look(this.page);
      const found = reading.read(this.page, address, { media: this.media(), stale: this.#stale })
        ?? [...this.#frames.values()].map((one) => one.found).find(Boolean);
      if (found) this.#take(found); // what a player hides while it plays is still what plays
      if (this.top) this.#judge();
      else this.tell({ frame: { videos: this.#playing.all(), found: this.#found } });
    }

    // Another page in the same document; one below the page before ("…/heat", "…/heat/play") is about the same.
    #leave(address) {
      if (!address.startsWith(`${this.#read.address}/`)) {
        this.#stale = this.#read.head;
        this.#found = this.#looked = null;
      }
      this.#asking = null;
      this.#playing.forget();
      this.#frames.clear();
    }

    #take(found) {
      const key = ({ title, season, number }) => JSON.stringify([title, season, number]);
      const same = this.#found && key(this.#found) === key(found);
      if (this.#found && !same) this.#playing.forget(); // the next episode: what was played belongs to the one before
      this.#found = found;
      if (found.kind !== "series") this.#asking = null;
      if (same || !found.look || !this.top) return;
      const looked = this.#looked = {};
      this.later(() => { if (this.#looked === looked) { looked.long = true; this.#judge(); } }, LOOK);
    }

    #judge() {
      const videos = this.#videos(), found = this.#found;
      const watched = found && videos.filter((video) => isWatched(found, video)).sort((a, b) => b.share - a.share)[0];
      const how = watched ? "watched" : this.#looked?.long && "looked at";
      if (found && how) {
        const seen = report(found, how, watched?.share ?? null);
        this.#once(JSON.stringify({ ...seen, share: null }), { seen });
      }
      if (found && found.kind !== "series") return;
      // each video once: the page may show the next name while the last video is still there
      for (const { source, duration, share } of videos) {
        if (duration < LONG || share < HALF) continue;
        const unnamed = { texts: reading.texts(this.page, this.#stale), share };
        if (this.#once(source, { unnamed })) this.#asking = unnamed;
      }
    }

    #once(key, said) {
      if (this.#said.has(key)) return false;
      this.#said.add(key);
      this.tell(said);
      return true;
    }
  }

  globalThis.epicrec.Watch = Watch;
})();
