// Popup: what this page was taken for, what to do about it, and the question where nobody knows.
import { api, kept } from "./api.js";
import { state } from "./client.js";
import { pattern, siteOf } from "./site.js";

const CONTENT = ["text", "sites", "page"].map((name) => `content/${name}.js`);
const at = (id) => document.getElementById(id);
const ask = (about, more = {}) => api.runtime.sendMessage({ ask: about, ...more });
const show = (id, yes) => { at(id).hidden = !yes; };

// The tab the popup was opened over; opened as a page of its own, the one that its address names.
async function tabBelow() {
  const one = Number(new URLSearchParams(location.search).get("tab"));
  if (one) return api.tabs.get(one);
  return (await api.tabs.query({ active: true, currentWindow: true }))[0];
}

// "1 entry waits", "2 entries wait"
const counted = (count, one, many) => `${count} ${count === 1 ? one : many}`;
const titled = ({ title, year }) => `${title}${year ? ` (${year})` : ""}`;

function words({ title, year, kind, season, number, how }) {
  const numbers = [season && `season ${season}`, number && `episode ${number}`].filter(Boolean).join(" ");
  const name = kind === "episode" ? [title, numbers].filter(Boolean).join(", ") : titled({ title, year });
  return `${name}: ${kind === "work" ? "" : `${kind}, `}${how}`;
}

// What a page that may not be read yet would be taken for: read now, because the person clicked here.
async function peek(tab) {
  try {
    const target = { tabId: tab.id };
    await api.scripting.executeScript({ target, files: CONTENT });
    const func = () => globalThis.epicrec.page.read(document, location.href);
    return (await api.scripting.executeScript({ target, func }))[0].result;
  } catch {
    return null;
  }
}

// ---- the question -------------------------------------------------------------------------------

let asking = null; // what the tab below is asked for: { tab, site, texts, share }

// The page's title without the site's own name, or its heading where the title has that.
function suggestion({ heading, title }, site) {
  const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  if (heading && title.includes(heading)) return heading;
  return title.split(/\s[|–—·-]\s/).filter((part) => !plain(site).includes(plain(part))).join(" – ") || title;
}

async function showQuestion(wanted) {
  const fresh = wanted && JSON.stringify(wanted) !== JSON.stringify(asking);
  asking = wanted;
  show("question", wanted);
  if (!fresh) return;
  at("name").value = suggestion(wanted.texts, wanted.site);
  await find();
}

async function find() {
  const typed = at("name").value.trim(), found = await ask("search", { text: typed });
  at("search-trouble").textContent = found === null ? "EpicRec is not there, so its catalogue cannot be searched."
    : found.length ? "" : "The catalogue has nothing of this name.";
  at("found").replaceChildren(...(found ?? []).map((work) => {
    const line = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.textContent = `${titled(work)}${work.kind === "series" ? ", series" : ""}`;
    onClick(button, () => answer(work));
    line.append(button);
    return line;
  }));
}

async function answer(work) {
  const { tab, site, texts, share } = asking;
  await ask("answer", { tab, site, asking: { texts, share }, typed: at("name").value.trim(), work });
}

// ---- this page ----------------------------------------------------------------------------------

async function showPage(tab) {
  const site = siteOf(tab?.url ?? "");
  show("none", !site);
  if (!site) return;
  at("site").textContent = site;
  const may = await api.permissions.contains({ origins: [pattern(site)] });
  show("permission", !may);
  show("allowed", may);
  if (may) return showAllowed(tab, site);
  const found = await peek(tab);
  at("would").textContent = found ? `This page is about ${titled(found)}.` : "";
}

async function showAllowed(tab, site) {
  const { sites, off, paused } = await state(), { shown } = await kept("session", { shown: {} });
  const silent = off.includes(site) || Date.now() < paused;
  const entries = shown[tab.id]?.site === site ? shown[tab.id].entries : [];
  const told = await api.tabs.sendMessage(tab.id, { ask: "state" }, { frameId: 0 }).catch(() => null);
  await showQuestion(told?.asking && !silent ? { tab: tab.id, site, ...told.asking } : null);
  at("taken").textContent = off.includes(site) ? "Switched off in EpicRec: nothing is kept here."
    : entries.length ? `Kept: ${words(entries.at(-1))}.`
    : asking ? ""
    : told?.found ? `${titled(told.found)}: not kept. Half of it must be played, or the page be about it.`
    : "Nothing recognised on this page.";
  show("undo-line", entries.length > 0);
  const { seen, missed } = sites[site] ?? {}, doubt = Boolean(missed && (!seen || seen < missed) && !asking);
  at("working").classList.toggle("warn", doubt);
  at("working").textContent = doubt ? `A long video was not recognised here on ${missed}.`
    : seen ? `Last recognised here: ${seen}.` : "";
}

async function draw() {
  const { pairing, queue, dropped, lost, trouble, paused } = await state();
  const waits = counted(queue.length, "entry waits", "entries wait"), one = queue.length === 1;
  show("unpaired", !pairing);
  show("waiting", !pairing && queue.length > 0);
  at("waiting").textContent = `${waits} here, sealed for the EpicRec that was paired. Pair that one again and `
    + `${one ? "it arrives" : "they arrive"}; another cannot read ${one ? "it" : "them"}.`;
  show("page", pairing);
  show("state", pairing);
  if (!pairing) return;
  at("connection").textContent = [
    trouble || "Connected to EpicRec on this machine.",
    queue.length && `${waits} here, sealed for it.`,
    dropped && `${dropped} older ones were dropped.`,
    lost && `${counted(lost, "entry that waited was", "entries that waited were")} sealed for another EpicRec, or for `
      + `a pairing that was revoked: nobody can read ${lost === 1 ? "it" : "them"} any more.`,
  ].filter(Boolean).join(" ");
  at("connection").classList.toggle("warn", Boolean(trouble || lost));
  const until = new Date(paused).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  at("paused").textContent = Date.now() < paused ? `Paused until ${until}: nothing is kept.` : "";
  at("pause").textContent = Date.now() < paused ? "Resume now" : "Pause for an hour";
  await showPage(await tabBelow());
}

function onClick(button, act) {
  button.addEventListener("click", async () => { await act(); await draw(); });
}

function onSubmit(id, act) {
  at(id).addEventListener("submit", (event) => { event.preventDefault(); act(); });
}

onSubmit("pair", async () => {
  at("pairing-trouble").textContent = (await ask("pair", { code: at("code").value })) ?? "";
  await draw();
});
onSubmit("question", find);
onClick(at("as-written"), async () => {
  if (at("question").reportValidity()) await answer({ title: at("name").value.trim(), kind: "work" });
});
onClick(at("no-film"), () => answer(null));
onClick(at("allow"), () => api.permissions.request({ origins: [pattern(at("site").textContent)] }));
onClick(at("leave"), () => ask("leave", { site: at("site").textContent }));
onClick(at("undo"), async () => ask("undo", { tab: (await tabBelow()).id }));
onClick(at("pause"), async () => ask("pause", { on: Date.now() >= (await state()).paused }));
onClick(at("unpair"), () => ask("unpair"));

await draw();
await ask("hello");
await draw();
document.body.dataset.ready = "yes";
