/* What the search shows first, and what its excerpts leave out. */
"use strict";

const asked = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);

/* how well a title names what was asked for: 2 whole words, 1 parts of words, 0 not all of it */
function named(title) {
  const words = title.toLowerCase().split(/[^\p{L}\p{N}_]+/u);
  if (asked.every((one) => words.includes(one))) return 2;
  return asked.every((one) => title.toLowerCase().includes(one)) ? 1 : 0;
}

/* Titles of pages, titles of their sections, then text; chapters before beliefs, and these before other pages. */
Scorer.score = ([page, title, anchor, , score]) => {
  const own = title.split(" > ").at(-1);
  const kind = page.startsWith("chapters/") ? 2 : page.startsWith("folklore/") ? 1 : 0;
  return 1000 * named(own) * (anchor ? 1 : 2) + 100 * kind + score;
};

const whole = Search.htmlToText;
Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const code of page.querySelectorAll("details.imports, .highlight, .ways, .work")) code.remove();
  return whole(page.documentElement.outerHTML, anchor);
};

if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = "You opened this page as a file. Browsers don't let such pages read others, so the results have no excerpts.";
  document.getElementById("search-results").before(note);
}
