// Background: hears the tabs and the popup, and sees to it that the client hears of what was seen.
import { api, inTurn, kept } from "./api.js";
import { deliver, keep, pair, search, state, undo, unpair } from "./client.js";
import { named, placeOf } from "./learned.js";
import { pattern, siteOf, siteOfPattern } from "./site.js";

const CONTENT = ["text", "sites", "page", "playing", "watch", "start"].map((name) => `content/${name}.js`);
const HOUR = 3_600_000, REMEMBERED = 300;
const WAITS = [2, 4, 8, 16, 20, 20, 20, 20, 20, 20]; // seconds between tries; then the next page, popup or start

const today = () => new Date().toISOString().slice(0, 10);
const mark = (tab, text) => api.action.setBadgeText({ tabId: tab, text }).catch(() => {});
const toTab = (tab, message) => api.tabs.sendMessage(tab, message, { frameId: 0 }).catch(() => null);

// ---- sites: scripts run where the person allowed it, once paired, and nowhere else --------------

async function allowedSites() {
  const { origins = [] } = await api.permissions.getAll();
  return origins.map(siteOfPattern).filter(Boolean);
}

function register() {
  return inTurn(async () => {
    const allowed = await allowedSites(), { sites, pairing, off } = await state();
    const wanted = pairing ? allowed.filter((site) => !off.includes(site)) : [];
    const there = (await api.scripting.getRegisteredContentScripts()).map(({ id }) => id);
    const gone = there.filter((id) => !wanted.includes(id)), fresh = wanted.filter((site) => !there.includes(site));
    if (gone.length) await api.scripting.unregisterContentScripts({ ids: gone });
    if (fresh.length) {
      await api.scripting.registerContentScripts(fresh.map((site) => ({
        id: site, matches: [pattern(site)], js: CONTENT, allFrames: true, runAt: "document_idle",
      })));
    }
    await api.storage.local.set({ sites: Object.fromEntries(allowed.map((site) => [site, sites[site] ?? {}])) });
    return fresh;
  });
}

async function allowed() {
  for (const site of await register()) {
    for (const { id } of await api.tabs.query({ url: pattern(site) })) {
      await api.scripting.executeScript({ target: { tabId: id, allFrames: true }, files: CONTENT }).catch(() => {});
    }
  }
  await hurry();
}

// ---- what the tabs tell -------------------------------------------------------------------------

async function mayTell(tab, site) {
  const { pairing, paused, off } = await state();
  if (!pairing || !site || tab.incognito || Date.now() < paused || off.includes(site)) return false;
  return (await allowedSites()).includes(site);
}

function note(site, more) {
  return inTurn(async () => {
    const { sites } = await state();
    await api.storage.local.set({ sites: { ...sites, [site]: { ...sites[site], ...more } } });
  });
}

async function seen(what, tab, site) {
  const { title, year = null, kind, season = null, number = null, ids, how, share } = what;
  const key = JSON.stringify([site, title, year, kind, season, number, how]);
  const fresh = await inTurn(async () => {
    const { told } = await kept("session", { told: [] });
    if (told.includes(key)) return false;
    await api.storage.session.set({ told: [...told, key].slice(-REMEMBERED) });
    return true;
  });
  if (!fresh) return;
  await note(site, { seen: today() });
  const when = `${new Date().toISOString().slice(0, 16)}Z`, part = share && Math.round(100 * share) / 100;
  const id = await keep({ title, year, kind, season, number, ids, how, share: part, site, when });
  await inTurn(async () => {
    const { shown } = await kept("session", { shown: {} });
    const before = shown[tab]?.site === site ? shown[tab].entries : [];
    const entries = [...before, { id, title, year, kind, season, number, how }].slice(-5);
    await api.storage.session.set({ shown: { ...shown, [tab]: { site, entries } } });
  });
  await mark(tab, how === "watched" ? "✓" : "•");
  await hurry();
}

// A long video whose name no layer knows: where the site's pages hold it was learned, or the person is asked.
async function unnamed({ texts, share }, tab, site) {
  const work = named(texts, (await state()).sites[site]?.learned);
  if (work) {
    await toTab(tab, { ask: "answered" });
    await seen({ ...work, how: "watched", share }, tab, site);
  } else {
    await note(site, { missed: today() });
    await mark(tab, "?");
  }
}

async function fromTab(message, sender) {
  const site = siteOf(sender.url), { id } = sender.tab;
  if (message.frame && sender.frameId) {
    await toTab(id, { frame: { ...message.frame, id: sender.frameId } });
  } else if (sender.frameId === 0 && (await mayTell(sender.tab, site))) {
    if (message.seen) await seen(message.seen, id, site);
    if (message.unnamed) await unnamed(message.unnamed, id, site);
  }
  await hurry({ onlyWaiting: true });
}

// ---- what the popup asks ------------------------------------------------------------------------

const ASKED = {
  hello: async () => {
    await deliver();
    await register();
    await badge();
  },
  pair: async ({ code }) => {
    const trouble = await pair(code);
    if (!trouble) await allowed();
    return trouble;
  },
  unpair: async () => {
    await unpair();
    await register();
  },
  search: ({ text }) => search(text),
  // `typed` is the name as it stands on the page, `work` what it is in the catalogue; without it nothing was watched
  answer: async ({ tab, site, asking, typed, work }) => {
    await toTab(tab, { ask: "answered" });
    await mark(tab, "");
    if (!work) return;
    await note(site, { learned: placeOf(asking.texts, typed) ?? placeOf(asking.texts, work.title) });
    await seen({ ids: {}, ...work, how: "watched", share: asking.share }, tab, site);
  },
  // a wrong name also means that the name is not where it was learned to be
  undo: async ({ tab }) => {
    const { shown } = await kept("session", { shown: {} }), { site, entries = [] } = shown[tab] ?? {};
    for (const { id } of entries) if (id) await undo(id);
    if (site) await note(site, { learned: null });
    await forget(tab);
    await mark(tab, "");
    await hurry();
  },
  pause: async ({ on }) => {
    await api.storage.local.set({ paused: on ? Date.now() + HOUR : 0 });
    await badge();
  },
  leave: async ({ site }) => {
    await api.permissions.remove({ origins: [pattern(site)] }).catch(() => false);
    await register();
  },
};

function forget(tab) {
  return inTurn(async () => {
    const { shown } = await kept("session", { shown: {} });
    delete shown[tab];
    await api.storage.session.set({ shown });
  });
}

// ---- delivering ---------------------------------------------------------------------------------

async function badge() {
  const { queue, paused } = await state();
  const text = Date.now() < paused ? "II" : queue.length ? String(queue.length) : "";
  await api.action.setBadgeText({ text });
  await api.action.setBadgeBackgroundColor({ color: "#0b5c7a" });
}

let tries = 0, timer = null;

// Delivers now, and goes on trying for a while if the client is not there.
async function hurry({ onlyWaiting = false } = {}) {
  if (onlyWaiting && !(await state()).queue.length) return;
  if (timer !== null && onlyWaiting) return;
  clearTimeout(timer);
  timer = null;
  tries = onlyWaiting ? tries : 0;
  await retry();
}

async function retry() {
  await deliver();
  await register();
  await badge();
  const { queue, pairing } = await state();
  if (!queue.length || !pairing || tries >= WAITS.length) {
    tries = 0;
    return;
  }
  timer = setTimeout(() => { timer = null; retry(); }, 1000 * WAITS[tries]);
  tries += 1;
}

api.runtime.onMessage.addListener((message, sender, answer) => {
  if (sender.id !== api.runtime.id) return undefined;
  const own = sender.url?.startsWith(api.runtime.getURL(""));
  const work = own ? ASKED[message.ask]?.(message) : sender.tab ? fromTab(message, sender) : null;
  Promise.resolve(work).then((said) => answer(said ?? null), () => answer(null));
  return true;
});
api.permissions.onAdded.addListener(allowed);
api.permissions.onRemoved.addListener(register);
api.runtime.onInstalled.addListener(allowed);
api.runtime.onStartup.addListener(async () => { await register(); await hurry(); });
api.tabs.onRemoved.addListener(forget);
