"use strict";
// Sites: where known sites show what they play, as CSS selectors. Written from memory: docs/extension.md says how to
// correct one. `path` is where the site plays, `numbers` a line that begins with season and episode ("S1:E2 …",
// "Season 1, Ep. 2 …"), which films do not have, and `year`, where there is one, a film's year.
globalThis.epicrec.SITES = [
  {
    host: "netflix.com", path: "/watch/",
    title: "[data-uia='video-title'] > :first-child, [data-uia='video-title']:not(:has(*))",
    numbers: "[data-uia='video-title'] > :nth-child(2)",
  },
  { host: "disneyplus.com", path: "/play/", title: ".title-field", numbers: ".subtitle-field" },
  { host: "disneyplus.com", path: "/video/", title: ".title-field", numbers: ".subtitle-field" },
  ...[
    "primevideo.com", "amazon.com", "amazon.ca", "amazon.co.jp", "amazon.co.uk", "amazon.de", "amazon.es", "amazon.fr",
    "amazon.in", "amazon.it", "amazon.nl", "amazon.pl", "amazon.se",
  ].map((host) => ({
    host, path: "/", title: ".atvwebplayersdk-title-text", numbers: ".atvwebplayersdk-subtitle-text",
    year: "[data-automation-id='release-year-badge']",
  })),
  ...["max.com", "hbomax.com"].map((host) => ({
    host, path: "/video/watch/",
    title: "[data-testid='player-ux-asset-title']", numbers: "[data-testid='player-ux-season-episode']",
  })),
  {
    host: "hulu.com", path: "/watch/",
    title: ".PlayerMetadata__title", numbers: ".PlayerMetadata__subTitle",
  },
  {
    host: "peacocktv.com", path: "/watch/playback/vod/",
    title: ".playback-metadata__container-title", numbers: "[class^='playback-metadata__container-episode']",
  },
  {
    host: "bbc.co.uk", path: "/iplayer/episode/",
    title: ".hero-header__title, .play-cta__title", numbers: ".hero-header__subtitle, .play-cta__subtitle",
  },
];
