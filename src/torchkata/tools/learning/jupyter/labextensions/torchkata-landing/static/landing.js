// A link to a cell ("Next: go on with …") leads to that cell, on a busy machine too.
//
// JupyterLab puts the cells of a notebook into the page one after the other, and guesses their heights until then. It
// goes where a link leads only if the cell is there within ten seconds, and what moves later is not made good. So: make
// the cell the active one, and keep its top at the top of the view until nothing moves any more or the reader takes over.
(() => {
  const OPENS = 'rendermime:handle-local-link';
  const TAKES_OVER = ['keydown', 'wheel', 'pointerdown', 'touchstart'];
  const STEADY = 60; // frames without a move
  const SETTLED = 2000; // milliseconds without a move

  function activate(app) {
    let landing = null;
    app.commands.commandExecuted.connect(async (_, { id, args, result }) => {
      const cell = id === OPENS && /^#cell-id=(.+)$/.exec(args.id || '');
      if (!cell) return;
      if (landing) landing.end();
      await result;
      const panel = [...app.shell.widgets('main')].find((widget) => widget.context && widget.context.path === args.path);
      if (!panel) return;
      await panel.context.ready;
      landing = land(panel.content, cell[1]);
    });
  }

  function land(notebook, id) {
    const index = notebook.widgets.findIndex((cell) => cell.model.id === id);
    if (index < 0) return null;
    notebook.deselectAll();
    notebook.activeCellIndex = index; // Shift+Enter goes on from here
    return keep(notebook, notebook.widgets[index].node);
  }

  // Keep the cell at the top of the view.
  function keep(notebook, node) {
    const view = notebook.outerNode;
    let frames = 0, since = performance.now(), over = false;
    const end = () => {
      over = true;
      for (const event of TAKES_OVER) notebook.node.removeEventListener(event, end, true);
    };
    for (const event of TAKES_OVER) notebook.node.addEventListener(event, end, { capture: true, passive: true });
    const look = () => {
      if (over || notebook.isDisposed) return;
      if (!node.isConnected || moved(view, node)) {
        frames = 0;
        since = performance.now();
      } else if (++frames > STEADY && performance.now() - since > SETTLED) {
        end();
        return;
      }
      requestAnimationFrame(look);
    };
    look();
    return { end };
  }

  // Whether the view had to be moved to have the cell at its top.
  function moved(view, node) {
    const before = view.scrollTop;
    const off = node.getBoundingClientRect().top - view.getBoundingClientRect().top;
    if (Math.abs(off) > 1) view.scrollTop = before + off;
    return view.scrollTop !== before;
  }

  const plugin = { id: 'torchkata-landing:plugin', autoStart: true, activate };
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB['torchkata-landing'] = { init: () => {}, get: async () => () => ({ __esModule: true, default: plugin }) };
})();
