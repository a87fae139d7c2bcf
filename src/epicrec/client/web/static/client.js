// Comfort only: every page works without this script.
"use strict";

// A message belongs to the page that a change led to; its name need not stay in the address.
const here = new URL(location.href);
if (here.searchParams.has("said")) {
  here.searchParams.delete("said");
  history.replaceState(null, "", here);
}

// What the program answers; null where it does not. Locked or started anew since, it shows why.
const ask = async (address, options) => {
  try {
    const answer = await fetch(address, { credentials: "same-origin", ...options });
    if (answer.redirected || [403, 421].includes(answer.status)) location.reload();
    return answer;
  } catch {
    return null;
  }
};
const SILENT = "EpicRec does not answer. Is it still running?";

// The odds follow the level as it changes; the server draws them, as it does for the saved level.
const form = document.getElementById("privacy");
if (form) {
  const odds = document.getElementById("odds");
  let last = 0;
  form.addEventListener("change", async () => {
    const now = ++last;
    const query = new URLSearchParams(new FormData(form));
    const answer = await ask(`${form.dataset.live}?${query}`);
    if (now !== last) return;
    if (!answer) odds.textContent = SILENT;
    else if (answer.ok && !answer.redirected) odds.innerHTML = await answer.text();
  });
}

// Progress moves in place, and the page goes on when the work is over.
const working = document.getElementById("working");
if (working) {
  const bar = working.querySelector("progress");
  const look = async () => {
    const answer = await ask(`${working.dataset.live}/progress`);
    if (answer && answer.status !== 200) return location.replace(working.dataset.live);
    const { words, done, total } = answer ? await answer.json() : { words: SILENT };
    working.querySelector("p").textContent = words;
    if (total) Object.assign(bar, { max: total, value: done });
    setTimeout(look, 1000);
  };
  setTimeout(look, 1000);
}

// What is said about a film on a card is said in place: the page does not move.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  const card = form.closest(".film");
  if (!card || !("inPlace" in form.dataset)) return;
  event.preventDefault();
  const said = new URLSearchParams(new FormData(form, event.submitter));
  said.set("in-place", "1");
  const answer = await ask(form.action, { method: "POST", body: said });
  const done = answer !== null && answer.ok && !answer.redirected;
  const failed = answer ? "That did not work." : `Not saved. ${SILENT}`;
  card.querySelector("[role=status]").textContent = done ? await answer.text() : failed;
  card.classList.toggle("done", done && event.submitter.value !== "later");
});

// A button that was pressed says so, and is not pressed twice.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!button || event.target.method !== "post" || event.defaultPrevented) return;
  event.target.setAttribute("aria-busy", "true");
  setTimeout(() => { button.disabled = true; }, 0);
});
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button:disabled")) button.disabled = false;
  for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
});
