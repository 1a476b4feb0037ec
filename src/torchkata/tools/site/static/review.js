/* Asks cards, ten at a time, and remembers in the browser when each comes back. */
"use strict";

const KEPT = "torchkata-review"; /* {card's id: {due: a day, gap: days}}; days since 1970 */
const ROUND = 10;
const today = () => Math.floor(Date.now() / 864e5);

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) || {};
  } catch {
    return {}; /* storage is shut off, or holds something else */
  }
}

/* Note an answer; in how many days the card comes back. */
function note(card, right) {
  const deck = remembered();
  const gap = right ? Math.max(1, 2.5 * (deck[card.id]?.gap || 1)) : 1;
  deck[card.id] = { due: today() + Math.round(gap), gap };
  try {
    localStorage.setItem(KEPT, JSON.stringify(deck));
  } catch {
    return 0;
  }
  return Math.round(gap);
}

/* The cards that are due, then new ones: of one chapter, or of those that were asked about before, or of any. */
function chosen(cards, chapter) {
  const deck = remembered();
  const begun = new Set(cards.filter((card) => deck[card.id]).map((card) => card.chapter));
  const asked = cards.filter((card) => (chapter ? card.chapter === chapter : !begun.size || begun.has(card.chapter)));
  const due = asked.filter((card) => deck[card.id] && deck[card.id].due <= today());
  const fresh = asked.filter((card) => !deck[card.id]).sort(() => Math.random() - 0.5);
  return [...due, ...fresh].slice(0, ROUND);
}

function made(name, text, parent, look = "") {
  const node = document.createElement(name);
  node.textContent = text;
  node.className = look;
  parent.append(node);
  return node;
}

function pressed(text, parent, action) {
  const button = made("button", text, parent);
  button.type = "button";
  button.addEventListener("click", action);
  return button;
}

/* Whether an answer is right, what is right, and why as HTML; an order is a list of names, empty for none. */
function judged(card, given) {
  if (!card.lines) return [given === card.answer, card.answer, card.because];
  if (!given.length) return [false, "you gave no order", card.because];
  const comes = (sign) => sign.every((name, n) => !n || given.indexOf(sign[n - 1]) < given.indexOf(name));
  const fault = card.wrong.find(([, signs]) => signs.some(comes));
  return fault ? [false, "this order doesn't work", fault[0]] : [true, "this order works", card.because];
}

function link(text, address, parent) {
  made("a", text, parent).href = address;
}

function review(cards) {
  const form = document.getElementById("ask");
  const place = document.getElementById("card");
  let round = [], number = 0, right = 0;

  const ask = () => {
    place.replaceChildren();
    if (number === round.length) {
      made("p", round.length ? `${right} of ${round.length} right. That is all for now.` : "No card is due. Come back tomorrow, or choose another chapter.", place);
      return;
    }
    const card = round[number];
    made("p", `Card ${number + 1} of ${round.length}, chapter ${card.chapter.slice(0, 2)}`, place, "size");
    if (card.code) {
      made("p", "", place).innerHTML = card.asks;
      made("pre", card.code, place).tabIndex = 0;
    } else {
      made("p", "", place, "asked").innerHTML = card.asks;
    }
    if (card.lines) {
      order(card);
      return;
    }
    const answers = made("div", "", place, "answers");
    for (const choice of [...card.choices, "I don't know"]) {
      pressed(choice, answers, () => answer(card, choice, answers));
    }
  };

  /* The lines of a card as buttons, to be pressed one after another. */
  const order = (card) => {
    const lines = made("div", "", place, "answers lines");
    const answers = made("div", "", place, "answers");
    const placed = []; /* names of lines */
    const show = () => {
      card.lines.forEach(([name, line], n) => {
        lines.children[n].textContent = placed.includes(name) ? `${placed.indexOf(name) + 1}. ${line}` : line;
      });
      undo.disabled = !placed.length;
      done.textContent = placed.length === card.lines.length ? "Check this order" : "I don't know";
    };
    for (const [name] of card.lines) {
      pressed("", lines, () => {
        if (!placed.includes(name)) placed.push(name);
        show();
      });
    }
    const undo = pressed("Undo", answers, () => {
      placed.pop();
      show();
    });
    const done = pressed("", answers, () => {
      for (const button of lines.children) button.disabled = true;
      answer(card, placed.length === card.lines.length ? placed : [], answers);
    });
    show();
  };

  const answer = (card, choice, answers) => {
    const [is, holds, why] = judged(card, choice);
    right += is;
    const days = note(card, is);
    for (const button of answers.children) {
      button.disabled = true;
      button.classList.toggle("chosen", button.textContent === choice);
    }
    const told = made("p", "", place, is ? "told right" : "told wrong");
    made("strong", `${is ? "✓ Right" : "✗ No"}: ${holds}. `, told);
    made("span", "", told).innerHTML = why;
    const further = made("p", "", place, "size");
    if (days) further.append(`It comes back ${days === 1 ? "tomorrow" : `in ${days} days`}. `);
    if (card.taught) {
      further.append("Taught in ");
      link(card.taught[1], card.taught[0], further);
      further.append(". ");
    }
    if (card.proof) link("The proof", card.proof, further);
    if (card.fold) {
      const fold = made("details", "", place);
      made("summary", card.fold[0], fold);
      made("pre", card.fold[1], fold).tabIndex = 0;
    }
    const next = pressed(number + 1 < round.length ? "Next card" : "Finish", place, () => {
      number += 1;
      ask();
      (place.querySelector("button") || form.querySelector("button")).focus();
    });
    next.focus();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    [round, number, right] = [chosen(cards, form.chapter.value), 0, 0];
    ask();
    place.querySelector("button")?.focus();
  });
  form.hidden = false;
}

review(torchkataCards);
