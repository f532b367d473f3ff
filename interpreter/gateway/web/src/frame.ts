// Shows what the page sends: untrusted HTML, in a document of no origin that reaches nothing.

addEventListener("message", (event: MessageEvent<{ html?: string }>) => {
  if (event.source !== parent || typeof event.data?.html !== "string") return;
  document.body.replaceChildren(document.createRange().createContextualFragment(event.data.html));
});
