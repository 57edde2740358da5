// The theme opens its menus and filters by elements that only a mouse can reach. Here they are buttons to the
// keyboard too.
(function () {
  const NATIVE = "a[href], button, input, select, textarea, summary, label, #changelist-filter-close";

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll("[x-on\\:click]").forEach(function (element) {
      if (element.matches(NATIVE) || element.hasAttribute("tabindex")) {
        return;
      }
      element.tabIndex = 0;
      element.setAttribute("role", "button");
      element.classList.add("gr-pressed-by-keys");
      if (element.textContent.trim() === "dock_to_right") {
        element.setAttribute("aria-label", "Menu");
      }
    });
  });

  document.addEventListener("keydown", function (event) {
    if ((event.key !== "Enter" && event.key !== " ") || !event.target.matches(".gr-pressed-by-keys")) {
      return;
    }
    event.preventDefault();
    event.target.click();
    if (event.target.getAttribute("x-on:click").includes("filterOpen")) {
      window.setTimeout(function () {
        const first = document.querySelector("#changelist-filter input, #changelist-filter a[href]");
        if (first) {
          first.focus();
        }
      }, 100);
    }
  });
})();
