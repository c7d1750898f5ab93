"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);
  const SVG = "http://www.w3.org/2000/svg";

  // Light, dark, or as the system has it.
  const theme = one("#theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    theme.setAttribute("aria-pressed", String(isDark()));
  });

  // Tabs: arrows move, as everywhere.
  for (const list of all("[role=tablist]")) {
    const tabs = all("[role=tab]", list);
    const choose = (tab) => {
      for (const other of tabs) {
        const chosen = other === tab;
        other.setAttribute("aria-selected", String(chosen));
        other.tabIndex = chosen ? 0 : -1;
        document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
      }
    };
    tabs.forEach((tab, k) => {
      tab.addEventListener("click", () => choose(tab));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(k + step + tabs.length) % tabs.length];
        choose(next);
        next.focus();
      });
    });
    choose(tabs[0]);
  }

  // Boxes in a legend show and hide curves or points of the same figure.
  for (const box of all("input[data-shows]")) {
    box.addEventListener("change", () => {
      const [name, value] = JSON.parse(box.dataset.shows);
      for (const mark of all(`[data-${name}]`, box.closest("figure"))) {
        if (mark.getAttribute(`data-${name}`) === value) mark.toggleAttribute("hidden", !box.checked);
      }
    });
  }

  // Tables are sorted by the column whose head is pressed.
  for (const button of all("table.sortable th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const table = head.closest("table");
      const up = head.getAttribute("aria-sort") === "descending";
      for (const other of all("th", table)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const column = head.cellIndex;
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const rows = all("tbody tr", table).sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
        return up ? order : -order;
      });
      one("tbody", table).append(...rows);
    });
  }

  // Every row, found by name, with the part of every view in its prediction.
  const block = one("#rows-data");
  if (block) rows(JSON.parse(block.textContent));

  function rows(data) {
    const search = one("#row-search");
    const filter = one("#row-filter");
    const order = one("#row-order");
    const body = one("#rows-table tbody");
    const count = one("#row-count");
    const more = one("#row-more");
    const WIDTH = 240;
    const reach = (sign) => Math.max(0, ...data.rows.map((row) => sum(row.parts, sign)));
    const unit = (WIDTH - 8) / Math.max(1e-12, reach(1) + reach(-1));
    const zero = 4 + reach(-1) * unit;
    let shown = 25;
    one("#row-tools").hidden = false;

    function sum(parts, sign) {
      return parts.filter((p) => sign * p > 0).reduce((a, p) => a + Math.abs(p), 0);
    }
    function cell(text, kind) {
      const found = document.createElement("td");
      found.textContent = text;
      if (kind) found.className = kind;
      return found;
    }
    function picture(parts) {
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", `0 0 ${WIDTH} 16`);
      svg.setAttribute("class", "parts chart");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", parts.map((p, v) => `${data.views[v]} ${p}`).join(", "));
      const ends = { "1": zero, "-1": zero };
      parts.forEach((part, v) => {
        const sign = part < 0 ? -1 : 1;
        const width = Math.abs(part) * unit;
        const box = document.createElementNS(SVG, "rect");
        box.setAttribute("x", sign > 0 ? ends[1] : ends[-1] - width);
        box.setAttribute("y", 2);
        box.setAttribute("width", width);
        box.setAttribute("height", 12);
        box.setAttribute("class", `c${v % 8}`);
        const title = document.createElementNS(SVG, "title");
        title.textContent = `${data.views[v]}: ${part}`;
        box.append(title);
        ends[sign] += sign * width;
        svg.append(box);
      });
      const middle = document.createElementNS(SVG, "line");
      for (const [name, value] of Object.entries({ x1: zero, x2: zero, y1: 0, y2: 16, class: "zero" })) middle.setAttribute(name, value);
      svg.append(middle);
      return svg;
    }
    function line(row) {
      const found = document.createElement("tr");
      if (row.wrong) found.className = "wrong";
      found.append(cell(row.name), cell(row.true), cell(row.predicted), cell(row.sure, "n"));
      const last = document.createElement("td");
      last.append(picture(row.parts));
      found.append(last);
      return found;
    }
    function update() {
      const words = search.value.trim().toLowerCase();
      const kept = data.rows.filter((row) =>
        (!words || `${row.name} ${row.true} ${row.predicted}`.toLowerCase().includes(words)) &&
        (filter.value !== "wrong" || row.wrong));
      const keys = { given: (r) => r.at, sure: (r) => -r.margin, unsure: (r) => r.margin };
      kept.sort((a, b) => keys[order.value](a) - keys[order.value](b));
      body.replaceChildren(...kept.slice(0, shown).map(line));
      count.textContent = `${Math.min(shown, kept.length)} of ${kept.length} rows shown` +
        (kept.length < data.rows.length ? `, ${data.rows.length} in all` : "");
      more.hidden = kept.length <= shown;
      const found = new Set(words ? kept.map((row) => String(row.at)) : []);
      for (const mark of all("#places [data-row]")) mark.classList.toggle("found", found.has(mark.dataset.row));
    }
    for (const control of [search, filter, order]) {
      for (const kind of ["input", "change"]) {
        control.addEventListener(kind, () => { shown = 25; update(); });
      }
    }
    more.addEventListener("click", () => { shown += 100; update(); });
    const byPlace = new Map(data.rows.map((row) => [String(row.at), row.name]));
    for (const mark of all("#places [data-row]")) {
      mark.addEventListener("click", () => {
        search.value = byPlace.get(mark.dataset.row) ?? "";
        update();
        search.scrollIntoView({ block: "center" });
      });
    }
    update();
  }

  // The part of the page that is being read.
  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const part of all("section[id]")) seen.observe(part);

  // Paper has nothing to unfold.
  addEventListener("beforeprint", () => {
    for (const part of all("details")) part.open = true;
    for (const part of all("[role=tabpanel]")) part.hidden = false;
  });
})();
