// What the pages do beyond links and forms. All of it is comfort: without this file every page works.
//
// - Keys: "/" search, "r" show anew, "?" help.
// - The theme changes at once and is kept in the cookie that the form without scripts sets.
// - One stream of what is new while the tab is seen; nothing is put into a page in which somebody is at work, and
//   a page that is cut off says since when.
// - Pages that ask for it show themselves anew; what was opened stays open, and the focus stays where it was.
// - Curves, drawn from the tables that stand in the page.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  root.classList.add("script");

  // Is somebody at work in the page, so that it must stay as it is?
  const isBusy = () => {
    const page = $("page");
    const field = document.activeElement;
    return Boolean(
      document.querySelector("dialog[open]") ||
      page.querySelector("input[type=checkbox]:checked, details.act[open], [data-busy]") ||
      (field && page.contains(field) && field.matches("input, select, textarea")) ||
      (String(getSelection()) && page.contains(getSelection().anchorNode)),
    );
  };

  // What somebody has opened, and where their focus is, outlives a change of what is shown.
  const keeping = (part) => {
    const opened = [...part.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent);
    const reachable = () => [...$("page").querySelectorAll("a, button, summary, [tabindex='0']")];
    const like = (it) => `${it.tagName} ${it.getAttribute("href")} ${it.textContent}`;
    const at = document.activeElement;
    const was = at && part.contains(at) ? { place: reachable().indexOf(at), like: like(at) } : null;
    const scrolled = [...part.querySelectorAll(".scroll, pre")].map((box) => box.scrollTop);
    return (now) => {
      now.querySelectorAll("details > summary").forEach((summary) => {
        if (opened.includes(summary.textContent)) summary.parentElement.open = true;
      });
      now.querySelectorAll(".scroll, pre").forEach((box, number) => {
        box.scrollTop = scrolled[number] || 0;
      });
      if (!was) return;
      const all = reachable();
      const same = all[was.place];
      const found = same && like(same) === was.like ? same : all.find((it) => like(it) === was.like);
      if (found) found.focus({ preventScroll: true });
    };
  };

  // Show the page anew, where it stands.
  const anew = () => {
    if (window.htmx) htmx.trigger("#page", "anew");
    else location.reload();
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = event.target;
    const inField = at.matches && at.matches("input, select, textarea, [contenteditable]");
    if (inField) {
      if (event.key === "Escape") at.blur();
      return;
    }
    if (event.key === "/" && $("search")) {
      event.preventDefault();
      $("search").focus();
    } else if (event.key === "r") {
      event.preventDefault();
      anew();
    } else if (event.key === "?" && $("help") && !$("help").open) {
      event.preventDefault();
      $("help").showModal();
    }
  });

  // Light and dark.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme === "dark" || (root.dataset.theme !== "light" && dark.matches);
  const theme = $("theme");
  if (theme) {
    theme.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = isDark() ? "light" : "dark";
      root.dataset.theme = chosen;
      const secure = location.protocol === "https:" ? "; Secure" : "";
      document.cookie = `punctual_theme=${chosen}; Path=/ui; Max-Age=31536000; SameSite=Lax${secure}`;
      const button = theme.querySelector("button");
      theme.querySelectorAll("button + button").forEach((other) => other.remove());
      button.className = "";
      button.textContent = chosen === "dark" ? "Light" : "Dark";
      button.value = chosen === "dark" ? "light" : "dark";
      draw();
    });
  }
  dark.addEventListener("change", () => draw());

  // Curves.
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const number = (text) => (text === undefined || text === "" ? null : Number(text));
  const clock = (at) => new Date(at * 1000).toISOString().slice(11, 16);
  const plots = {};
  const put = (id, options, data) => {
    const place = $(id);
    if (!place || !window.uPlot) return;
    if (plots[id]) plots[id].destroy();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    plots[id] = new uPlot({
      width: place.clientWidth,
      height: 230,
      cursor: { y: false, points: { size: 6 } },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
      axes: [{ ...axis, values: (_, ats) => ats.map(clock) }, { ...axis, size: 62, ...options.y }],
      ...options,
      series: [{ label: "minute (UTC)", value: (_, at) => (at === null ? "–" : clock(at)) }, ...options.series],
    }, data, place);
  };
  const took = (ms) => (ms === null ? "–" : ms < 1000 ? `${ms} ms` : ms < 60000 ? `${Math.round(ms / 100) / 10} s` : `${Math.round(ms / 60000)} min`);

  const drawFlow = (past, coming) => {
    const present = past.length ? number(past[past.length - 1].dataset.at) : 0;
    // The present minute is half over: what is still to come of it stands among what is coming.
    const next = coming.filter((row) => number(row.dataset.at) - (number(row.dataset.at) % 60) > present);
    const rows = [...past, ...next];
    const at = rows.map((row) => number(row.dataset.at));
    const blank = (list) => list.map(() => null);
    put("flow", {
      legend: { live: true },
      scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      y: { values: (_, counts) => counts.map((count) => (Number.isInteger(count) ? count.toLocaleString("en") : "")) },
      series: [
        { label: "due", stroke: colour("--due"), fill: colour("--due-fill"), width: 1, paths: uPlot.paths.bars({ size: [0.8, 20] }), points: { show: false } },
        { label: "completed", stroke: colour("--done"), width: 2, points: { show: false } },
        { label: "will fall due", stroke: colour("--next"), fill: colour("--next-fill"), width: 1, dash: [4, 3], paths: uPlot.paths.bars({ size: [0.8, 20] }), points: { show: false } },
      ],
    }, [
      at,
      [...past.map((row) => number(row.dataset.due)), ...blank(next)],
      // The minute that is not over would look like a fall.
      [...past.slice(0, -1).map((row) => number(row.dataset.done)), null, ...blank(next)],
      [...blank(past), ...next.map((row) => number(row.dataset.due))],
    ]);
  };

  const drawLate = (past, promise) => {
    put("late", {
      scales: { y: { distr: 3, range: (_, low, high) => [10, Math.max(promise * 2, high || 0)] } },
      y: { values: (_, ticks) => ticks.map((ms) => ([10, 100, 1000, 10000, 60000, 100000, 1000000].includes(ms) ? took(ms) : "")), grid: { show: false } },
      series: [
        { label: "p50", stroke: colour("--done"), width: 2, points: { size: 4 }, value: (_, ms) => took(ms) },
        { label: "p99", stroke: colour("--next"), width: 2, points: { size: 4 }, value: (_, ms) => took(ms) },
        { label: "promise", stroke: colour("--bad"), width: 1, dash: [6, 4], points: { show: false }, value: () => took(promise) },
      ],
    }, [
      past.map((row) => number(row.dataset.at)),
      past.map((row) => (number(row.dataset.p50) === null ? null : Math.max(10, number(row.dataset.p50)))),
      past.map((row) => (number(row.dataset.p99) === null ? null : Math.max(10, number(row.dataset.p99)))),
      past.map(() => promise),
    ]);
  };

  const draw = () => {
    const table = $("past");
    if (!table || !window.uPlot) return;
    const past = [...table.tBodies[0].rows].filter((row) => row.dataset.at);
    const coming = [...$("coming").tBodies[0].rows].filter((row) => row.dataset.at);
    drawFlow(past, coming);
    drawLate(past, Number(table.dataset.promise));
  };
  // A table that is wider than its place is scrolled by keyboard too.
  const reach = () => {
    document.querySelectorAll(".table:not(.scroll)").forEach((box) => {
      if (box.scrollWidth <= box.clientWidth) {
        ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
        return;
      }
      const caption = box.querySelector("caption");
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", caption ? caption.textContent.trim() : "a table");
    });
  };
  let width = 0;
  addEventListener("resize", () => {
    reach();
    if (Math.abs(innerWidth - width) < 8) return;
    width = innerWidth;
    draw();
  });

  // What is new, while somebody sees it.
  let stream = null;
  let last = "";
  let waiting = null;
  let again = 0;
  let heard = new Date();
  const tell = (text) => {
    const live = $("live");
    if (!live) return;
    live.classList.toggle("old", text !== "live");
    if (live.textContent !== text) live.textContent = text;
  };
  // Cut off: how old the page is, until it is not.
  const cut = () => {
    tell(`not live since ${heard.toISOString().slice(11, 19)} UTC; connecting again…`);
    // A browser tries again by itself where a connection broke, and gives up where it was refused.
    if (stream && stream.readyState === EventSource.CLOSED) {
      stream = null;
      clearTimeout(again);
      again = setTimeout(open, 5000);
    }
  };
  const take = (look) => {
    const problems = $("problems");
    // An opened banner is being read.
    if (problems && !problems.querySelector("[open]") && problems.innerHTML !== look.problems) problems.innerHTML = look.problems;
    if (isBusy()) {
      waiting = look;
      return;
    }
    waiting = null;
    const now = $("now");
    if (now && now.innerHTML !== look.now) {
      const keep = keeping(now);
      now.innerHTML = look.now;
      keep(now);
      reach();
    }
    const minutes = $("minutes");
    if (minutes && minutes.innerHTML !== look.minutes) {
      minutes.innerHTML = look.minutes;
      draw();
    }
  };
  const open = () => {
    if (stream || document.hidden || !$("page")) return;
    stream = new EventSource(`/ui/stream?after=${encodeURIComponent(last)}`);
    stream.addEventListener("open", () => tell("live"));
    stream.addEventListener("error", cut);
    stream.addEventListener("look", (event) => {
      last = event.lastEventId;
      heard = new Date();
      tell("live");
      take(JSON.parse(event.data));
    });
    stream.addEventListener("gone", () => {
      close();
      location.assign(`/ui/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    });
  };
  const close = () => {
    clearTimeout(again);
    if (stream) stream.close();
    stream = null;
    const live = $("live");
    if (live) live.textContent = "";
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);

  // Pages that ask for it are shown anew.
  let shown = Date.now();
  let keep = () => {};
  document.addEventListener("htmx:beforeSwap", () => {
    keep = keeping($("page"));
  });
  document.addEventListener("htmx:afterSwap", () => {
    shown = Date.now();
    keep($("page"));
    reach();
    draw();
  });
  setInterval(() => {
    if (waiting && !isBusy()) take(waiting);
    const page = $("page");
    const every = page ? Number(page.dataset.refresh) : 0;
    if (every > 0 && !document.hidden && !isBusy() && Date.now() - shown >= every * 1000) {
      shown = Date.now();
      anew();
    }
  }, 1000);

  // Tick all rows of a table.
  document.addEventListener("change", (event) => {
    const all = event.target;
    if (!all.matches || !all.matches("[data-tick-all]")) return;
    all.closest("table").querySelectorAll("tbody input[type=checkbox]").forEach((box) => {
      box.checked = all.checked;
    });
  });

  reach();
  draw();
  open();
})();
