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
    section.innerHTML = html;
    waiting.delete(name);
  }
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
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
  };
}

document.addEventListener("selectionchange", show);
follow();
