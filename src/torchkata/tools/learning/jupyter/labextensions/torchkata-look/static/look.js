// Chapters look as on the website: boxes around what has a role, frames around exercises, and what answers a question is
// folded until the reader opens it or runs the cell that answers. The notebook itself is left as it is.
(() => {
  // the words with which a paragraph of each kind begins; the website has the same ones (site/blocks.py)
  const KINDS = [
    ['predict', /^(Predict|By hand|Find the|Which is right|Sort them|Complete the table|Change (it|one)|Four stories)\b/],
    ['contract', /^Contract\b/],
    ['rule', /^Rule\b/],
    ['know', /^Now you know\b/],
  ];
  const GOES_ON = ['contract', 'predict']; // with a list, say, up to the next part
  const HEADING = /^H[1-6]$/;
  const EXERCISE = /^### Exercise \d+\.\d+ · /m;
  const SUMMARY = 'What happens, and why';
  const STYLE = new URL('look.css', document.currentScript.src).href;

  function activate(app) {
    const link = Object.assign(document.createElement('link'), { rel: 'stylesheet', href: STYLE });
    document.head.append(link);
    const known = new WeakSet();
    const find = () => {
      for (const panel of app.shell.widgets('main')) {
        if (known.has(panel) || !panel.context || !panel.content || !panel.content.widgets) continue;
        known.add(panel);
        panel.context.ready.then(() => new Look(panel.content));
      }
    };
    app.restored.then(() => {
      app.shell.layoutModified.connect(find);
      find();
    });
  }

  // The looks of one notebook that is open.
  class Look {
    constructor(notebook) {
      this.notebook = notebook;
      this.watched = new WeakSet();
      this.chosen = new WeakMap(); // by cell: whether the reader has opened or closed its fold
      this.waits = false;
      notebook.model.contentChanged.connect(() => this.soon());
      this.soon();
    }

    // All looks anew, before the next frame is drawn.
    soon() {
      if (this.waits) return;
      this.waits = true;
      requestAnimationFrame(() => {
        this.waits = false;
        if (!this.notebook.isDisposed) this.dress();
      });
    }

    dress() {
      const cells = this.notebook.widgets;
      const exercises = inExercises(cells);
      let asked = null; // a question waits for its answer: the code cells since then
      cells.forEach((cell, n) => {
        cell.toggleClass('tk-exercise', exercises.has(n));
        cell.toggleClass('tk-first', exercises.has(n) && isExercise(cell));
        cell.toggleClass('tk-last', exercises.has(n) && (!exercises.has(n + 1) || isExercise(cells[n + 1])));
        if (cell.model.type === 'code') {
          if (asked) asked.push(cell);
        } else if (cell.model.type === 'markdown') {
          this.watch(cell);
          const text = textOf(cell);
          if (text) dressText(text);
          if (text && asked) this.fold(cell, text, asked);
          asked = asks(cell) ? [] : null;
        }
      });
    }

    // A text that is rendered anew loses its looks.
    watch(cell) {
      if (this.watched.has(cell)) return;
      this.watched.add(cell);
      new MutationObserver(() => this.soon()).observe(cell.node, { childList: true, subtree: true });
    }

    // Fold what answers a question; open it once the cells between have run, unless the reader has chosen.
    fold(cell, text, between) {
      const fold = text.querySelector(':scope > .tk-fold') || folded(text);
      if (!fold) return;
      if (!fold.tkListens) {
        fold.tkListens = true;
        fold.firstElementChild.addEventListener('click', () => this.chosen.set(cell, !fold.open));
      }
      const have_run = between.length > 0 && between.every((one) => one.model.executionCount !== null);
      const open = this.chosen.has(cell) ? this.chosen.get(cell) : have_run;
      if (fold.open !== open) fold.open = open;
    }
  }

  // The rendered text of a cell; null while it is edited or not rendered yet.
  function textOf(cell) {
    return cell.rendered ? cell.node.querySelector('.jp-MarkdownOutput') : null;
  }

  function sourceOf(cell) {
    return cell.model.sharedModel.getSource();
  }

  function isExercise(cell) {
    return Boolean(cell) && cell.model.type === 'markdown' && EXERCISE.test(sourceOf(cell));
  }

  // The places of the cells that belong to exercises: from its task to its last check cell.
  function inExercises(cells) {
    const found = new Set();
    cells.forEach((cell, start) => {
      if (!isExercise(cell)) return;
      let end = start;
      for (let n = start + 1; n < cells.length && !/^#{1,3} /m.test(headingOf(cells[n])); n++) {
        if (cells[n].model.getMetadata('nbgrader')) end = n;
      }
      for (let n = start; n <= end; n++) found.add(n);
    });
    return found;
  }

  function headingOf(cell) {
    return cell.model.type === 'markdown' ? sourceOf(cell) : '';
  }

  // Whether a question stands in the text of a cell.
  function asks(cell) {
    return sourceOf(cell).split(/\n\s*\n/).some((part) => {
      const bold = /^(?!#|[-+|<>]|\d+\. | {4})[^]*?\*\*([^*]+)\*\*/.exec(part);
      return bold !== null && KINDS[0][1].test(bold[1].replace(/\s+/g, ' '));
    });
  }

  function kindOf(node) {
    if (node.tagName !== 'P') return '';
    const bold = node.querySelector('strong');
    const words = bold ? bold.textContent.replace(/\s+/g, ' ') : '';
    const kind = (KINDS.find(([, begins]) => begins.test(words)) || [''])[0];
    return kind === 'predict' || node.firstChild === bold ? kind : ''; // a question may follow on a sentence
  }

  function endsBox(node) {
    return HEADING.test(node.tagName) || node.tagName === 'DETAILS' || node.classList.contains('tk-box') || Boolean(kindOf(node));
  }

  // Put the parts of a text that have a role into boxes.
  function dressText(text) {
    if (text.querySelector(':scope > .tk-box, :scope > .tk-fold > .tk-box')) return;
    for (const first of [...text.children]) {
      const kind = kindOf(first);
      if (!kind) continue;
      const box = document.createElement('div');
      box.className = `tk-box tk-${kind}`;
      first.before(box);
      box.append(first);
      while (GOES_ON.includes(kind) && box.nextElementSibling && !endsBox(box.nextElementSibling)) {
        box.append(box.nextElementSibling);
      }
    }
  }

  // A fold around what comes before the first heading, question or "Now you know" of a text; null if that is nothing.
  function folded(text) {
    const parts = [];
    for (const node of text.children) {
      if (HEADING.test(node.tagName) || node.matches('.tk-predict, .tk-know')) break;
      parts.push(node);
    }
    if (!parts.length) return null;
    const fold = document.createElement('details');
    fold.className = 'tk-fold';
    fold.append(Object.assign(document.createElement('summary'), { textContent: SUMMARY }));
    parts[0].before(fold);
    fold.append(...parts);
    return fold;
  }

  const plugin = { id: 'torchkata-look:plugin', autoStart: true, activate };
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB['torchkata-look'] = { init: () => {}, get: async () => () => ({ __esModule: true, default: plugin }) };
})();
