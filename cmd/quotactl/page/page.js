"use strict";
// Every two seconds the page is read again, and each section that has changed is replaced: one in which text is selected
// later.
const shown = new Map([...document.querySelectorAll("section")].map((section) => [section.id, section.innerHTML]));
const away = document.getElementById("away");

async function refresh() {
  try {
    const answer = await fetch("/", { signal: AbortSignal.timeout(5000) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    for (const section of page.querySelectorAll("section")) replace(document.getElementById(section.id), section.innerHTML);
    away.hidden = true;
  } catch {
    away.hidden = false;
  }
  setTimeout(refresh, 2000);
}

// What a reader has opened or closed stays so, and what has the focus keeps it.
function replace(section, html) {
  const selection = document.getSelection();
  if (shown.get(section.id) === html || (!selection.isCollapsed && section.contains(selection.anchorNode))) return;
  const open = [...section.querySelectorAll("details[open]")].map((row) => row.id);
  const focusable = () => [...section.querySelectorAll("a, button, summary")];
  const focused = focusable().indexOf(document.activeElement);
  section.innerHTML = html;
  shown.set(section.id, html);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  focusable()[focused]?.focus();
}

// A link of a trouble opens its row, and a click on a command copies it.
function openRow(hash) {
  if (hash) document.getElementById(decodeURIComponent(hash.slice(1)))?.setAttribute("open", "");
}

document.addEventListener("click", async (event) => {
  openRow(event.target.closest("a")?.hash);
  const command = event.target.closest("button");
  if (!command || !navigator.clipboard) return;
  await navigator.clipboard.writeText(command.textContent.trim());
  command.dataset.copied = "yes";
  setTimeout(() => delete command.dataset.copied, 1500);
});
openRow(location.hash);
refresh();
