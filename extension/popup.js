// Popup: what this page was taken for, and what to do about it.
import { api, kept } from "./api.js";
import { state } from "./client.js";
import { pattern, siteOf } from "./site.js";

const CONTENT = ["words", "text", "schema", "sites", "facts", "detect"].map((name) => `content/${name}.js`);
const at = (id) => document.getElementById(id);
const ask = (about, more = {}) => api.runtime.sendMessage({ ask: about, ...more });
const show = (id, yes) => { at(id).hidden = !yes; };

// The tab the popup was opened over; opened as a page of its own, the one that its address names.
async function tabBelow() {
  const named = Number(new URLSearchParams(location.search).get("tab"));
  if (named) return api.tabs.get(named);
  return (await api.tabs.query({ active: true, currentWindow: true }))[0];
}

const counted = (queue) => `${queue.length} ${queue.length === 1 ? "entry waits" : "entries wait"}`;

function words({ title, year, kind, season, number, how }) {
  const which = kind === "episode" && (season || number) ? `, ${[season && `season ${season}`, number && `episode ${number}`].filter(Boolean).join(" ")}` : "";
  return `${title}${year && kind !== "episode" ? ` (${year})` : ""}${which}: ${kind}, ${how}`;
}

// What a page that may not be looked at yet would be taken for: read now, because the person clicked here.
async function peek(tab) {
  try {
    await api.scripting.executeScript({ target: { tabId: tab.id }, files: CONTENT });
    const [{ result }] = await api.scripting.executeScript({
      target: { tabId: tab.id },
      func: () => globalThis.epicrec.detect.identify(globalThis.epicrec.facts.read(document, location.href)),
    });
    return result;
  } catch {
    return null;
  }
}

async function showPage(tab) {
  const site = siteOf(tab?.url ?? "");
  show("none", !site);
  if (!site) return;
  at("site").textContent = site;
  const may = await api.permissions.contains({ origins: [pattern(site)] });
  const { sites, off } = await state();
  show("asking", !may);
  show("allowed", may);
  if (!may) {
    const found = await peek(tab);
    at("would").textContent = found ? `This page is about ${found.title}${found.year ? ` (${found.year})` : ""}.` : "";
    return;
  }
  const { shown } = await kept("session", { shown: {} });
  const entries = shown[tab.id]?.site === site ? shown[tab.id].entries : [];
  const taken = entries.length ? null : await api.tabs.sendMessage(tab.id, { ask: "taken" }, { frameId: 0 }).catch(() => null);
  at("taken").textContent = off.includes(site) ? "Switched off in EpicRec: nothing is kept here."
    : entries.length ? `Kept: ${words(entries.at(-1))}.`
    : taken ? `${taken.title}${taken.year ? ` (${taken.year})` : ""}: not kept. Half of it must be played, or the page be about it.`
    : "Nothing recognised on this page.";
  show("undo-line", entries.length > 0);
  const { seen, missed } = sites[site] ?? {};
  const doubt = missed && (!seen || seen < missed);
  at("working").classList.toggle("warn", Boolean(doubt));
  at("working").textContent = doubt ? `A long video was not recognised here on ${missed}: the site may have changed.`
    : seen ? `Last recognised here: ${seen}.` : "";
}

async function draw() {
  const { pairing, queue, dropped, lost, trouble, paused } = await state();
  show("unpaired", !pairing);
  show("waiting", !pairing && queue.length > 0);
  at("waiting").textContent = `${counted(queue)} here, sealed for the EpicRec that was paired. Pair that one again and ${queue.length === 1 ? "it arrives" : "they arrive"}; another cannot read ${queue.length === 1 ? "it" : "them"}.`;
  show("page", pairing);
  show("state", pairing);
  if (!pairing) return;
  const waits = queue.length ? ` ${counted(queue)} here, sealed for it.` : "";
  const older = dropped ? ` ${dropped} older ones were dropped.` : "";
  const unreadable = lost ? ` ${lost === 1 ? "1 entry that waited was" : `${lost} entries that waited were`} sealed for another EpicRec, or for a pairing that was revoked: nobody can read ${lost === 1 ? "it" : "them"} any more.` : "";
  at("connection").textContent = `${trouble || "Connected to EpicRec on this machine."}${waits}${older}${unreadable}`;
  at("connection").classList.toggle("warn", Boolean(trouble || lost));
  const until = new Date(paused).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  at("paused").textContent = Date.now() < paused ? `Paused until ${until}: nothing is kept.` : "";
  at("pause").textContent = Date.now() < paused ? "Go on now" : "Pause for an hour";
  await showPage(await tabBelow());
}

at("pair").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("pairing-trouble").textContent = (await ask("pair", { code: at("code").value })) ?? "";
  await draw();
});
at("allow").addEventListener("click", () => {
  api.permissions.request({ origins: [pattern(at("site").textContent)] }).then(draw);
});
at("leave").addEventListener("click", async () => { await ask("leave", { site: at("site").textContent }); await draw(); });
at("undo").addEventListener("click", async () => { await ask("undo", { tab: (await tabBelow()).id }); await draw(); });
at("pause").addEventListener("click", async () => { await ask("pause", { on: Date.now() >= (await state()).paused }); await draw(); });
at("unpair").addEventListener("click", async () => { await ask("unpair"); await draw(); });

await draw();
await ask("hello");
await draw();
document.body.dataset.ready = "yes";
