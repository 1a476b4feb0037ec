/* What the pages do: proofs are copied, beliefs are filtered, what is folded is printed, what scrolls takes the keyboard. */
"use strict";

function copyButtons() {
  for (const proof of document.querySelectorAll("details.proof")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      button.textContent = (await copied(proof.querySelector("pre").textContent)) ? "Copied" : "Press Ctrl+C";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    proof.append(button);
  }
}

/* Whether the text got into the clipboard; pages from the file system may not have one, there it is selected. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function filterBeliefs() {
  const form = document.getElementById("filter");
  if (!form) return;
  const rows = [...document.querySelectorAll("#beliefs > li")].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const choose = () => {
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { row, text } of rows) {
      const fits =
        (!form.chapter.value || row.dataset.chapter === form.chapter.value) &&
        (!form.verdict.value || row.dataset.verdict === form.verdict.value) &&
        words.every((word) => text.includes(word));
      row.hidden = !fits;
      count += fits;
    }
    form.querySelector("output").textContent = count === 1 ? "1 belief" : `${count} beliefs`;
    document.getElementById("no-belief").hidden = count > 0;
  };
  form.addEventListener("input", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  choose(); /* a browser that goes back keeps what was typed */
}

/* A link to something folded opens it. */
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (target.matches(".belief")) target.querySelector("details").open = true;
  target.scrollIntoView();
}

function printFolded() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const fold of opened) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
  });
}

function scrollByKeyboard() {
  const wide = "pre, .table-wrapper";
  const mark = () => {
    for (const part of document.querySelectorAll(wide)) {
      if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    }
  };
  mark();
  addEventListener("resize", mark);
  addEventListener("toggle", mark, true);
}

copyButtons();
filterBeliefs();
printFolded();
scrollByKeyboard();
addEventListener("hashchange", openTarget);
openTarget();
