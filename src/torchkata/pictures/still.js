// Puts the drawing itself where its image stands, so that it follows the page's theme, and its words below it. Each
// picture brings this along.
(() => {
  const style = document.getElementById('torchkata-style') || document.createElement('style');
  style.id = 'torchkata-style';
  style.textContent = STYLE;
  document.head.append(style);
  const here = document.currentScript && document.currentScript.closest('.torchkata-picture');
  for (const place of here ? [here] : document.querySelectorAll('.torchkata-picture')) {
    const image = place.querySelector('img[src^="data:"]');
    if (!image) continue;
    const live = document.createElement('div');
    const stage = document.createElement('div');
    live.className = 'tk-live';
    stage.className = 'tk-stage';
    live.append(stage);
    stage.innerHTML = decodeURIComponent(image.src.slice(image.src.indexOf(',') + 1));
    stage.firstElementChild.setAttribute('role', 'img');
    stage.firstElementChild.setAttribute('aria-label', image.alt);
    const folded = document.createElement('details');
    folded.innerHTML = '<summary>This picture in words</summary><p></p>';
    folded.lastChild.textContent = image.alt;
    image.replaceWith(live, folded);
    for (const still of place.querySelectorAll('.tk-still')) still.remove();
    new ResizeObserver(() => {
      const wide = stage.scrollWidth > stage.clientWidth; // then the keyboard must reach it
      if (wide) stage.tabIndex = 0; else stage.removeAttribute('tabindex');
    }).observe(stage);
  }
})();
