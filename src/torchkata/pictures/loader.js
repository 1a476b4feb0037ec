// Unpacks the code of a picture and runs it where it stands, so that it finds its picture. Where a page does not say in
// which one this script stands, it takes the first whose code still waits.
(() => {
  const code = (document.currentScript?.closest('.torchkata-picture') || document).querySelector('.tk-code');
  const bytes = Uint8Array.from(atob(code.textContent), (letter) => letter.charCodeAt());
  code.className = '';
  new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text().then((text) => {
    const script = document.createElement('script');
    script.textContent = text;
    code.replaceWith(script);
  });
})();
