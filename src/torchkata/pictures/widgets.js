// Runs once in each explorer: tells the browser what ipywidgets leaves out. `element` is the place of this script.
(function dress(tries) {
  const explorer = element.closest('.torchkata-explorer');
  if (!explorer) {
    if (tries) setTimeout(dress, 50, tries - 1); // the script runs before its place is in the page
    return;
  }
  const say = (node, name, value) => {
    if (node && node.getAttribute(name) !== value) node.setAttribute(name, value);
  };

  // a slider's handle gets its label as name and the number beside it as value; ipywidgets gives neither
  const name_sliders = () => {
    for (const slider of explorer.querySelectorAll('.widget-slider')) {
      const label = slider.querySelector('.widget-label').textContent;
      const readout = slider.querySelector('.widget-readout');
      for (const handle of slider.querySelectorAll('[role=slider]')) {
        say(handle, 'aria-label', label);
        say(handle, 'aria-valuetext', readout.textContent);
      }
      say(readout, 'role', 'textbox');
      say(readout, 'aria-label', label + ', as a number');
    }
  };
  say(explorer, 'role', 'group');
  say(explorer, 'aria-label', explorer.classList.contains('torchkata-review') ? 'review' : 'explorer');
  say(explorer.querySelector('.torchkata-words .widget-html-content'), 'role', 'status'); // read out when they change
  name_sliders();
  new MutationObserver(name_sliders).observe(explorer, {
    attributeFilter: ['aria-valuetext'], characterData: true, childList: true, subtree: true,
  });

  // plain keys stay with the control; else JupyterLab takes them: in a list, an arrow would go to the next cell
  if (window.torchkataKeys) return;
  window.torchkataKeys = (event) => {
    const control = event.target;
    if (!control.closest || !control.closest('.torchkata-explorer')) return;
    const forJupyter = event.ctrlKey || event.metaKey || event.altKey || event.key === 'Escape' ||
      (event.key === 'Enter' && event.shiftKey);
    control.toggleAttribute('data-lm-suppress-shortcuts', !forJupyter); // JupyterLab looks for it at the control
  };
  window.addEventListener('keydown', window.torchkataKeys, true); // before JupyterLab, which listens at the document
})(100);
