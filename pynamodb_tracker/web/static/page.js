"use strict";
// Refresh, keys and small comforts. Every view and form also works without this file. It never parses stored text as
// HTML or code.
(() => {
  const root = document.documentElement;
  const first = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];

  // Private windows may refuse to store choices.
  const recall = (name) => { try { return localStorage.getItem(`tracker-${name}`); } catch { return null; } };
  const remember = (name, value) => { try { localStorage.setItem(`tracker-${name}`, value); } catch { /* not kept */ } };

  const themes = ["system", "light", "dark"];
  const setTheme = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    const shown = first("[data-do=theme] span");
    if (shown) shown.textContent = root.dataset.theme ?? "system";
  };
  setTheme(recall("theme")); // in the head, before the first paint
  root.classList.add("script");

  let at = -1; // the row that the keys have selected
  let loaded = Date.now();
  let isBusy = false;
  let isStopped = false;
  let prefix = ""; // a key that waits for a second one
  let hush = 0;

  const say = (text) => {
    first("#toast").textContent = text;
    clearTimeout(hush);
    hush = setTimeout(() => { first("#toast").textContent = ""; }, 2500);
  };
  const rows = () => all("[data-row]");
  const isLive = () => recall("live") !== "off";
  const isInUse = () => isBusy || document.hidden || first("dialog[open], details.ask[open], [name=task]:checked")
    || document.activeElement.matches("input, select, textarea");

  // Times are in the viewer's zone, and their titles in UTC.
  const showTimes = () => all("time[data-local]").forEach((each) => {
    const two = "2-digit", date = { year: "numeric", month: two, day: two };
    const minute = { hour: two, minute: two, timeZoneName: "short" }, time = new Date(each.dateTime);
    const shown = each.dataset.local !== "clock" ? { ...date, second: two, ...minute }
      : Date.now() - time < 864e5 ? minute : { ...date, ...minute };
    each.textContent = time.toLocaleTimeString("sv-SE", shown);
  });
  const showState = () => {
    at = -1;
    showTimes();
    const live = first("[data-do=live]");
    if (live) {
      live.setAttribute("aria-pressed", String(isLive()));
      live.querySelector("span").textContent = isLive() ? "Live" : "Paused";
    }
    showSelection();
  };
  const showSelection = () => {
    const bar = first("[data-selection]");
    if (!bar) return;
    const number = all("[name=task]:checked").length;
    bar.querySelector("[data-number]").textContent = number ? `${number} selected` : "none selected";
    bar.querySelectorAll("button").forEach((button) => { button.disabled = !number; });
  };

  // Replace the main part with another response's. Keep the focus, and details open. Return false for plain text.
  const replaceMain = (html) => {
    const answer = new DOMParser().parseFromString(html, "text/html");
    const main = answer.querySelector("main");
    if (!main) return false;
    document.title = answer.title;
    const known = new Set(rows().map((row) => row.dataset.row));
    const keyOf = (each) => each.closest("tr, section")?.querySelector("th, h2")?.textContent + each.firstElementChild.textContent;
    const opened = new Set(all("main details[open]:not(.ask)").map(keyOf));
    const focused = document.activeElement.closest("main a[href], main [data-do]");
    const name = focused && (focused.matches("a") ? "href" : "data-do");
    const value = focused && focused.getAttribute(name);
    first("main").replaceChildren(...document.adoptNode(main).childNodes);
    all("main details:not(.ask)").filter((each) => opened.has(keyOf(each))).forEach((each) => { each.open = true; });
    if (focused) first(`main [${name}="${CSS.escape(value)}"]`)?.focus({ preventScroll: true });
    if (known.size && first(".tasks")) {
      rows().filter((row) => !known.has(row.dataset.row)).forEach((row) => row.classList.add("new"));
    }
    showState();
    return true;
  };
  const refresh = async (isFresh) => {
    isBusy = true;
    try {
      const url = new URL(location.href);
      if (isFresh) url.searchParams.set("fresh", "1");
      const answer = await fetch(url);
      if (answer.status === 401) { remember("live", "off"); say("Logged out. Open the address from the terminal again."); }
      else if (!replaceMain(await answer.text())) location.reload();
    } catch { say("The page's server is not responding"); } finally { isBusy = false; loaded = Date.now(); }
  };
  // Matching tasks are changed in slices. Each response contains the next slice's form.
  const sendSlices = async (form) => {
    isBusy = true;
    try {
      for (let next = form; next && !isStopped; next = first("form[data-next-slice]")) {
        const answer = await fetch(next.action, { method: "POST", body: new URLSearchParams(new FormData(next)) });
        const html = await answer.text();
        if (!replaceMain(html)) { say(html); return; } // the same form is still here, so the loop would never end
      }
    } catch { say("The page's server is not responding. Changes so far are kept."); } finally { isBusy = false; }
  };
  const move = (by) => {
    const found = rows();
    if (!found.length) return;
    found[at]?.classList.remove("at");
    at = Math.min(Math.max(at + by, 0), found.length - 1);
    found[at].classList.add("at");
    found[at].querySelector("a")?.focus({ preventScroll: true });
    found[at].scrollIntoView({ block: "nearest" });
  };

  const actions = {
    theme: () => {
      const next = themes[(themes.indexOf(recall("theme") ?? "system") + 1) % themes.length];
      remember("theme", next);
      setTheme(next);
      say(`Theme: ${next}`);
    },
    help: () => first("#help").showModal(),
    live: () => { remember("live", isLive() ? "off" : "on"); showState(); },
    refresh: () => refresh(true),
    stop: () => { isStopped = true; say("Stopped. Changes so far are kept."); },
    copy: (button) => navigator.clipboard?.writeText(button.dataset.text).then(() => say("Copied")),
  };
  const go = (address) => { if (address) location.assign(address); };
  const keys = {
    "/": () => first(".find input").focus(),
    "?": actions.help,
    j: () => move(1),
    k: () => move(-1),
    r: actions.refresh,
    l: () => first("[data-do=live]")?.click(),
    x: () => rows()[at]?.querySelector("[name=task]")?.click(),
    g: () => { prefix = "g"; setTimeout(() => { prefix = ""; }, 900); },
    go: () => go(document.body.dataset.overview),
    gt: () => go(document.body.dataset.tasks),
    ge: () => go(document.body.dataset.errors),
    gs: () => go(document.body.dataset.schedules),
    gw: () => go(document.body.dataset.workers),
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) { actions[button.dataset.do](button); return; }
    if (event.target.matches("[data-all]")) all("[name=task]").forEach((each) => { each.checked = event.target.checked; });
    if (event.target.matches("[data-all], [name=task]")) { showSelection(); return; }
    const row = event.target.closest("[data-row]");
    const isOwn = event.target.closest("a, button, input, summary, label, td.pick");
    if (row && !isOwn && !getSelection().toString()) location.assign(row.dataset.row);
  });
  // Turn the viewer's time of day, the last or the next one, into UTC, so that the address works for colleagues, too.
  const inUtc = (field, isLater) => {
    const [, hours, minutes, day] = /^\s*(?:(?:until )?(\d{1,2}):(\d\d)|(today|yesterday))\s*$/.exec(field.value) ?? [];
    const time = new Date();
    if (hours === undefined && !day) return;
    time.setHours(hours ?? 0, minutes ?? 0, 0, 0);
    if (day ? day === "yesterday" : (time > new Date()) !== isLater) time.setDate(time.getDate() + (isLater ? 1 : -1));
    field.value = `${time.toISOString().slice(0, 16)}Z`;
  };
  // Show on the button how many tasks it changes.
  document.addEventListener("input", (event) => {
    const number = event.target.name === "first" && event.target.form.querySelector("[data-every]");
    if (number) number.textContent = event.target.value.trim() || number.dataset.every;
  });
  document.addEventListener("submit", (event) => {
    if (event.target.matches(".filters, [data-later]")) {
      const isLater = event.target.matches("[data-later]");
      event.target.querySelectorAll("[name=since], [name=until]").forEach((field) => inUtc(field, isLater));
    }
    if (!event.target.matches("form[data-next-slice]")) return;
    event.preventDefault();
    isStopped = false;
    if (!isBusy) sendSlices(event.target); // otherwise the loop is still running
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") all("details.ask[open]").forEach((each) => { each.open = false; });
    const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || recall("keys") === "off") return;
    const act = Object.hasOwn(keys, prefix + event.key) && keys[prefix + event.key];
    prefix = "";
    if (act) { event.preventDefault(); act(); }
  });
  document.addEventListener("DOMContentLoaded", () => {
    setTheme(recall("theme"));
    showState();
    const keysOff = first("#keys-off");
    keysOff.checked = recall("keys") === "off";
    keysOff.addEventListener("change", () => remember("keys", keysOff.checked ? "off" : "on"));
    const slices = first("form[data-next-slice]");
    if (slices) sendSlices(slices);
    const interval = Number(document.body.dataset.refresh) * 1000;
    setInterval(() => {
      if (interval && isLive() && Date.now() - loaded > interval && !isInUse()) refresh(false);
    }, 1000);
  });
})();
