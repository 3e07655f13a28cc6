// The buttons that copy the command beside them.

document.addEventListener("click", async ({ target }) => {
  if (!target.matches?.("button.copy")) return;
  try {
    await navigator.clipboard.writeText(target.previousElementSibling.textContent);
    target.firstChild.data = "Copied";
  } catch {
    getSelection().selectAllChildren(target.previousElementSibling);
    target.firstChild.data = "Press Ctrl-C";
  }
});
