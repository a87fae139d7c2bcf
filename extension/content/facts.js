"use strict";
// Facts: what is read of a document, as plain data. Nothing of it is kept or leaves the tab.
(() => {
  const { clean, trim, plain, pathOf, numbers, beforeNumbers, withYear, unfiled, isSiteName, isAround, FILM, GENRE } = globalThis.epicrec.text;
  const { of, oneOf } = globalThis.epicrec.words;
  const MOST = 12; // elements of a kind

  const texts = (root, selector) => [...root.querySelectorAll(selector)].slice(0, MOST).map((one) => clean(one.textContent)).filter(Boolean);

  // A document and the open shadow roots in it.
  const roots = (root) => [root, ...[...root.querySelectorAll("*")].filter((one) => one.shadowRoot).flatMap((one) => roots(one.shadowRoot))];
  const everywhere = (page, selector) => roots(page).flatMap((root) => [...root.querySelectorAll(selector)]);

  // A mark's texts; "@" asks for addresses of links, "%" for classes.
  function marked(page, selector) {
    const found = everywhere(page, selector.replace(/^[@%]/, "")).slice(0, 40);
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

  const ASIDE = "header, nav, aside, footer, form, [role=navigation], script, style, template, noscript, button, select, option, video, iframe, svg";
  const HEADS = /^H[1-6]$/;
  // The first lines that stand on their own, in their order, from `start` to the next part of the page;
  // a name and its value ("Year", "1994") are one line.
  function lines(root, start) {
    const found = [], walker = page(root).createTreeWalker(root, NodeFilter.SHOW_ELEMENT);
    let taken = null, heads = 0, from = !start;
    for (let at = walker.nextNode(); at && found.length < 16; at = walker.nextNode()) {
      if (at === start) {
        from = true;
        taken = behind(at) ? at.parentElement : at;
        if (behind(at)) found.push(behind(at));
        continue;
      }
      if (!from || taken?.contains(at)) continue;
      if (at.matches(ASIDE) || at.hidden || isRow(at) || CALLED.test(`${at.id} ${at.getAttribute("class") ?? ""}`)) { taken = at; continue; }
      if (HEADS.test(at.tagName)) {
        heads += 1;
        taken = at;
        if (heads > 2 || RELATED.test(at.textContent)) break;
        continue;
      }
      if (![...at.childNodes].some((one) => one.nodeType === 3 && one.data.trim())) continue;
      taken = at;
      if (BACK.test(clean(at.textContent))) continue;
      if (isNext(clean(at.textContent))) break;
      const said = clean(spoken(at)).slice(0, 200), before = at.previousElementSibling;
      if (at.matches("dd, td") && before?.matches("dt, th")) found.splice(-1, 1, `${clean(before.textContent)}: ${said}`);
      else if (said) found.push(...(said.length < 80 ? [said] : said.split(BREAK)));
    }
    return found;
  }
  // What other parts of a page are called in its code, and the short lines above them.
  const CALLED = /(?:^|[-_\s])(?:foot|footer|related|recommend\w*|recos?|similar|rail|carousel|shelf|slider|sidebar|comments?|menu|navbar|cookies?\w*|consent|newsletter|share|social|actions)(?:$|[-_\s])/i;
  const isNext = (line) => RELATED.test(line) && !/[\d:·|,.]/.test(line) && line.split(" ").length < 5;
  const BACK = /^[‹<←]?\s*(?:back|zurück|retour|volver|indietro|torna|voltar|terug|tillbaka|tilbage|tilbake|takaisin|wróć|powrót|zpět|späť|vissza|înapoi|назад|πίσω|geri|رجوع|חזרה|戻る|返回|뒤로)(?!\p{L})/iu;
  // The headings there, but for those of other parts of the page.
  function shown({ root, start }, outside) {
    const found = [...root.querySelectorAll("h2, h3, h4")].filter((one) => outside(one) && (!start || start.compareDocumentPosition(one) & 4));
    const end = found.findIndex((one) => RELATED.test(one.textContent));
    return (end < 0 ? found : found.slice(0, end)).map(headline).filter(Boolean);
  }
  // What stands behind an element in the same paragraph.
  function behind(element) {
    const rest = [...element.parentElement.childNodes];
    rest.splice(0, rest.indexOf(element) + 1);
    return rest.some((one) => one.nodeType === 3 && one.data.trim()) ? clean(rest.map((one) => (one.nodeType === 3 ? one.data : spoken(one))).join(" ")).slice(0, 200) : "";
  }
  const BREAK = " · ";
  const spoken = (node) => [...node.childNodes].map((one) => (one.nodeType === 3 ? one.data : one.nodeName === "BR" ? BREAK : spoken(one))).join("");
  const page = (root) => root.ownerDocument ?? root;
  const PARTS = /^(?:A|DIV|P|SMALL|SPAN|STRONG)$/;
  // A heading's words; what stands in elements of their own stands apart.
  const headline = (heading) => unfiled(headings(heading));
  const headings = (heading) => clean([...heading.childNodes].map((one) => (one.nodeType === 3 ? one.data : PARTS.test(one.nodeName) ? ` ${headings(one)} ` : one.textContent)).join("")).slice(0, 300);

  // What a heading stands above: the first element around it that says more.
  const partOf = (heading) => {
    let part = heading;
    while (part.parentElement && clean(part.textContent) === clean(heading.textContent)) part = part.parentElement;
    return part;
  };

  const MANY = "a, article, h3, h4, [class*=card], [class*=tile]";
  // A part of the page that shows other works: a heading above many of a kind, neither the first heading nor a player.
  function isRow(element) {
    const head = element.querySelector("h2, h3, h4");
    return Boolean(head) && !element.querySelector("h1, video, iframe") && element.querySelectorAll(MANY).length > 2 && partOf(head) === element;
  }
  const inRow = (element) => Boolean(element) && (isRow(element) || inRow(element.parentElement));

  // A heading that begins with a link: the link is what it belongs to, the rest is its own.
  function linked(heading) {
    const first = [...(heading?.childNodes ?? [])].find((one) => one.textContent.trim()), link = first?.nodeType === 1 && (first.matches("a") ? first : first.querySelector("a"));
    const whole = heading ? headline(heading) : "", begin = link ? headline(first) : "";
    return link && /\p{L}/u.test(whole.slice(begin.length)) ? { series: begin, own: clean(whole.slice(begin.length)) } : null;
  }
  const RELATED = oneOf(of("beside"));

  // What stands above the heading, beside it: often the series, the programme or the genre.
  function above(heading) {
    const found = [];
    let top = heading;
    while (top && !top.previousElementSibling && top.parentElement?.matches("div, span, a, header")) top = top.parentElement;
    for (let at = top?.previousElementSibling; at && found.length < 3; at = at.previousElementSibling) {
      if (at.matches(ASIDE) || isRow(at) || at.children.length > 3 || at.querySelector("video, iframe, button, input, h2 ~ p") || at.getAttribute("href") === "/" || at.querySelector("[href='/']")) continue;
      const said = clean(at.textContent);
      if (said && said.length < 100) found.unshift(said);
    }
    return found;
  }

  const PIECES = /\s+[-–—|•·»:]\s+|\s*[|(（]|:\s|\s(?=(?:19|20)\d\d$)/;
  // "Watch … online": without the words around a name.
  function unadorned(piece) {
    const words = piece.split(" "), own = words.map((word) => !isAround(word) && !FILM.test(word));
    return own.includes(true) ? words.slice(own.indexOf(true), own.lastIndexOf(true) + 1).join(" ") : piece;
  }
  // Where there is no first heading: the text of its own that is a piece of the page's title, the first and longest one.
  function titled(page, titles, known) {
    const runs = (pieces) => pieces.flatMap((_, begin) => pieces.slice(begin).map((_, more) => pieces.slice(begin, pieces.length - more).map(plain).join("")));
    const pieces = titles.flatMap((one) => [...runs(one.split(PIECES)), ...one.split(PIECES).map((piece) => plain(unadorned(piece))), plain(beforeNumbers(one) ?? "")]);
    const isName = (said) => said.length > 1 && said.length < 120 && pieces.includes(plain(said)) && !/^\d{1,2}$/.test(said)
      && !isSiteName(said, known) && trim(said.replace(FILM, "").replace(GENRE, "")) !== "";
    const slug = plain(pathOf(known.address).split("/").filter(Boolean).findLast((part) => /[-_]\p{L}/u.test(part)) ?? "");
    const at = (one) => (slug.includes(plain(headline(one))) ? -1 : pieces.indexOf(plain(headline(one)))); // what the address says, too, comes first
    return [...page.querySelectorAll("h2, h3, h4, h5, h6, p, div, span, strong, b, em, a, li, dd, th, td")]
      .filter((one) => one.textContent.length < 200 && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) && isName(headline(one)) && !one.closest(ASIDE) && !inRow(one))
      .sort((a, b) => at(a) - at(b))[0];
  }

  // Where nothing agrees with the page's title: the first heading, if it has a year in brackets, or a name and an episode's numbers, or such stand in the second.
  function dated(page) {
    const [first, second] = page.querySelectorAll("h2, h3, h4");
    return first && (withYear(headline(first))?.rest === "" || numbers(headline(first))?.before || (second && numbers(headline(second))?.before === "")) ? first : undefined;
  }

  // What stands around a page's player: the first element around it that says something, or all that comes behind it.
  function aroundPlayer(page) {
    let player = everywhere(page, "video")[0] ?? page.querySelector("iframe");
    while (player && player.getRootNode() !== page) player = player.getRootNode().host;
    let box = player;
    while (box && box !== page.body && !lines(box).length && !box.querySelector("h2, h3, h4")) box = box.parentElement;
    return box && box !== page.body ? { root: box, start: null } : { root: page.body ?? page, start: player };
  }

  // Links to what this page's address lies under, each named as the address names it: "Home › Series › The Name".
  function trail(page, address) {
    const here = decoded(address);
    return [...page.querySelectorAll("a[href]")].slice(0, 300).filter((one) => {
      const path = decoded(one.href).replace(/\/$/, "");
      return path.length > 1 && here.startsWith(`${path}/`) && plain(path.split("/").at(-1)) === plain(one.textContent);
    }).map((one) => clean(one.textContent));
  }
  const decoded = (address) => (/^https?:/.test(address) ? pathOf(address) : "");

  function read(page, address) {
    const og = {}, named = {};
    for (const meta of page.querySelectorAll("meta[property], meta[name]")) {
      const name = meta.getAttribute("property") ?? meta.getAttribute("name");
      if (name.startsWith("og:")) og[name.slice(3)] ??= meta.content;
      else named[name] ??= meta.content;
    }
    const site = globalThis.epicrec.sites.find(({ host }) => host.test(new URL(address).hostname));
    // the header of a part is not the site's
    const outside = (element) => !element.closest("header:not(article header, main header, section header), nav, aside, footer, [role=navigation]") && !inRow(element);
    const french = /^fr/.test(page.documentElement.lang); // "lecture" is French for playing
    const names = [og.site_name, named["application-name"], ...texts(page, ".logo, .site-title, a[href='/']").filter((one) => one.length < 40)].map(clean).filter(Boolean);
    const titles = [page.title, og.title].map((one) => unfiled(clean(one)));
    const firsts = everywhere(page, "h1").filter((one) => outside(one) && !one.querySelector("a[href='/']") && !one.closest("a[href='/']"));
    const heading = firsts[0] ?? titled(page, titles, { names, address }) ?? dated(page);
    const both = linked(heading);
    const shownHeads = (found) => found.slice(0, MOST).map((one) => (both && one === heading ? both.own : headline(one))).filter(Boolean);
    const h1 = firsts.length ? shownHeads(firsts) : heading ? [headline(heading)] : [], h2 = shownHeads(everywhere(page, "h2").filter(outside));
    const around = heading ? { root: heading.getRootNode() === page ? heading.closest("main") ?? page.body ?? page : heading.getRootNode(), start: heading } : aroundPlayer(page);
    // a heading of another part of the page, where the first heading and the player are not
    const apart = (one) => { const part = partOf(one); return heading && !part.contains(heading) && !part.querySelector("video"); };
    return {
      address, french, title: trim(unfiled(clean(page.title)).slice(0, 300).replace(french ? /\blecture\b/i : "", "")), og,
      names, trail: trail(page, address),
      jsonld: [...page.querySelectorAll("script[type='application/ld+json']")].slice(0, MOST).map((one) => one.textContent.slice(0, 200_000)),
      microdata: microdata(page),
      h1, h2: (firsts.length ? h2 : shown(around, outside)).slice(0, 3),
      parts: everywhere(page, "h2").filter(apart).map(headline),
      pictures: [...page.querySelectorAll("img[alt]")].filter((one) => /title|logo-title|treatment/i.test(one.className + (one.dataset.testid ?? ""))).slice(0, 3).map((one) => clean(one.alt)),
      links: [...new Set([...page.querySelectorAll("a[href*='imdb.com/title/tt'], a[href*='themoviedb.org/movie/'], a[href*='letterboxd.com/film/']")].filter(outside).map((one) => one.href))].slice(0, MOST),
      about: clean(named.description ?? og.description).slice(0, 300), above: [...above(heading), ...(both ? [both.series] : [])], small: lines(around.root, around.start),
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

  globalThis.epicrec.facts = { read, fresh, roots };
})();
