// Plain keys stay with the control; else JupyterLab takes them: in a list, an arrow would go to the next cell.
(() => {
  if (window.torchkataKeys) return;
  window.torchkataKeys = (event) => {
    const control = event.target;
    if (!control.closest || !control.closest('.torchkata-picture, .torchkata-review')) return;
    const forJupyter = event.ctrlKey || event.metaKey || event.altKey || event.key === 'Escape' ||
      (event.key === 'Enter' && event.shiftKey);
    control.toggleAttribute('data-lm-suppress-shortcuts', !forJupyter); // JupyterLab looks for it at the control
  };
  window.addEventListener('keydown', window.torchkataKeys, true); // before JupyterLab, which listens at the document
})();
