// What the page does without being loaded again: it follows Airflow's theme, refreshes itself,
// searches while one types, and opens Airflow's own pages from inside of the frame.
"use strict";

(() => {
  const root = document.documentElement;

  // ------------------------------------------------------------- theme
  const follow = () => {
    let theme = null;
    try {
      theme = localStorage.getItem("theme");
    } catch (error) {
      // Without storage the system decides.
    }
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  follow();
  addEventListener("storage", follow);

  // ------------------------------------------------------------- links to Airflow
  // The frame may not navigate the window that it is in; a link of that window may.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.airflow");
    if (!link || window.parent === window || event.defaultPrevented) return;
    try {
      const outer = window.parent.document.createElement("a");
      outer.href = link.href;
      window.parent.document.body.append(outer);
      event.preventDefault();
      outer.click();
      outer.remove();
    } catch (error) {
      // Another origin: the link is followed inside of the frame.
    }
  });

  // ------------------------------------------------------------- refresh
  const main = () => document.getElementById("main");

  const isBusy = () => {
    const active = document.activeElement;
    return (
      document.hidden ||
      (active && active.matches("input, select, textarea")) ||
      document.querySelector("main input[type=checkbox]:checked") !== null ||
      String(document.getSelection()) !== ""
    );
  };

  let latest = 0;

  const read = async (address) => {
    const answer = await fetch(address, { headers: { accept: "text/html" } }).catch(() => {
      throw new Error("Airflow does not answer.");
    });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok && page.getElementById("main")) return page;
    // A link follows its text.
    const said = page.querySelector("main .notice")?.firstChild?.textContent;
    throw new Error(said || `Airflow answered with another page (${answer.status}).`);
  };

  // The next page that is read replaces it.
  const complain = (text) => {
    const notice = document.getElementById("outdated") || document.createElement("div");
    notice.id = "outdated";
    notice.className = "notice error";
    notice.setAttribute("role", "alert");
    if (!notice.parentElement) main().prepend(notice);
    if (notice.textContent !== text) notice.textContent = text;
  };

  const load = async (address) => {
    const number = ++latest;
    let page;
    try {
      page = await read(address);
    } catch (error) {
      if (number === latest) complain(`What is shown was read before: ${error.message}`);
      return;
    }
    if (number !== latest) return;
    const next = page.getElementById("main");
    const opened = [...document.querySelectorAll("details[open][id]")].map((each) => each.id);
    for (const id of opened) next.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    const active = document.activeElement;
    const name = active && active.form && active.name;
    const kept = name ? [active.value, active.selectionStart, active.selectionEnd] : null;
    const order = focusable().indexOf(active);
    main().replaceWith(document.importNode(next, true));
    document.title = page.title;
    if (kept) {
      const field = main().querySelector(`form.search [name="${CSS.escape(name)}"]`);
      if (field) {
        field.value = kept[0];
        field.focus({ preventScroll: true });
        if (kept[1] !== null && field.setSelectionRange) field.setSelectionRange(kept[1], kept[2]);
      }
    } else if (order >= 0) {
      focusable()[order]?.focus({ preventScroll: true });
    }
  };

  const focusable = () => [...document.querySelectorAll("main a[href], main button, main summary")];

  const refresh = async () => {
    const seconds = Number(main().dataset.refresh);
    if (!seconds) return;
    if (!isBusy()) await load(location.href);
    setTimeout(refresh, 1000 * (Number(main().dataset.refresh) || seconds));
  };
  const first = Number(main().dataset.refresh);
  if (first) setTimeout(refresh, 1000 * first);

  // ------------------------------------------------------------- search while one types
  let timer = 0;
  const search = (event) => {
    const form = event.target.closest("form.search");
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      const address = `${location.pathname}?${new URLSearchParams(new FormData(form))}`;
      history.replaceState(null, "", address);
      load(address);
    }, 250);
  };
  // A field that is replaced while it has the focus reports a change, too.
  document.addEventListener("input", search);

  document.getElementById("here")?.scrollIntoView({ block: "center" });
})();
