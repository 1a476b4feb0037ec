/* What the pages do: the first picture moves, commands and proofs are copied, beliefs are filtered, what is folded is printed, what scrolls takes the keyboard. */
"use strict";

function copyButtons() {
  const proofs = "details.proof, #a-belief-and-its-proof .highlight";
  for (const proof of document.querySelectorAll(proofs)) proof.append(copyButton(proof.querySelector("pre")));
  for (const command of document.querySelectorAll("code.command")) command.after(copyButton(command));
}

function copyButton(source) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    button.textContent = (await copied(source.textContent)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
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

/* The first page's picture: shows its steps one after another, until somebody pauses or steps it. */
function playHero() {
  const hero = document.getElementById("hero");
  if (!hero) return;
  const steps = [...hero.querySelectorAll(".hero-step")];
  const [play, step] = hero.querySelectorAll("button");
  let shown = 0, clock = 0, rest = 0;
  const show = (number) => {
    steps[shown].classList.remove("now");
    shown = number % steps.length;
    steps[shown].classList.add("now");
    hero.querySelector(".hero-told").textContent = steps[shown].dataset.says;
  };
  const tick = () => {
    if (document.hidden) return;
    if (shown === steps.length - 1 && rest < 2) rest += 1; /* the last one stays a while */
    else [rest] = [0, show(shown + 1)];
  };
  const turn = (on) => {
    clearInterval(clock);
    clock = on ? setInterval(tick, 1800) : 0;
    play.textContent = on ? "Pause" : "Play";
  };
  play.addEventListener("click", () => turn(!clock));
  step.addEventListener("click", () => {
    turn(false);
    show(shown + 1);
  });
  turn(!matchMedia("(prefers-reduced-motion: reduce)").matches);
}

function filterBeliefs() {
  const form = document.getElementById("filter");
  if (!form) return;
  const groups = [...document.querySelectorAll("#beliefs > details")].map((group) => ({
    group,
    count: group.querySelector(".size"),
    rows: [...group.querySelectorAll("li")].map((row) => ({ row, text: row.textContent.toLowerCase() })),
  }));
  let before = false;
  const choose = () => {
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const filtered = Boolean(words.length || form.chapter.value || form.verdict.value);
    let total = 0;
    for (const { group, count, rows } of groups) {
      let here = 0;
      for (const { row, text } of rows) {
        const fits =
          (!form.chapter.value || group.dataset.chapter === form.chapter.value) &&
          (!form.verdict.value || row.dataset.verdict === form.verdict.value) &&
          words.every((word) => text.includes(word));
        row.hidden = !fits;
        here += fits;
      }
      group.hidden = here === 0;
      if (filtered || before) group.open = filtered;
      count.textContent = counted(here);
      total += here;
    }
    before = filtered;
    form.querySelector("output").textContent = counted(total);
    document.getElementById("no-belief").hidden = total > 0;
  };
  form.addEventListener("input", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  choose(); /* a browser that goes back keeps what was typed */
}

const counted = (number) => (number === 1 ? "1 belief" : `${number} beliefs`);

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

playHero();
copyButtons();
filterBeliefs();
printFolded();
scrollByKeyboard();
addEventListener("hashchange", openTarget);
openTarget();
