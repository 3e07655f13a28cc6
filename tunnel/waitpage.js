
"use strict";
// Ask for this very page until it is the real one; show what changes meanwhile.
(async () => {
  const root = document.documentElement;
  const ask = (method) => fetch(location.pathname + location.search, {
    method, cache: "no-store", redirect: "manual", headers: { Accept: "text/html", "Tunctl-Poll": "1" },
  });
  for (;;) {
    await new Promise((done) => setTimeout(done, 1000));
    try {
      const state = (await ask("HEAD")).headers.get("Tunctl-Waiting");
      if (state === null) break;
      if (state === root.dataset.state) continue;
      const answer = await ask("GET");
      if (!answer.headers.has("Tunctl-Waiting")) break;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      document.querySelector("main").replaceWith(page.querySelector("main"));
      root.dataset.state = page.documentElement.dataset.state;
    } catch {
      // Nobody listens for the moment.
    }
  }
  location.reload();
})();
