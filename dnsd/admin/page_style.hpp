// SPDX-License-Identifier: Apache-2.0
// The style sheet and the script of the status page.  Neither loads anything from elsewhere.
#pragma once

#include <string_view>

namespace meshdns::dnsd {

// Narrow screens get one column; colours follow the light or dark scheme of the system.
inline constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--text:#1d2530;--faint:#5b6675;--back:#f5f6f8;--card:#fff;--line:#dfe3e8;
--blue:#0b62c4;--red:#b3261e;--good:#1a7f37;--warn:#8a5a00}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ee;--faint:#9aa5b4;--back:#12161c;--card:#1b2129;
--line:#323b47;--blue:#6cb0ff;--red:#ff8a80;--good:#56d37a;--warn:#ffc857}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:84rem;color:var(--text);
background:var(--back)}
header{display:flex;flex-wrap:wrap;gap:.2rem 1rem;align-items:baseline}
header p{margin:0;color:var(--faint)}
h1{font-size:1.35rem;margin:0}h2{font-size:1rem;margin:0 0 .5rem}
a{color:var(--blue)}
section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem 1rem;
min-width:0;overflow-x:auto}
section.wide{grid-column:1/-1}
#live{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:.8rem;
margin:.8rem 0}
#state{margin:.8rem 0;border-left:.4rem solid var(--good)}
#state.degraded{border-left-color:var(--warn)}#state.broken{border-left-color:var(--red)}
#state strong{font-size:1.15rem;color:var(--good)}
#state.degraded strong{color:var(--warn)}#state.broken strong{color:var(--red)}
#state ul{margin:.3rem 0 0;padding-left:1.2rem}
dl{display:flex;flex-wrap:wrap;gap:.6rem 2rem;margin:0}
dl div{min-width:5rem}dt{color:var(--faint);font-size:.85rem}
dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
th{color:var(--faint);font-weight:normal;font-size:.85rem}
td{font-variant-numeric:tabular-nums;overflow-wrap:break-word}
.bad td{color:var(--red)}.bad td:first-child{font-weight:bold}
@media(max-width:40rem){td,th{min-width:5rem}th:last-child,td:last-child{min-width:14rem}}
svg{max-width:100%;height:auto;display:block}
rect{fill:none}text{font-size:11px;fill:var(--faint)}line{stroke:var(--line)}
figure{margin:0}figcaption{font-size:.85rem;color:var(--faint)}
polyline{fill:none;stroke-width:1.5}
.a{stroke:var(--blue);color:var(--blue)}.b{stroke:var(--red);color:var(--red);stroke-dasharray:4 2}
form{display:flex;flex-wrap:wrap;gap:.5rem .8rem;align-items:end}
label{display:flex;flex-direction:column;font-size:.85rem;color:var(--faint);flex:1 1 11rem}
input,button{font:inherit;padding:.3rem .5rem;border:1px solid var(--line);border-radius:.3rem;
background:var(--back);color:var(--text)}
button{cursor:pointer}
pre{overflow:auto;margin:.8rem 0 0;font-size:.85rem}
footer{color:var(--faint);font-size:.85rem}
)";

// Shows the events of /live.  Text that somebody selects, or a pause, holds the tables still; the
// state is replaced only when it changes, so that a screen reader does not read it again.
inline constexpr std::string_view kPageScript = R"("use strict";
const live = document.getElementById("live");
const state = document.getElementById("state");
const link = document.getElementById("link");
const pause = document.getElementById("pause");
let paused = false;
pause.hidden = false;
pause.onclick = () => {
  paused = !paused;
  pause.textContent = paused ? "Go on" : "Pause";
};
const events = new EventSource("/live");
events.onopen = () => { link.textContent = "live"; };
events.onerror = () => { link.textContent = "not live: no connection to the daemon"; };
events.addEventListener("state", event => {
  const next = document.createElement("div");
  next.innerHTML = event.data;
  if (state.innerHTML === next.innerHTML) return;
  state.innerHTML = next.innerHTML;
  state.className = state.firstElementChild.dataset.state;
});
events.addEventListener("live", event => {
  if (!paused && getSelection().isCollapsed) live.innerHTML = event.data;
});
)";

}  // namespace meshdns::dnsd
