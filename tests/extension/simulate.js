// Plays a labelled page: its states and events in simulated time, all clocks alike (pages/README.md).
// Returns what the tab told, each with its time. `frames` are tellings of the page's frames. The page
// is a document of its own, as a browser parses it, whose address is the label's.
async ({ label, frame, frames, html }) => {
  const page = Document.parseHTMLUnsafe(html);
  const base = page.createElement("base");
  let place = base.href = frame ?? label.address;
  page.head.prepend(base);
  const timers = [], told = [], videos = new Map();
  let now = 0, order = 0;
  const later = (act, ms) => timers.push({ at: now + ms / 1000, order: order++, act });
  const settle = async () => { for (let i = 0; i < 3; i += 1) await null; };
  const find = (root, selector) => {
    const here = root.querySelector(selector);
    if (here) return here;
    for (const element of root.querySelectorAll("*")) {
      const inner = element.shadowRoot && find(element.shadowRoot, selector);
      if (inner) return inner;
    }
    return null;
  };
  const fire = (video, ...names) => { for (const name of names) video.dispatchEvent(new Event(name)); };
  const put = (script) => {
    const video = find(page, script.video);
    const state = {
      duration: script.duration ?? Infinity, at: script.at ?? 0, muted: script.muted ?? false,
      src: script.src ?? "https://media.example/film", paused: true, seeking: false, ended: false, rate: 1,
    };
    const shown = { duration: "duration", currentTime: "at", muted: "muted", currentSrc: "src", paused: "paused", seeking: "seeking", ended: "ended", playbackRate: "rate" };
    for (const [name, key] of Object.entries(shown)) Object.defineProperty(video, name, { configurable: true, get: () => state[key], set: () => {} });
    videos.set(script, { video, state });
    return videos.get(script);
  };
  const happen = (script, event) => {
    const { video, state } = videos.get(script) ?? put(script);
    state.at = event.at;
    if (event.event === "play") {
      const over = state.ended;
      Object.assign(state, { paused: false, ended: false });
      fire(video, "play", "playing", ...(over ? ["seeked"] : []));
    } else if (event.event === "pause") {
      state.paused = true;
      fire(video, "timeupdate", "pause");
    } else if (event.event === "ended") {
      Object.assign(state, { paused: true, ended: true });
      fire(video, "timeupdate", "pause", "ended");
    } else if (event.event === "seeked") {
      fire(video, "timeupdate");
      Object.assign(state, { at: event.to, seeking: true, ended: false });
      fire(video, "seeking");
      state.seeking = false;
      fire(video, "timeupdate", "seeked");
    } else if (event.event === "ratechange") {
      state.rate = event.rate;
      fire(video, "ratechange");
    } else if (event.event === "volumechange") {
      state.muted = event.muted;
      fire(video, "volumechange");
    } else if (event.event === "source") {
      Object.assign(state, { paused: true, ended: false, duration: NaN, at: 0 });
      fire(video, "emptied", "loadstart");
      Object.assign(state, { src: event.src, duration: event.duration ?? Infinity, at: event.to });
      fire(video, "durationchange", "loadedmetadata");
    } else {
      fire(video, event.event);
    }
  };
  const change = ({ address, title, change: changes = [] }) => {
    if (address) place = base.href = address;
    if (title) page.title = title;
    for (const { select, html, set } of changes) {
      const element = find(page, select);
      if (set) for (const [name, value] of Object.entries(set)) element.setAttribute(name, value);
      else element.outerHTML = html;
    }
  };

  const watch = new globalThis.epicrec.Watch({ tell: (said) => told.push({ t: now, said }), page, address: () => place, later, top: !frame });
  const points = [];
  if (!frame) {
    for (const state of label.states ?? []) points.push({ t: state.t, act: () => change(state) });
    for (const { t, said } of frames) points.push({ t, act: () => watch.hear(1, said.frame) });
  }
  for (const script of label.playback) {
    if ((script.frame ?? null) !== frame) continue;
    for (const event of script.events) points.push({ t: event.t, act: () => happen(script, event) });
  }
  points.sort((a, b) => a.t - b.t);
  const end = Math.max(10, 5 + (points.at(-1)?.t ?? 0));
  for (const script of label.playback) if ((script.frame ?? null) === frame && find(page, script.video)) put(script);
  watch.start();
  const STEP = 20; // a browser fires more often; every event and timer still comes at its own time
  while (now < end) {
    timers.sort((a, b) => a.at - b.at || a.order - b.order);
    const next = Math.min(end, points[0]?.t ?? end, timers[0]?.at ?? end, now + STEP);
    for (const { state } of videos.values()) if (!state.paused) state.at += state.rate * (next - now);
    now = next;
    while (points.length && points[0].t <= now) { points.shift().act(); await settle(); }
    for (const { video, state } of videos.values()) if (!state.paused) fire(video, "timeupdate");
    while (timers.length && timers[0].at <= now) { timers.shift().act(); await settle(); }
  }
  return told;
}
