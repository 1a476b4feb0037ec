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
    const answers = made("div", "", place, "answers");
    for (const choice of [...card.choices, "I don't know"]) {
      const button = made("button", choice, answers);
      button.type = "button";
      button.addEventListener("click", () => answer(card, choice, answers));
    }
  };

  const answer = (card, choice, answers) => {
    const is = choice === card.answer;
    right += is;
    const days = note(card, is);
    for (const button of answers.children) {
      button.disabled = true;
      button.classList.toggle("chosen", button.textContent === choice);
    }
    const told = made("p", "", place, is ? "told right" : "told wrong");
    made("strong", `${is ? "✓ Right" : "✗ No"}: ${card.answer}. `, told);
    made("span", "", told).innerHTML = card.because;
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
    const next = made("button", number + 1 < round.length ? "Next card" : "Finish", place);
    next.type = "button";
    next.addEventListener("click", () => {
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
