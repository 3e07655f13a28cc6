
"use strict";
// Ask for this very page until it is the real one; show what changes meanwhile. Copy
// commands to the clipboard. Nothing else happens from here: the page has the origin of
// what the job serves.
(async () => {
  const root = document.documentElement;
  const patience = 5; // polls that may fail before the page says so
  if (navigator.clipboard) {
    root.dataset.copies = "";
    document.addEventListener("click", async (event) => {
      const button = event.target.closest(".copy");
      if (!button) return;
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
  let failed = 0;
  for (;;) {
    await new Promise((done) => setTimeout(done, 1000));
    try {
      // Not a HEAD: a server may refuse that, and write so into its log.
      const answer = await fetch(location.pathname + location.search, {
        cache: "no-store", redirect: "manual", headers: { Accept: "text/html", "Tunctl-Poll": "1" },
      });
      const state = answer.headers.get("Tunctl-Waiting");
      failed = 0;
      delete root.dataset.gone;
      if (state === null) break;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const [parts, places] = [page, document].map((d) => d.querySelectorAll(state === root.dataset.state ? ".lasts" : "title, main"));
      places.forEach((place, i) => place.replaceWith(parts[i]));
      root.dataset.state = state;
    } catch {
      if (++failed >= patience) root.dataset.gone = "";
    }
  }
  location.reload();
})();
