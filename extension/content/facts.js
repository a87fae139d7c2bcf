"use strict";
// Facts: what is read of a document, as plain data. Nothing of it is kept or leaves the tab.
(() => {
  const { clean } = globalThis.epicrec.text;
  const MOST = 12; // elements of a kind

  const texts = (root, selector) => [...root.querySelectorAll(selector)].slice(0, MOST).map((one) => clean(one.textContent)).filter(Boolean);

  // A mark's texts; "@" asks for addresses of links, "%" for classes.
  function marked(page, selector) {
    const found = [...page.querySelectorAll(selector.replace(/^[@%]/, ""))].slice(0, 40);
    if (selector[0] === "@") return found.map((one) => one.href);
    if (selector[0] === "%") return found.map((one) => one.className);
    return found.map((one) => clean(one.textContent)).filter(Boolean);
  }

  const value = (element, name) =>
    clean(element.getAttribute("content") ?? element.getAttribute("datetime") ?? (name === "name" ? null : element.getAttribute("href")) ?? element.textContent);

  // Microdata that stands on its own, in the form of JSON-LD.
  function microdata(page) {
    return [...page.querySelectorAll("[itemscope][itemtype]")]
      .filter((scope) => !scope.closest("[itemprop]"))
      .slice(0, 30)
      .map(item);
  }

  function item(scope) {
    const node = { "@type": scope.getAttribute("itemtype") };
    for (const prop of scope.querySelectorAll("[itemprop]")) {
      if (prop.parentElement.closest("[itemscope]") !== scope) continue;
      for (const name of prop.getAttribute("itemprop").split(/\s+/)) node[name] ??= prop.hasAttribute("itemscope") ? item(prop) : value(prop, name);
    }
    return node;
  }

  function read(page, address) {
    const og = {}, named = {};
    for (const meta of page.querySelectorAll("meta[property], meta[name]")) {
      const name = meta.getAttribute("property") ?? meta.getAttribute("name");
      if (name.startsWith("og:")) og[name.slice(3)] ??= meta.content;
      else named[name] ??= meta.content;
    }
    const site = globalThis.epicrec.sites.find(({ host }) => host.test(new URL(address).hostname));
    const outside = (element) => !element.closest("header, nav, aside, footer, [role=navigation]");
    const heads = (level) => [...page.querySelectorAll(level)].filter(outside).slice(0, MOST).map((one) => clean(one.textContent)).filter(Boolean);
    return {
      address, title: clean(page.title), og,
      names: [og.site_name, named["application-name"], ...texts(page, ".logo, .site-title")].map(clean).filter(Boolean),
      jsonld: [...page.querySelectorAll("script[type='application/ld+json']")].slice(0, MOST).map((one) => one.textContent.slice(0, 200_000)),
      microdata: microdata(page),
      h1: heads("h1"), h2: heads("h2").slice(0, 3),
      pictures: [...page.querySelectorAll("img[alt]")].filter((one) => /title|logo-title|treatment/i.test(one.className + (one.dataset.testid ?? ""))).slice(0, 3).map((one) => clean(one.alt)),
      small: texts(page, "main p, body > div p, main span, main dd").slice(0, 6).map((one) => one.slice(0, 200)),
      marks: site ? Object.fromEntries(Object.entries(site.marks).map(([name, selector]) => [name, marked(page, selector)])) : null,
    };
  }

  // What of the head was left over by the page before, in a page that changes by script.
  function fresh(facts, before) {
    if (!before || before.address === facts.address) return facts;
    const old = new Set(before.jsonld), items = new Set(before.microdata.map((one) => JSON.stringify(one)));
    const sameHead = JSON.stringify(before.og) === JSON.stringify(facts.og);
    return {
      ...facts,
      og: sameHead ? (facts.og.site_name ? { site_name: facts.og.site_name } : {}) : facts.og,
      jsonld: facts.jsonld.filter((one) => !old.has(one)),
      microdata: facts.microdata.filter((one) => !items.has(JSON.stringify(one))),
    };
  }

  globalThis.epicrec.facts = { read, fresh };
})();
