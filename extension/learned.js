// Learned: where the pages of a site hold the name of what they play, from one answer of the person.
import "./content/text.js";

const { withYear, notation } = globalThis.epicrec.text;
const PLACES = ["heading", "title", "og"]; // the first heading, the page's title, its og:title
const MOST = 60; // characters around a name that may be the site's own

// The place that held `name` with the least around it; null where none did.
export function placeOf(texts, name) {
  const found = PLACES.map((place) => {
    const text = texts[place], at = text.toLowerCase().indexOf(name.toLowerCase());
    const before = text.slice(0, Math.max(0, at)), after = text.slice(at + name.length);
    const whole = at >= 0 && name && !/[\p{L}\p{N}]$/u.test(before) && !/^[\p{L}\p{N}]/u.test(after);
    return { place, before, after: after.replace(/^\s*\(\d{4}\)/, ""), whole };
  });
  const around = ({ before, after }) => before.length + after.length;
  const [best] = found.filter((one) => one.whole && around(one) <= MOST).sort((a, b) => around(a) - around(b));
  return best ? { place: best.place, before: best.before, after: best.after } : null;
}

// What a page of the site plays: null where the page has another form than the one that was answered for.
export function named(texts, rule) {
  const text = rule ? texts[rule.place] : "", end = text.length - (rule?.after.length ?? 0);
  if (!text || !text.startsWith(rule.before) || !text.endsWith(rule.after)) return null;
  const name = text.slice(rule.before.length, end).trim(), { before: title, ...numbers } = notation(name) ?? {};
  if (title) return { title, year: null, kind: "episode", ...numbers, ids: {} };
  return name ? { ...withYear(name), kind: "work", ids: {} } : null;
}
