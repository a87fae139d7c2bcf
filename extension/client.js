// Client: the one program this extension speaks to. It pairs, keeps what waits, delivers it, and asks the catalogue.
import { api, inTurn, kept } from "./api.js";
import { seal } from "./seal.js";

export const MOST = 200; // entries that wait; the oldest goes when one more comes
const PORT = 8377, PORTS = 10, PATIENCE = 5000;
// `former` is the pairing that was forgotten, as long as entries sealed for it wait; `lost` counts those nobody can
// read any more; `sites` are those that are allowed, each with the days it last worked or did not, and what was learned
const NOTHING = {
  pairing: null, former: null, queue: [], dropped: 0, lost: 0, sites: {}, off: [], paused: 0, trouble: "",
};

export const state = () => kept("local", NOTHING);

async function post(port, path, body) {
  return fetch(`http://127.0.0.1:${port}/extension/${path}`, {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
    credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(PATIENCE),
  });
}

// "8377-ABCD-EFGH-JKMN", as the client shows it: where it listens, and a secret.
export async function pair(code) {
  const port = Number(/^\s*(\d{2,5})\b/.exec(code)?.[1]);
  if (!(port > 0 && port < 65536)) return "That is no code. It looks like 8377-ABCD-EFGH-JKMN.";
  const known = await state(), former = known.pairing ?? known.former;
  let answer;
  try {
    answer = await post(port, "pair", { code: code.trim(), former: former?.id ?? "" });
  } catch {
    return "EpicRec does not answer. Is it running?";
  }
  if (answer.status === 503) return "EpicRec waits for its passphrase. Open it first.";
  if (!answer.ok) return "EpicRec did not accept this code. Make a new one there.";
  const { pairing, token, key } = await answer.json();
  await inTurn(async () => {
    const { queue } = await state();
    // the same key is the same client, which can read what waits; another one cannot
    const kept = !queue.length || former?.key === key ? { queue, lost: 0 } : { queue: [], lost: queue.length };
    await api.storage.local.set({
      pairing: { id: pairing, token, key, port }, former: null, ...kept, dropped: 0, off: [], trouble: "",
    });
  });
  return "";
}

// The token goes; what waits stays, sealed, for the same client.
export function unpair() {
  return inTurn(async () => {
    const { pairing, queue, former } = await state();
    const last = pairing ? { id: pairing.id, key: pairing.key } : former;
    await api.storage.local.set({ pairing: null, former: queue.length ? last : null, lost: 0, trouble: "" });
  });
}

// Seals an entry to the client and keeps it until it has arrived. Its name is all that can be read here.
export async function keep(entry) {
  const { pairing } = await state();
  if (!pairing) return null;
  const id = crypto.randomUUID();
  const { sealed } = await seal({ ...entry, id }, pairing.key);
  await inTurn(async () => {
    const { queue, dropped } = await state();
    const waiting = [...queue, { id, sealed }];
    const over = Math.max(0, waiting.length - MOST);
    await api.storage.local.set({ queue: waiting.slice(over), dropped: dropped + over });
  });
  return id;
}

// Takes an entry back: from what waits, and, since it may be under way or have arrived, by an entry that says so.
export async function undo(id) {
  await inTurn(async () => {
    await api.storage.local.set({ queue: (await state()).queue.filter((one) => one.id !== id) });
  });
  await keep({ undoes: id });
}

// Says something to the client that was paired and hears its answer; null where it is not there.
async function say(content) {
  const { pairing } = await state();
  if (!pairing) return null;
  let trouble = `EpicRec is not running, or not on a port from ${PORT} to ${PORT + PORTS - 1}: `
    + "on another one, forget the pairing and pair again, and what waits arrives.";
  // where it was last, then where it usually is
  for (const port of new Set([pairing.port, ...Array.from({ length: PORTS }, (_, i) => PORT + i)])) {
    const { sealed, answer } = await seal({ token: pairing.token, ...content }, pairing.key);
    try {
      const reply = await post(port, "messages", { pairing: pairing.id, sealed });
      if (reply.status === 403) trouble = "EpicRec no longer knows this browser. Pair it again.";
      if (reply.status === 503) trouble = "EpicRec waits for its passphrase.";
      if (!reply.ok) continue;
      // only the client that was paired can have written this
      const said = await answer((await reply.json()).sealed);
      await inTurn(async () => {
        const now = await state();
        if (now.pairing?.id !== pairing.id) return;
        await api.storage.local.set({ off: said.off, trouble: "", pairing: { ...pairing, port } });
      });
      return said;
    } catch { /* nobody there, or somebody else: the next port */ }
  }
  await api.storage.local.set({ trouble });
  return null;
}

// Works of the client's catalogue, best first: [{ title, year, kind }]; null where it is not there.
export async function search(text) {
  return (await say({ search: text }))?.found ?? null;
}

let delivering = null;

// Delivers what waits and hears which sites are off; one delivery at a time.
export function deliver() {
  delivering ??= attempt().finally(() => { delivering = null; });
  return delivering;
}

async function attempt() {
  const { queue, sites } = await state();
  const days = Object.fromEntries(Object.entries(sites).map(([name, { seen, missed }]) => [name, { seen, missed }]));
  const said = await say({ entries: queue, sites: days });
  if (!said) return;
  const here = new Set(said.arrived);
  await inTurn(async () => {
    await api.storage.local.set({ queue: (await state()).queue.filter((one) => !here.has(one.id)) });
  });
}
