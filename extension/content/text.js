"use strict";
// Text: years and episodes' numbers, as they are written in every language. Also imported by learned.js.
(() => {
  const clean = (text) => String(text ?? "").replace(/\s+/g, " ").trim();

  const yearIn = (value) => Number(/(?:^|\D)((?:18[89]|19\d|20\d)\d)(?!\d)/.exec(String(value ?? ""))?.[1]) || null;

  // "Heat (1995)"
  function withYear(text) {
    const [, title, year] = /^(.+?)\s*\(((?:18|19|20)\d\d)\)$/.exec(text) ?? [null, text, null];
    return { title, year: Number(year) || null };
  }

  // "S1:E2", "s01e02", "1x02" anywhere in a text, with what stands before it.
  function notation(text) {
    const found = /(?:^|[\s:,(|–-])(?:S(\d{1,2})\s?[:.,·-]?\s?E(\d{1,3})|(\d{1,2})x(\d{2,3}))(?!\w)/i.exec(text);
    if (!found) return null;
    const before = text.slice(0, found.index).replace(/[\s:,(|–-]+$/, "");
    return { before, season: Number(found[1] ?? found[3]), number: Number(found[2] ?? found[4]) };
  }

  globalThis.epicrec ??= {};
  globalThis.epicrec.text = { clean, yearIn, withYear, notation };
})();
