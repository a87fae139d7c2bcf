"use strict";
// Watch: the part in the tab. It reads the page when it changes, follows what plays, and tells the
// extension of a film, a series or an episode; of every other page it tells and keeps nothing.
(() => {
  const { facts: reading, detect, Playing } = globalThis.epicrec;
  const SOON = 400, LOOK = 3000; // milliseconds until a change is read, and until looking is looking

  // `tell` takes what the tab has to say; `later` and `address` are the browser's, but for tests.
  class Watch {
    #tell; #later; #page; #address; #top;
    #playing = new Playing(() => this.#soon());
    #elsewhere = new Map(); // what plays in frames
    #before = null; #facts = null; #found = null; #left = null; #looked = null; #waiting = false; #said = new Set(); #blind = false;
    #changed = true; // the page, since it was read

    constructor({ tell, page = document, address = () => location.href, later = (act, ms) => setTimeout(act, ms), top = true }) {
      this.#tell = tell; this.#page = page; this.#address = address; this.#later = later; this.#top = top;
    }

    start() {
      const change = () => { this.#changed = true; this.#soon(); };
      new MutationObserver(change).observe(this.#page, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["content", "src"] });
      this.#page.addEventListener("play", change, true);
      this.#read();
    }

    // A frame of this page plays something, and may know what.
    hear(frame, { videos, found }) {
      this.#elsewhere.set(frame, { videos, found });
      this.#changed = true;
      this.#soon();
    }

    // What the page is taken for now, for the popup.
    get taken() {
      const found = this.#found;
      return found ? detect.judge({ ...found, look: true }, this.#videos()) : null;
    }

    #soon() {
      if (this.#waiting) return;
      this.#waiting = true;
      this.#later(() => { this.#waiting = false; this.#read(); }, SOON);
    }

    #videos() {
      return [...this.#playing.all(), ...[...this.#elsewhere.values()].flatMap(({ videos }) => videos)];
    }

    #read() {
      const address = this.#address().replace(/#.*$/, ""), moved = this.#facts && this.#facts.address !== address;
      if (this.#changed || moved) this.#look(address, moved);
      if (this.#top) this.#judge();
      else this.#tell({ frame: { videos: this.#playing.all(), found: this.#found } });
    }

    #look(address, moved) {
      this.#changed = reading.roots(this.#page).length > 1; // nobody tells of changes in shadow roots
      if (moved) {
        this.#before = this.#facts;
        this.#left = this.#found ?? this.#left;
        this.#found = this.#looked = null;
        this.#playing.forget();
        this.#elsewhere.clear();
        this.#blind = false;
      }
      this.#facts = reading.read(this.#page, address);
      this.#playing.look(this.#page);
      const found = detect.identify(reading.fresh(this.#facts, this.#before)) ?? detect.goesOn(this.#left, this.#facts)
        ?? [...this.#elsewhere.values()].map((one) => one.found).find(Boolean) ?? null;
      // another title, and nothing known of it: what words alone said before is over
      if (!found && this.#found?.rank < 3 && this.#found.titled !== this.#facts.title) {
        this.#found = null;
        this.#playing.forget();
      }
      // what a player hides while it plays is still what plays
      if (found) this.#take(found);
    }

    #take(found) {
      const known = this.#found;
      if (known && known.rank > found.rank) return;
      const same = known && known.title === found.title && known.season === found.season && known.number === found.number;
      // the next episode in the same player: what was played before belongs to the one before
      if (known && !same && known.rank === found.rank) this.#playing.forget();
      this.#found = { ...found, titled: this.#facts.title };
      if (same || !found.look || !this.#top) return;
      const looked = this.#looked = {};
      this.#later(() => { if (this.#looked === looked) { looked.long = true; this.#judge(); } }, LOOK);
    }

    #judge() {
      const seen = detect.judge(this.#found, this.#videos());
      if (seen && (seen.how === "watched" || this.#looked?.long)) {
        const key = JSON.stringify([seen.title, seen.year, seen.kind, seen.season, seen.number, seen.how]);
        if (!this.#said.has(key)) {
          this.#said.add(key);
          this.#tell({ seen });
        }
      } else if (!this.#found && !this.#blind && this.#videos().some(({ duration, share }) => duration >= 2400 && share >= 0.5)) {
        this.#blind = true;
        this.#tell({ missed: true });
      }
    }
  }

  globalThis.epicrec.Watch = Watch;
})();
