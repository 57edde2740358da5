// A page that could not renew itself must not look as if it had: its last answer may be old.
document.addEventListener("htmx:afterRequest", function (event) {
  if (event.detail.elt && event.detail.elt.id === "live") {
    document.body.classList.toggle("gr-stale", !event.detail.successful);
  }
});
