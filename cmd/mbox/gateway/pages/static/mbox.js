// Keeps an open page as the mailbox is: when the ledger has grown, the page is asked for
// again, and what has changed in it takes the place of what was there. Nothing is made
// here of what tasks say; the server draws it.

const status = document.getElementById("news");
const light = document.getElementById("live");
const pace = 1000; // ms between two looks, at least
const quiet = 30000; // ms after which ages are looked at again

let source = null;
let asked = false; // a look is wanted
let looking = false;
let next = 0; // when the next look may be
let timer = 0;

function show(state) {
  document.documentElement.dataset.link = state;
  light.textContent = { live: "live", paused: "paused", lost: "reconnecting" }[state];
}

function listen() {
  if (source) return;
  source = new EventSource("/events");
  source.onopen = () => { show("live"); want(); };
  source.onmessage = want;
  source.onerror = () => {
    show("lost");
    if (source.readyState === EventSource.CLOSED) { // it was refused: logged out, or mbox is gone
      source = null;
      setTimeout(() => { if (!document.hidden) listen(); }, 5000);
    }
  };
}

function pause() {
  if (source) source.close();
  source = null;
  clearTimeout(timer);
  timer = 0;
  show("paused");
}

function want() {
  asked = true;
  if (looking || timer || document.hidden) return;
  timer = setTimeout(look, Math.max(0, next - Date.now()));
}

// A document that XMLHttpRequest parses runs no script.
function look() {
  timer = 0;
  asked = false;
  looking = true;
  const begun = Date.now();
  const request = new XMLHttpRequest();
  request.open("GET", location.href);
  request.responseType = "document";
  request.timeout = 30000;
  request.onloadend = () => {
    looking = false;
    // A page that takes long to make is made seldom.
    next = Date.now() + Math.max(pace, 10 * (Date.now() - begun));
    if (request.status === 200 && request.response) renew(request.response);
    if (asked) want();
  };
  request.send();
}

// busy tells whether somebody is at work in a part: it is left alone until he is done.
function busy(part) {
  if (part.querySelector("details[open]") && part.querySelector("form")) return true;
  for (const field of part.querySelectorAll("input, textarea, select")) {
    if (field === document.activeElement) return true;
    if (field.options && [...field.options].some((o) => o.defaultSelected && !o.selected)) return true;
    if (field.type !== "hidden" && field.defaultValue !== undefined && field.value !== field.defaultValue) return true;
  }
  const marked = document.getSelection();
  return Boolean(marked && !marked.isCollapsed && part.contains(marked.anchorNode));
}

// What is to be approved stays as it is while somebody reads it: he is told that there is
// something else by now, and the server refuses what he did not see.
function sums(part) {
  return [...part.querySelectorAll("[name=sha256]")].map((field) => field.value).join(" ");
}

function changed(part) {
  if (document.getElementById("changed")) return;
  const note = document.createElement("p");
  note.id = "changed";
  note.className = "note";
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "What waits here is not the same any more: show it";
  note.append(link);
  part.before(note);
  tell(link.textContent);
}

function places(within) {
  const found = new Map();
  for (const card of within.querySelectorAll("[data-task]")) found.set(card.dataset.task, card.dataset.state);
  return found;
}

function renew(page) {
  const before = places(document);
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || part.isEqualNode(fresh)) continue;
    if (sums(part) || sums(fresh)) {
      if (sums(part) !== sums(fresh)) changed(part);
      continue;
    }
    if (busy(part)) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const way = focused && focused.getAttribute("href");
    const opened = new Set([...part.querySelectorAll("details[open][id]")].map((d) => d.id));
    const own = document.importNode(fresh, true);
    for (const d of own.querySelectorAll("details[id]")) if (opened.has(d.id)) d.open = true;
    part.replaceWith(own);
    if (way) {
      for (const link of own.querySelectorAll("a")) {
        if (link.getAttribute("href") === way) { link.focus({ preventScroll: true }); break; }
      }
    }
    if (own.dataset.news && own.dataset.news !== part.dataset.news) tell(own.dataset.news);
  }
  for (const card of document.querySelectorAll("[data-task]")) {
    if (before.size && before.get(card.dataset.task) !== card.dataset.state) card.classList.add("moved");
  }
}

// tell says it to who listens to the page, not more often than one can listen.
let telling = 0;
let word = "";
function tell(text) {
  word = text;
  if (telling) return;
  status.textContent = word;
  telling = setTimeout(() => { telling = 0; if (status.textContent !== word) tell(word); }, 5000);
}

// Filters leave out of the address what they do not ask for.
document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

document.addEventListener("visibilitychange", () => (document.hidden ? pause() : listen()));
if (document.body.dataset.live !== undefined) {
  if (document.hidden) show("paused");
  else listen();
  setInterval(() => { if (Date.now() > next + quiet) want(); }, quiet);
}
