(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);

  // dark and light: the system's choice until the button is used
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("isrlu-theme"); } catch { return null; } })();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("isrlu-theme", root.dataset.theme); } catch { /* a file:// page may have no storage */ }
  });

  // the functions: [value, derivative]
  const isru = (x, a) => x / Math.sqrt(1 + a * x * x);
  const isruSlope = (x, a) => Math.pow(1 + a * x * x, -1.5);
  const FUNCTIONS = {
    isrlu: [(x, a) => (x < 0 ? isru(x, a) : x), (x, a) => (x < 0 ? isruSlope(x, a) : 1), "ISRLU"],
    isru: [isru, isruSlope, "ISRU"],
  };
  const PEERS = {
    isrlu: { ELU: (x) => (x < 0 ? Math.expm1(x) : x), ReLU: (x) => Math.max(x, 0) },
    isru: { tanh: Math.tanh },
  };

  // the plot: x from -6 to 3, y from -3 to 3
  const LEFT = -6, RIGHT = 3, LOW = -3, HIGH = 3, WIDTH = 640, HEIGHT = 400;
  const px = (x) => ((x - LEFT) / (RIGHT - LEFT)) * WIDTH;
  const py = (y) => ((HIGH - y) / (HIGH - LOW)) * HEIGHT;
  const plot = $("plot");
  const add = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text) node.textContent = text;
    return plot.appendChild(node);
  };
  const trace = (f) => {
    let path = "";
    for (let i = 0; i <= 360; i++) {
      const x = LEFT + ((RIGHT - LEFT) * i) / 360, y = Math.min(Math.max(f(x), LOW - 1), HIGH + 1);
      path += `${i ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(2)}`;
    }
    return path;
  };
  for (let x = LEFT; x <= RIGHT; x++) {
    add("line", { x1: px(x), x2: px(x), y1: 0, y2: HEIGHT, class: x === 0 ? "axis" : "grid" });
    if (x % 2 === 0 && x > LEFT && x !== 0) add("text", { x: px(x) + 4, y: py(0) + 17 }, String(x).replace("-", "−"));
  }
  for (let y = LOW; y <= HIGH; y++) {
    add("line", { x1: 0, x2: WIDTH, y1: py(y), y2: py(y), class: y === 0 ? "axis" : "grid" });
    if (y !== 0 && Math.abs(y) < HIGH) add("text", { x: px(0) + 5, y: py(y) - 4 }, String(y).replace("-", "−"));
  }
  const peers = add("g", { id: "peer-curves" });
  const limit = add("path", { id: "limit" });
  const derivative = add("path", { id: "derivative" });
  const curve = add("path", { id: "curve" });
  const slopeDot = add("circle", { id: "slope-dot", r: 6 });
  const dot = add("circle", { id: "dot", r: 7 });
  const name = add("text", { class: "name f", x: 12, y: 26 });
  add("text", { class: "name d", x: 12, y: 52 }, "– –  f′, its derivative");
  const peerName = add("text", { class: "name p", x: 12, y: 78 });

  // α: 0 at the left end, then 0.01 to 100 in even steps of its logarithm
  const alpha = () => { const t = Number($("alpha-slider").value); return t === 0 ? 0 : Number(Math.pow(10, t / 100 - 2).toPrecision(3)); };
  const show = (value, digits = 4) => (Object.is(value, -0) ? 0 : value).toFixed(digits).replace("-", "−");
  const chosen = () => document.querySelector("input[name=function]:checked").value;

  const offerPeers = () => {
    $("peers").replaceChildren(...Object.keys(PEERS[chosen()]).map((peer) => {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox"; box.value = peer; box.checked = peer !== "ReLU";
      label.append(box, peer);
      return label;
    }));
  };

  const draw = () => {
    const [f, slope, title] = FUNCTIONS[chosen()], a = alpha(), x = Number($("x").value);
    const saturation = a === 0 ? "never (linear)" : (chosen() === "isru" ? "±" : "−") + show(1 / Math.sqrt(a));
    curve.setAttribute("d", trace((t) => f(t, a)));
    derivative.setAttribute("d", trace((t) => slope(t, a)));
    const level = a === 0 ? NaN : -1 / Math.sqrt(a);
    limit.setAttribute("d", level > LOW ? `M0 ${py(level)}H${WIDTH}` + (chosen() === "isru" && -level < HIGH ? `M0 ${py(-level)}H${WIDTH}` : "") : "");
    for (const [node, y] of [[dot, f(x, a)], [slopeDot, slope(x, a)]]) {
      node.setAttribute("cx", px(x));
      node.setAttribute("cy", py(Math.min(Math.max(y, LOW), HIGH)));
    }
    const boxes = [...document.querySelectorAll("#peers input:checked")].map((box) => box.value);
    peers.replaceChildren();
    for (const peer of boxes) peers.append(add("path", { class: "peer", d: trace(PEERS[chosen()][peer]) }));
    name.textContent = `——  ${title}, α = ${a}`;
    peerName.textContent = boxes.length ? `–·–  ${boxes.join(", ")}` : "";
    $("plot-text").textContent = `${title} with alpha ${a} and its derivative; it saturates at ${saturation}`;
    $("alpha-value").textContent = String(a);
    $("alpha-slider").setAttribute("aria-valuetext", `alpha ${a}`);
    $("x-value").textContent = show(x, 2);
    $("saturation").textContent = saturation;
    $("value").textContent = show(f(x, a));
    $("slope").textContent = show(slope(x, a));
  };
  $("controls").addEventListener("input", (event) => { if (event.target.name === "function") offerPeers(); draw(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  offerPeers();
  draw();
})();
