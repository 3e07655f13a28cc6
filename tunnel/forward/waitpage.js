
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
  // As tunctl writes a duration elsewhere.
  const duration = (seconds) => {
    if (seconds < 59.5) return `${Math.round(seconds)} s`;
    const minutes = Math.round(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    const rest = hours ? `${hours % 24} h ${String(minutes % 60).padStart(2, "0")} min` : `${minutes} min`;
    return days ? `${days} d ${rest}` : rest;
  };
  setInterval(() => {
    for (const time of document.querySelectorAll(".lasts")) {
      time.textContent = duration(Math.max(0, Date.now() - Date.parse(time.dateTime)) / 1000);
    }
  }, 1000);
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
      if (state === root.dataset.state) continue;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      document.querySelector("main").replaceWith(page.querySelector("main"));
      root.dataset.state = page.documentElement.dataset.state;
    } catch {
      if (++failed >= patience) root.dataset.gone = "";
    }
  }
  location.reload();
})();
