"use strict";
// Each event brings the sections that have changed. One in which text is selected waits.
const waiting = new Map();
const away = document.getElementById("away");

function selectedIn(section) {
  const selection = document.getSelection();
  return !selection.isCollapsed && section.contains(selection.anchorNode);
}

function show() {
  for (const [name, html] of waiting) {
    const section = document.getElementById(name);
    if (selectedIn(section)) continue;
    replace(section, html);
    waiting.delete(name);
  }
  showState();
}

// What a reader has opened or closed stays so, and what has the focus keeps it.
function replace(section, html) {
  const open = new Map([...section.querySelectorAll("details")].map((d) => [d.id, d.open]));
  const focused = section.contains(document.activeElement) && document.activeElement.closest("details")?.id;
  section.innerHTML = html;
  for (const d of section.querySelectorAll("details")) if (open.has(d.id)) d.open = open.get(d.id);
  if (focused) document.getElementById(focused)?.querySelector("summary").focus();
}

// The title and the icon say how things are, and figures of a daemon that is gone are dimmed.
const title = document.title;
const icon = document.getElementById("icon");

function showState() {
  const says = document.querySelector(".says");
  const lost = document.querySelector("header").dataset.lost !== "" || !away.hidden;
  const troubles = Number(says?.dataset.troubles ?? 0);
  document.body.classList.toggle("gone", lost);
  document.title = lost ? `? ${title}` : troubles ? `(${troubles}) ${title}` : title;
  const tone = lost ? "faint" : says?.dataset.tone;
  const href = tone === "bad" || tone === "warn" || tone === "faint" ? `icon.svg?${tone}` : "icon.svg";
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

function follow() {
  const events = new EventSource("events");
  events.onmessage = (message) => {
    away.hidden = true;
    for (const [name, html] of Object.entries(JSON.parse(message.data))) waiting.set(name, html);
    show();
  };
  events.onerror = () => {
    away.hidden = false;
    showState();
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
  };
}

document.addEventListener("selectionchange", show);
if (location.hash) document.getElementById(location.hash.slice(1))?.setAttribute("open", "");
showState();
follow();
