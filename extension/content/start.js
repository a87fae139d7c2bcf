"use strict";
// Start: once in every document of an allowed site.
(() => {
  const { epicrec } = globalThis;
  if (epicrec.started) return;
  epicrec.started = true;
  const api = globalThis.browser ?? globalThis.chrome;
  const tell = (said) => {
    try {
      api.runtime.sendMessage(said).catch(() => {});
    } catch { /* the extension was updated or removed; this page goes on without it */ }
  };
  const watch = new epicrec.Watch({ tell, top: window === window.top });
  api.runtime.onMessage.addListener((message, sender, answer) => {
    if (sender.id !== api.runtime.id) return;
    if (message.frame) watch.hear(message.frame.id, message.frame);
    if (message.ask === "state") answer(watch.state);
    if (message.ask === "answered") watch.answered();
  });
  watch.start();
})();
