// SPDX-License-Identifier: Apache-2.0
// Fills the status page from the JSON paths of the admin endpoint.  Names of objects, files and
// queries are hostile: all of them become text and attributes of elements, never HTML.
"use strict";

const PERIOD_MS = 2000;
const PATIENCE_MS = 15000; // the daemon says that it is busy after 10 s
const ROWS = 10;
const MINUTES = 5; // that the charts show
// Paths of the tables, each with a bound of its size.
const PATHS = {
  status: "status", upstreams: "upstreams", sources: "sources", top: "top?limit=" + ROWS,
  changes: "changes?limit=" + (ROWS + 1), unresolved: "resolver?failing=yes&limit=" + (ROWS + 1),
  findings: "registry/findings?limit=" + (2 * ROWS + 1), cache: "cache",
};
// Remedies by the beginning of a reason, with the path that tells more.
const REMEDIES = [
  [/^upstream(:|\.zones)/, "Repair the server or the way to it, or add another to upstream.servers.", "upstreams"],
  [/^endpoint names/, "Correct the names in spec.endpoints, or repair the servers that they are asked of.", "resolver?failing=yes"],
  [/^\d+ errors? in resources/, "Correct the objects: they are refused, or used in their last valid version.", "registry/findings"],
  [/^not bound/, "Free the address or choose another; the daemon tries again by itself.", "reload"],
  [/^config/, "Correct the configuration, and reload.", "reload"],
  [/^(hosts\.file|server\.cookies|admin\.|upstream\.tls)/, "Give the daemon's user a file that it can read.", "config"],
  [/^(state_dir|persistent VIPs)/, "Give the daemon a directory of its own with room in it.", "config"],
  [/^server\.allow/, "Add the range to server.allow.", "config"],
  [/^(kubernetes|istiod)/, "Check the address of its server, the way there, and the rights of the daemon's account.", "sources"],
  [/^files/, "Look at the last error of the source.", "sources"],
];

const byId = id => document.getElementById(id);

// Control octets as in names, \DDD, and characters that turn or hide text as \u{...}.
function visible(value) {
  return String(value ?? "").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, character => {
    const code = character.codePointAt(0);
    return code < 256 ? "\\" + String(code).padStart(3, "0") : `\\u{${code.toString(16)}}`;
  });
}

// An element of these attributes with children, of which strings and numbers become text.
function build(namespace, tag, attributes, children) {
  const element = document.createElementNS(namespace, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map(child => child instanceof Node ? child : visible(child)));
  return element;
}
const html = (tag, attributes, ...children) => build("http://www.w3.org/1999/xhtml", tag, attributes, children);
const svg = (tag, attributes, ...children) => build("http://www.w3.org/2000/svg", tag, attributes, children);

const linkTo = (path, text) => html("a", { href: path }, text);
const linkToName = (name, from = "") => linkTo("?" + new URLSearchParams(from ? { name, from } : { name }), name);
const last = list => list.length ? list[list.length - 1] : 0;
const highest = (...series) => Math.max(0, ...series.flat());
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const number = value => String(value < 100 ? Number(value.toPrecision(3)) : Math.round(value));
const duration = ms => ms < 1000 ? `${number(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

// "35 s", "3 min", "5 h", "12 days".
function ago(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

function section(heading, isWide, ...children) {
  return html("section", isWide ? { class: "wide" } : {}, html("h2", {}, heading), ...children);
}

// A row is a list of cells; its property `bad` marks it.  Of a list that is longer than `limit`, `path` has all.
function table(heading, columns, rows, { isWide = false, limit = Infinity, path = "" } = {}) {
  const lines = rows.slice(0, limit).map(cells =>
    html("tr", cells.bad ? { class: "bad" } : {}, ...cells.map(cell => html("td", {}, cell))));
  if (rows.length > limit) lines.push(html("tr", {}, html("td", {}, linkTo(path, "all"))));
  const head = html("tr", {}, ...columns.map(column => html("th", { scope: "col" }, column)));
  return section(heading, isWide, html("table", {}, head, ...lines));
}
const tableIfAny = (heading, columns, rows, options) => rows.length ? [table(heading, columns, rows, options)] : [];
const marked = (isBad, cells) => Object.assign(cells, { bad: isBad });

// ---- charts

// 1, 2 or 5 times a power of ten that is not below `top`.
function roundUp(top) {
  for (let scale = 1e-3; top > 0; scale *= 10)
    for (const step of [1, 2, 5]) if (step * scale >= top) return step * scale;
  return 1;
}

// A line through the values, the newest at the right edge of an area with room for `room` of them.
function line(kind, values, top, width, height, room) {
  const step = width / (room - 1);
  const points = values.map((value, i) =>
    `${(width - step * (values.length - 1 - i)).toFixed(1)},${((height - 2) * (1 - value / top) + 1).toFixed(1)}`);
  return svg("polyline", { class: kind, points: points.join(" ") });
}

// Lines and numbers for no, half and full scale, and a line a minute.
function axes(width, height, top, shown) {
  const parts = [svg("rect", { width, height })];
  for (const part of [0, 0.5, 1]) {
    const y = (height - 2) * (1 - part) + 1;
    parts.push(svg("line", { x2: width, y1: y, y2: y }),
               svg("text", { x: -4, y: Math.min(Math.max(y + 4, 9), height - 1), "text-anchor": "end" },
                   shown(top * part)));
  }
  for (let minute = 0; minute <= MINUTES; ++minute) {
    const x = width * minute / MINUTES;
    const anchor = minute === MINUTES ? "end" : minute === 0 ? "start" : "middle";
    parts.push(svg("line", { x1: x, x2: x, y2: height }),
               svg("text", { x, y: height + 12, "text-anchor": anchor },
                   minute === MINUTES ? "now" : `-${MINUTES - minute} min`));
  }
  return parts;
}

// A chart of two series of a value a second: [[name, values], [name, values]].  `shown` makes a value a text.
function chart(title, shown, series) {
  const [width, height, left, below] = [600, 110, 56, 16];
  const most = highest(...series.map(([, values]) => values));
  const top = roundUp(most);
  const now = series.flatMap(([name, values], i) =>
    [" ", html("span", { class: "ab"[i] }, `${name} ${shown(last(values))}`)]);
  return html("figure", {},
    svg("svg", { role: "img", width: width + left, height: height + below,
                 viewBox: `-${left} 0 ${width + left} ${height + below}` },
        svg("title", {}, title), ...axes(width, height, top, shown),
        ...series.map(([, values], i) => line("ab"[i], values, top, width, height, 60 * MINUTES))),
    html("figcaption", {}, `${title}; now:`, ...now, `, highest ${shown(most)}`));
}

// A small chart without axes: a value each 5 s.
function sparkline({ repliesPerSecond: replies, failuresPerSecond: failures }) {
  if (replies.length < 2) return "";
  const [width, height, room] = [120, 24, 12 * MINUTES];
  const most = highest(replies, failures);
  return svg("svg", { role: "img", width, height, viewBox: `0 0 ${width} ${height}` },
    svg("title", {}, `Replies per second of the last ${MINUTES} minutes: ${number(last(replies))} now, at most ` +
        `${number(most)}; failures: ${number(last(failures))} now`),
    line("a", replies, roundUp(most), width, height, room), line("b", failures, roundUp(most), width, height, room));
}

// ---- tables

function describeCache({ positive, negative, failure, misses, staleHits, capacityBytes }) {
  if (capacityBytes === 0) return "off";
  const MIB = 2 ** 20;
  const hits = positive.hits + negative.hits + failure.hits;
  return `${counted(positive.entries + negative.entries, "answer")}, ` +
    `${((positive.bytes + negative.bytes + failure.bytes) / MIB).toFixed(1)} of ${Math.round(capacityBytes / MIB)} MiB` +
    (hits + misses ? `, ${(100 * hits / (hits + misses)).toFixed(1)} % hits` : "") +
    (staleHits ? `, ${staleHits} of them stale` : "");
}

function showStatus(status, cache) {
  document.title = `${visible(status.name)}: meshdns`;
  byId("name").textContent = visible(status.name);
  byId("role").textContent = visible(`meshdns ${status.version} ` + (status.bySourceAddress
    ? "answers each client by its address"
    : `answers all clients as one of namespace ${status.defaultNamespace}`) + `, at ${status.listening.join(", ")}`);
  const figures = [
    ["answers per second", Math.round(last(status.answersPerSecond))],
    ["SERVFAIL per second", Math.round(last(status.servfailPerSecond))],
    ["p99 latency", duration(last(status.p99Ms))],
    ["hosts", status.hosts], ["resources", status.resources],
    ["up for", ago(status.upSeconds)],
  ];
  if (cache) figures.push(["cache", describeCache(cache)]);
  if ("kernelShare" in status) figures.push(["answered in the kernel", (100 * status.kernelShare).toFixed(1) + " %"]);
  return [
    section("Now", true, html("dl", {}, ...figures.map(([what, value]) =>
      html("div", {}, html("dt", {}, what), html("dd", {}, value))))),
    section("Load", false, chart("Answers per second", number,
      [["answers", status.answersPerSecond], ["SERVFAIL", status.servfailPerSecond]])),
    section("Latency", false, chart("Time to answer", duration, [["median", status.medianMs], ["p99", status.p99Ms]])),
  ];
}

function showUpstreams(upstreams) {
  const rows = upstreams.map(upstream => marked(upstream.health !== "up", [
    upstream.server, upstream.health,
    "medianMs" in upstream ? `${duration(upstream.medianMs)}, ${duration(upstream.p99Ms)}` : "no answers lately",
    upstream.queries, upstream.answers, upstream.timeouts,
    upstream.lastError && `${upstream.lastError} (${ago(upstream.lastErrorSeconds)} ago)`, sparkline(upstream)]));
  return [table("Upstream servers", ["server", "health", "median, p99", "queries", "answers", "timeouts", "last error",
                                     "replies, failures"], rows, { isWide: true })];
}

function showSources(sources) {
  const rows = sources.map(source => marked(!source.complete || source.broken > 0 || source.lastError !== "", [
    source.name, source.complete ? "yes" : "not yet", ago(source.unchangedSeconds) + " ago", source.origins,
    source.broken, source.lastError]));
  return [table("Sources", ["source", "synced", "last change", "files or streams", "with errors", "last error"], rows, { isWide: true })];
}

function showTop(top) {
  const perSecond = entry => entry.perSecond.toFixed(1);
  const nameOf = entry => entry.cut ? entry.name : linkToName(entry.name);
  const clientRow = entry => [linkTo("?" + new URLSearchParams({ from: entry.address }), entry.address), perSecond(entry),
                              entry.client];
  return [
    table("Recent failures", ["name", "rcode", "times"],
      top.failing.map(entry => [linkToName(entry.name), entry.rcode, entry.times])),
    table("Top names (last minute)", ["name", "queries per second"],
      top.names.map(entry => [nameOf(entry), perSecond(entry)])),
    table("Top clients (last minute)", ["client", "queries per second", "identity"], top.clients.map(clientRow)),
    ...tableIfAny("Refused or limited clients (last minute)", ["client", "queries per second", "identity"],
      top.refusedClients.map(entry => marked(true, clientRow(entry)))),
    ...tableIfAny("Slow forwarded names (last minute)", ["name", "mean", "longest", "queries"],
      top.forwarded.map(entry => [nameOf(entry), duration(entry.meanMs), duration(entry.longestMs),
                                  entry.queries])),
  ];
}

function showChanges({ changes }) {
  const answers = ({ change, before, after }) => change === "different" ? `from ${before} to ${after}` : after || before;
  return tableIfAny("Recent changes", ["time", "name", "change", "answers", "object"],
    changes.map(change => [change.time, linkToName(change.name), change.change, answers(change),
                           change.object + (change.source && ` (${change.source})`)]),
    { isWide: true, limit: ROWS, path: "changes" });
}

function showUnresolved(names) {
  const reason = name => name.lastError || name.families.map(family => family.lastError).find(Boolean) || "no addresses";
  return tableIfAny("Endpoint names that do not resolve", ["name", "last error"],
    names.map(name => [name.host, reason(name)]), { limit: ROWS, path: "resolver?failing=yes" });
}

function showFindings(findings) {
  const place = ({ path, line: row }) => path + (row ? `:${row}` : "");
  const subject = ({ kind, object }) => `${kind} ${object}`.trim();
  const text = finding => [place(finding), finding.severity, subject(finding), finding.field, finding.message]
    .filter(Boolean).join(": ") + (finding.other ? `; see ${subject(finding.other)} (${place(finding.other)})` : "") +
    ` [${finding.id}]`;
  return tableIfAny("Resource problems", ["problem"],
    findings.map(finding => marked(finding.severity === "error", [text(finding)])),
    { isWide: true, limit: 2 * ROWS, path: "registry/findings" });
}

// ---- the state

// "a is lost" and "b is lost" as "A is lost; b is lost."
function sentenceOf(effects = []) {
  const text = effects.join("; ");
  return text && `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function overallState(health, readiness) {
  if (!health) return ["broken", "no answer", "The daemon has ended, or cannot be reached. All figures are old."];
  if (!health.ok) return ["broken", "broken", "Queries may stay without an answer."];
  if (!readiness.ready) return ["broken", "not ready", sentenceOf(readiness.effects)];
  if (readiness.degraded) return ["degraded", "degraded", sentenceOf(readiness.effects)];
  return ["healthy", "healthy", "All sources have been read, and the upstream servers answer."];
}

// A line of the reason, and of its remedy if there is one.
function reasonLines(kind, reason) {
  const lines = [html("li", {}, html("b", {}, kind), " ", reason)];
  const found = REMEDIES.find(([pattern]) => pattern.test(reason));
  if (found) lines.push(html("li", { class: "remedy" }, found[1], " ", linkTo(found[2], "/" + found[2])));
  return lines;
}

// It is replaced only when it changes, so that a screen reader does not read it again.
let stateShown = "";
function showState(health, readiness) {
  const key = JSON.stringify([health, readiness]);
  if (key === stateShown) return;
  stateShown = key;
  const [kind, word, sentence] = overallState(health, readiness);
  const { notReady = [], degraded = [] } = readiness;
  const reasons = [
    ...health && !health.ok ? reasonLines("health", health.text.trim()) : [],
    ...notReady.flatMap(reason => reasonLines("not ready", reason)),
    ...degraded.flatMap(reason => reasonLines("degraded", reason))];
  byId("state").className = kind;
  byId("state").replaceChildren(html("strong", {}, word), ` ${sentence}`,
                                ...reasons.length ? [html("ul", {}, ...reasons)] : []);
}

// ---- the question in the address: ?name=&type=&from=, and search=yes

function showNames({ names, complete }, from) {
  const rows = names.map(({ name, answer, source }) =>
    html("tr", {}, html("td", {}, linkToName(name, from)), html("td", {}, answer), html("td", {}, source)));
  return [html("p", {}, `Names found: ${complete ? "" : "more than "}${names.length}`), html("table", {}, ...rows)];
}

async function answerQuestion() {
  const asked = new URLSearchParams(location.search);
  for (const input of byId("question").querySelectorAll("input")) input.value = asked.get(input.name) ?? "";
  const isSearch = Boolean(asked.get("search"));
  if (!asked.get("name") && !isSearch) return;
  const question = new URLSearchParams(isSearch ? { search: "yes" } : { format: "text" });
  for (const key of ["name", "type", "from"]) question.set(key, asked.get(key) ?? "");
  let shown;
  try {
    const reply = await read("explain?" + question);
    if (!reply.ok) shown = [html("pre", {}, errorOf(reply))];
    else if (isSearch) shown = showNames(JSON.parse(reply.text), asked.get("from"));
    else shown = [html("pre", {}, ...reply.text.trimEnd().split("\n").flatMap(text => [text, html("br", {})]))];
  } catch {
    shown = [html("pre", {}, "no answer from the daemon: load the page again")];
  }
  byId("answer").replaceChildren(...shown);
}

// ---- reading

async function read(path) {
  const reply = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  return { ok: reply.ok, text: await reply.text() };
}

function errorOf(reply) {
  try {
    return JSON.parse(reply.text).error;
  } catch {
    return reply.text; // "the daemon is busy"
  }
}

// The server's own thread answers these two, whatever the daemon does.
async function readState() {
  try {
    showState(await read("healthz"), JSON.parse((await read("readyz")).text));
  } catch {
    showState(null, {});
  }
}

let isPaused = false;
const pages = {};

// Reads one after the other, so that a browser never has two requests waiting.
async function readTables() {
  let trouble = "";
  for (const [key, path] of Object.entries(PATHS)) {
    try {
      const reply = await read(path);
      if (reply.ok) pages[key] = JSON.parse(reply.text);
      else trouble ||= errorOf(reply);
    } catch {
      trouble = "no connection to the daemon";
      break;
    }
  }
  byId("link").textContent = trouble ? "not live: " + visible(trouble) : "live";
  // Text that somebody selects, a link that has the focus, and a pause hold the tables still.
  if (!isPaused && getSelection().isCollapsed && !byId("live").contains(document.activeElement)) showTables();
}

function showTables() {
  byId("live").replaceChildren(
    ...pages.status ? showStatus(pages.status, pages.cache) : [],
    ...pages.upstreams ? showUpstreams(pages.upstreams) : [],
    ...pages.sources ? showSources(pages.sources) : [],
    ...pages.top ? showTop(pages.top) : [],
    ...pages.changes ? showChanges(pages.changes) : [],
    ...pages.unresolved ? showUnresolved(pages.unresolved) : [],
    ...pages.findings ? showFindings(pages.findings) : []);
}

// Calls `work` again and again, with a pause after it; not while nobody sees the page.
async function repeat(work) {
  try {
    if (!document.hidden) await work();
  } finally {
    setTimeout(repeat, PERIOD_MS, work);
  }
}

byId("pause").onclick = () => {
  isPaused = !isPaused;
  byId("pause").textContent = isPaused ? "Go on" : "Pause";
};
answerQuestion();
repeat(readState);
repeat(readTables);
