// Makes the pictures of a page live: native controls, frames that were drawn ahead, and Python where it has to be asked.
// In a notebook each picture brings this script along; on the website one script serves all pictures of a page.
(() => {
  const style = document.getElementById('torchkata-controls') || document.createElement('style');
  style.id = 'torchkata-controls';
  style.textContent = STYLE;
  document.head.append(style);
  const make = (name, look, parent) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(look)) {
      if (key === 'text') node.textContent = value;
      else if (value !== '') node.setAttribute(key, value);
    }
    if (parent) parent.append(node);
    return node;
  };
  const unpack = async (packed) => {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return JSON.parse(await new Response(stream).text());
  };
  // packing.py: a kind of line has a line break in each place of a number; a column holds the numbers of one place
  const lines_of = ([kind, ...columns]) => {
    if (!columns.length) return [kind];
    const parts = kind.split('\n'), numbers = columns.map((column) => column.split('\n'));
    return numbers[0].map((_, row) => parts.reduce((line, part, place) => line + numbers[place - 1][row] + part));
  };

  class Explorer {
    constructor(place, spec, pack) {
      this.place = place;
      this.spec = spec;
      this.controls = this.spec.controls;
      this.state = [...this.spec.start];
      this.told = [];
      this.pack = null;
      this.limits = {};
      this.stage = place.querySelector('.tk-stage');
      this.svg = this.stage.innerHTML;
      this.folded = place.querySelector('details p');
      place.setAttribute('role', 'group');
      place.setAttribute('aria-label', `explorer: ${this.stage.querySelector('text').textContent}`);
      const panel = make('div', { class: 'tk-panel' });
      this.nodes = [];
      for (const row of this.spec.rows) {
        const line = make('div', { class: 'tk-row' }, panel);
        for (const number of row) this.nodes[number] = this.control(number, line);
      }
      this.stage.parentNode.prepend(panel);
      this.note = make('p', { class: 'tk-note', role: 'status' }, this.stage.parentNode);
      this.said = make('div', { class: 'tk-said', role: 'status' }, this.stage.parentNode);
      this.tell();
      this.fill(pack).catch(() => {
        this.note.textContent = 'The pictures of this explorer did not come along. Load the page again, or run the cell.';
      });
    }

    // the frames, once they are on the page; what was moved before then is shown now
    async fill(pack) {
      this.pack = pack || await unpack(await this.frames());
      this.lines = this.pack.lines.flatMap(lines_of);
      this.keys = Object.keys(this.pack.frames).map((key) => JSON.parse(key));
      this.stage.style.minHeight = this.reserved() + 'px';
      const [, limits, ...ways] = this.pack.frames[JSON.stringify(this.spec.start)];
      this.limits = this.pack.limits[limits];
      this.svg = this.drawn(ways);
      this.tell();
      if (this.waiting) this.turn(this.waiting);
      this.place.dataset.ready = 'yes';
    }

    // on the website they are a script that is fetched when the picture comes near
    frames() {
      const waiting = window.torchkataWaiting = window.torchkataWaiting || {};
      window.torchkataFrames = (id, packed) => waiting[id].splice(0).forEach((resolve) => resolve(packed));
      return new Promise((resolve, reject) => {
        (waiting[this.place.dataset.id] = waiting[this.place.dataset.id] || []).push(resolve);
        new IntersectionObserver((seen, watch) => {
          if (!seen.some((one) => one.isIntersecting)) return;
          watch.disconnect();
          make('script', { src: this.place.dataset.frames }, document.head).onerror = reject;
        }, { rootMargin: '400px' }).observe(this.place);
      });
    }

    // room for the highest picture, so that the page does not jump
    reserved() {
      const svg = this.stage.querySelector('svg');
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width || 96 / 72;
      return Math.ceil(this.pack.height * scale) + 8;
    }

    control(number, line) {
      const told = this.controls[number];
      const about = told.about || told.label;
      if (told.kind === 'steps') return this.buttons(number, told, line);
      const label = make('label', { class: `tk-${told.kind}${told.wide ? ' tk-wide' : ''}`, title: about }, line);
      make('span', { class: 'tk-name', text: told.label }, label);
      let node;
      if (told.kind === 'choice') {
        node = make('select', {}, label);
        told.shown.forEach((shown, code) => make('option', { value: code, text: shown }, node));
        node.addEventListener('change', () => this.move(number, Number(node.value)));
      } else if (told.kind === 'slider') {
        node = make('input', { type: 'range', min: 0, max: told.shown.length - 1, step: 1 }, label);
        make('span', { class: 'tk-value', 'aria-hidden': 'true' }, label); // the slider says its value itself
        node.addEventListener('input', () => this.move(number, Number(node.value)));
      } else if (told.kind === 'switch') {
        node = make('input', { type: 'checkbox' }, label);
        node.addEventListener('change', () => this.move(number, node.checked ? 1 : 0));
      } else {
        const look = told.rows > 1 ? { rows: told.rows } : { type: 'text' };
        node = make(told.rows > 1 ? 'textarea' : 'input', { ...look, placeholder: told.empty || '', spellcheck: 'false' }, label);
        const read = () => { if (node.value !== this.state[number]) this.move(number, node.value); };
        node.addEventListener('change', read);
        node.addEventListener('keydown', (event) => { if (event.key === 'Enter' && told.rows === 1 && !event.isComposing) read(); });
      }
      return node;
    }

    buttons(number, told, line) {
      const steps = {
        back: () => this.state[number] - 1, on: () => this.state[number] + 1,
        end: () => this.most(number), anew: () => 0,
      };
      const nodes = {};
      const group = make('div', { class: 'tk-steps', role: 'group', 'aria-label': told.label }, line);
      for (const [what, name] of Object.entries(told.buttons)) {
        nodes[what] = make('button', { type: 'button', text: name }, group);
        nodes[what].addEventListener('click', () => {
          const to = Math.min(Math.max(steps[what](), 0), this.most(number));
          if (to !== this.state[number]) this.move(number, to);
        });
      }
      return nodes;
    }

    most(number) {
      const all = this.controls[number].shown.length - 1;
      return number in this.limits ? Math.min(all, this.limits[number]) : all;
    }

    // somebody moved a control
    move(number, code) {
      const told = this.controls[number];
      const state = [...this.state];
      state[number] = code;
      for (const [other, value] of Object.entries(told.resets || {})) state[other] = value;
      for (const [other, value] of Object.entries((told.sets || {})[code] || {})) state[other] = value;
      this.moving = number;
      this.turn(state);
    }

    // show a state: from the frames, from Python, or the nearest that is at hand
    turn(state) {
      const before = this.state;
      this.state = state;
      this.tell();
      if (!this.pack) { this.waiting = state; return; }
      this.waiting = null;
      if (this.at_hand(state)) return this.from_pack(state, '');
      if (this.ask()) return;
      const near = this.nearest(state, before);
      const own = this.controls.some((told, number) => told.kind === 'field' && near[number] !== state[number]);
      this.state = near;
      this.from_pack(near, own ? 'A text of your own is drawn by Python: run this cell in a notebook to try it.'
        : 'Without Python only some values are at hand; this is the nearest. Run this cell in a notebook to have all.');
    }

    at_hand(state) { return JSON.stringify(state) in this.pack.frames; }

    from_pack(state, note) {
      const [words, limits, ...ways] = this.pack.frames[JSON.stringify(state)];
      this.show(this.drawn(ways), this.pack.words[words], this.pack.limits[limits]);
      this.note.textContent = note;
    }

    // each line is told by how far it is from the one before
    drawn(ways) {
      let place = 0;
      return ways.map((way) => this.lines[place += way]).join('\n');
    }

    nearest(state, before) {
      const far = (known) => known.reduce((sum, code, number) => {
        if (code === state[number]) return sum;
        if (typeof code === 'string') return sum + 1e6;
        return sum + Math.abs(code - state[number]) * (number === this.moving ? 1e3 : 1);
      }, 0);
      let best = before, least = Infinity;
      for (const known of this.keys) {
        const distance = far(known);
        if (distance < least) [best, least] = [known, distance];
      }
      return [...best];
    }

    // one question at a time; when it is answered and the controls have gone on, the next, and so when no answer comes
    ask() {
      const kernel = ((window.torchkataKernels || {})[this.place.dataset.id] || []).at(-1);
      if (!kernel) return false;
      if (this.kernel !== kernel) {
        this.kernel = kernel;
        this.open = 0;
        kernel.on('msg:custom', (answer) => this.answered(answer));
      }
      if (this.open && !this.late) return true;
      this.open = Date.now() + Math.random();
      this.late = false;
      this.question = JSON.stringify(this.state);
      try { kernel.send({ n: this.open, state: this.state }); } catch (error) { this.open = 0; return false; }
      clearTimeout(this.clock);
      this.clock = setTimeout(() => {
        this.late = true;
        if (!this.at_hand(this.state)) this.note.textContent = 'Python is busy, or it has ended: then run this cell again.';
      }, 1500);
      return true;
    }

    answered(answer) {
      if (answer.n !== this.open) return;
      this.open = 0;
      clearTimeout(this.clock);
      if (JSON.stringify(this.state) !== this.question) return this.turn(this.state);
      this.note.textContent = answer.error || '';
      if (!answer.error) this.show(answer.svg, answer.words, answer.limits);
    }

    show(svg, words, limits) {
      const known = new Set(this.svg.split('\n'));
      this.svg = svg;
      this.limits = limits;
      this.stage.innerHTML = svg;
      const drawn = this.stage.firstElementChild;
      drawn.setAttribute('role', 'img');
      drawn.setAttribute('aria-label', words);
      if (this.controls[this.moving].kind !== 'slider') {
        svg.split('\n').slice(1, -1).forEach((line, place) => {
          if (!known.has(line)) this.animate(drawn.children[place]);
        });
      }
      this.said.textContent = this.folded.textContent = words;
      this.tell();
    }

    animate(node) {
      if (!node.dataset.from) return node.classList.add('tk-new');
      const [x, y] = node.dataset.from.split(' ');
      node.style.setProperty('--tk-x', x + 'px');
      node.style.setProperty('--tk-y', y + 'px');
      node.classList.add('tk-came');
    }

    // the controls say what the state is
    tell() {
      this.controls.forEach((told, number) => {
        const node = this.nodes[number], code = this.state[number];
        if (told.kind === 'steps') {
          const ends = { back: code === 0, on: code >= this.most(number), end: code >= this.most(number), anew: code === 0 };
          for (const [what, button] of Object.entries(node)) button.setAttribute('aria-disabled', ends[what]);
        } else if (told.kind === 'switch') node.checked = code === 1;
        else if (told.kind === 'slider') {
          node.max = this.most(number);
          node.value = code;
          node.setAttribute('aria-valuetext', told.shown[code]);
          node.nextElementSibling.textContent = told.shown[code];
        } else if (this.told[number] !== code) node.value = code; // else what is being typed would be lost
      });
      this.told = [...this.state];
    }
  }

  // in a notebook frames and controls stand packed beside the picture; on the website the controls stand there as they are
  const begin = async (place) => {
    const told = place.querySelector('.tk-spec'), packed = place.querySelector('.tk-frames');
    const pack = packed && await unpack(packed.textContent);
    if (place.querySelector('.tk-stage') && !place.querySelector('.tk-panel'))
      new Explorer(place, told ? JSON.parse(told.textContent) : pack.spec, pack);
  };
  const here = document.currentScript && document.currentScript.closest('.torchkata-picture');
  for (const place of here ? [here] : document.querySelectorAll('.torchkata-picture:has(.tk-spec, .tk-frames)')) begin(place);
})();
