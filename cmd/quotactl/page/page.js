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
  filterJobs();
  showState();
}

// Where there are more than ten jobs, those that are called otherwise can be hidden.
const filter = document.getElementById("filter");

function filterJobs() {
  const rows = [...document.querySelectorAll("#jobs .row")];
  filter.hidden = rows.length <= 10;
  const wanted = filter.hidden ? "" : filter.value.trim().toLowerCase();
  for (const row of rows) row.hidden = !row.querySelector(".name").textContent.toLowerCase().includes(wanted);
}

// A link of a trouble opens its row, and a click on a command copies it.
function openRow(hash) {
  const row = hash && document.getElementById(decodeURIComponent(hash.slice(1)));
  if (!row) return;
  row.hidden = false;
  row.setAttribute("open", "");
}

function clicked(event) {
  const link = event.target.closest('a[href^="#"]');
  if (link) openRow(link.hash);
  const command = event.target.closest(".command");
  navigator.clipboard && command && navigator.clipboard.writeText(command.textContent.trim()).then(() => {
    command.dataset.copied = "yes";
    setTimeout(() => delete command.dataset.copied, 1500);
  });
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
document.addEventListener("click", clicked);
filter.addEventListener("input", filterJobs);
openRow(location.hash);
filterJobs();
showState();
follow();
