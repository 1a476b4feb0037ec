/* Makes wide pictures narrow, as on a phone: lines of words are broken, and parts that stand side by side, each with a
   heading, are stacked. What allows neither stays as it is, in a frame that scrolls and says so. */
"use strict";

const LEFT = 12, SPACE = 10, LINE = 1.35; /* points, points between stacked parts, a line's height in font sizes */

/* Some shapes and the box around them. */
function part(shapes) {
  const edge = (axis, size, most) => most(...shapes.map(({ box }) => box[axis] + (size ? box[size] : 0)));
  const [x, y] = [edge("x", "", Math.min), edge("y", "", Math.min)];
  return { shapes, x, y, right: edge("x", "width", Math.max), bottom: edge("y", "height", Math.max) };
}

/* The shapes as parts that have a gap between them along an axis, in their order there. */
function apart(shapes, axis, gap) {
  const size = axis === "x" ? "width" : "height";
  const groups = [];
  let end = -Infinity;
  for (const shape of [...shapes].sort((one, two) => one.box[axis] - two.box[axis])) {
    if (shape.box[axis] > end + gap) groups.push([]);
    groups.at(-1).push(shape);
    end = Math.max(end, shape.box[axis] + shape.box[size]);
  }
  return groups.map(part);
}

const columns = ({ shapes }) => apart(shapes, "x", 8);
const isWord = ({ node }) => node.tagName === "text";
const isProse = (one) => one.shapes.every(isWord) && columns(one).length === 1;
const isMixed = ({ shapes }) => shapes.some(isWord) && !shapes.every(isWord);
const isLegend = (one) => one.bottom - one.y < 22 && columns(one).every(isMixed);
const first = ({ shapes }) => shapes.reduce((top, shape) => (shape.box.y < top.box.y ? shape : top));
const isPanel = (one) => isWord(first(one)) && isMixed(one);

/* The drawing from top to bottom: each line of words by itself, what stands in columns together. */
function blocks(shapes) {
  const found = [];
  for (const band of apart(shapes, "y", 0.5)) {
    const both = found.length && part([...found.at(-1).shapes, ...band.shapes]);
    const together = both && !isProse(band) && !isProse(found.at(-1)) && columns(both).length > 1;
    if (together) found[found.length - 1] = both;
    else found.push(band);
  }
  return found;
}

function moved({ shapes }, x, y) {
  if (x || y) for (const { node } of shapes) node.setAttribute("transform", `translate(${x} ${y})`);
}

/* What a shape says, or the group in which it stands. */
const said = (node, name) => node.closest(`[${name}]`)?.getAttribute(name);

/* Break a text that is too long; by how much it is higher now. */
function broken({ node, box }, width) {
  if (box.x + box.width <= width || said(node, "text-anchor")) return 0;
  const words = node.textContent.split(" ");
  const x = node.getAttribute("x"), step = LINE * said(node, "font-size");
  node.textContent = "";
  let line;
  let count = 0;
  for (const word of words) {
    const before = line?.textContent;
    if (line) line.textContent += ` ${word}`;
    if (!line || box.x + line.getComputedTextLength() > width) {
      if (line) line.textContent = before;
      line = document.createElementNS(node.namespaceURI, "tspan");
      line.setAttribute("x", x);
      if (count++) line.setAttribute("dy", step);
      line.textContent = word;
      node.append(line);
    }
  }
  return (count - 1) * step;
}

/* Put parts below one another, or beside one another as far as that goes; how much room they take now. */
function stacked(parts, top, width, beside) {
  let [x, y, low] = [LEFT, top, top];
  for (const one of parts) {
    if (x > LEFT && (!beside || x + one.right - one.x > width)) [x, y] = [LEFT, low + (beside ? 4 : SPACE)];
    moved(one, x - one.x, y - one.y);
    low = Math.max(low, y + one.bottom - one.y);
    x += one.right - one.x + 14;
  }
  return low - top;
}

/* The shapes of a drawing. Boxes that a notebook keeps as one path are taken apart (image.py). */
function shapesOf(drawing, card) {
  for (const path of drawing.querySelectorAll("path[d*=zM]")) {
    for (const box of path.getAttribute("d").match(/M[^z]*z/g)) {
      const one = path.cloneNode();
      one.setAttribute("d", box);
      path.before(one);
    }
    path.remove();
  }
  const nodes = [...drawing.querySelectorAll("text, rect, path")].filter((node) => node !== card);
  return nodes.map((node) => ({ node, box: node.getBBox() })).filter(({ box }) => box.width || box.height);
}

/* Rearrange a drawing for so many points across. */
function fit(drawing, width) {
  const card = drawing.querySelector("rect");
  const shapes = shapesOf(drawing, card);
  let down = 0; /* by how much what comes next is lower than it was */
  for (const block of blocks(shapes)) {
    const high = block.bottom - block.y;
    const parts = columns(block);
    if (isProse(block)) {
      for (const shape of block.shapes.sort((one, two) => one.box.y - two.box.y)) {
        moved(part([shape]), 0, down);
        down += broken(shape, width - SPACE);
      }
    } else if (block.right > width && parts.length > 1 && (isLegend(block) || parts.every(isPanel))) {
      down += stacked(parts, block.y + down, width, isLegend(block)) - high;
    } else moved(block, 0, down);
  }
  const box = drawing.viewBox.baseVal;
  const right = Math.max(...shapes.map(({ node }) => node.getBoundingClientRect().right)) - drawing.getBoundingClientRect().left;
  const across = Math.max(width, (right * box.width) / drawing.getBoundingClientRect().width + LEFT);
  const high = box.height + down;
  for (const [name, value] of [["width", across], ["height", high]]) {
    drawing.setAttribute(name, `${value}pt`);
    card.setAttribute(name, value - 1);
  }
  drawing.setAttribute("viewBox", `0 0 ${across} ${high}`);
}

/* A frame that scrolls is reached by the keyboard, and says that there is more. */
function tell(stage, cue) {
  const wide = stage.scrollWidth > stage.clientWidth + 1;
  cue.hidden = !wide;
  for (const [name, value] of [["tabindex", 0], ["role", "group"], ["aria-label", "a picture that scrolls sideways"]]) {
    if (wide) stage.setAttribute(name, value);
    else stage.removeAttribute(name);
  }
  stage.classList.toggle("more", wide && stage.scrollLeft + stage.clientWidth < stage.scrollWidth - 1);
}

function fitInto(stage) {
  const cue = document.createElement("p");
  cue.className = "cue";
  cue.textContent = "Scroll the picture sideways to see all of it, or turn the phone.";
  stage.before(cue);
  let whole = "", wide = 0;
  const look = (anew) => {
    if (anew || !whole) whole = stage.innerHTML;
    else if (wide === stage.clientWidth) return;
    else stage.innerHTML = whole;
    wide = stage.clientWidth;
    const drawing = stage.querySelector("svg"), across = drawing.viewBox.baseVal.width;
    const room = (across * wide) / drawing.getBoundingClientRect().width;
    if (room < across - 1) fit(drawing, room);
    seen.takeRecords();
    tell(stage, cue);
  };
  const seen = new MutationObserver(() => look(true)); /* an explorer shows another picture */
  seen.observe(stage, { childList: true });
  new ResizeObserver(() => look(false)).observe(stage);
  stage.addEventListener("scroll", () => tell(stage, cue), { passive: true });
}

document.querySelectorAll(".tk-stage").forEach(fitInto);
