// The roofline of the forward pass: each layer by its operations per byte, and by the operations a second that the
// plan predicts. Source: Williams, Waterman and Patterson, "Roofline", CACM 2009.
function rooflinePoints() {
  return data.layers.filter((layer) => layer.stage >= 0 && layer.forward > 0 && layer.flops > 0 && layer.bytes > 0)
    .map((layer) => ({layer, intensity: layer.flops / layer.bytes, rate: layer.flops / layer.forward,
                      narrow: layer.ops.some((at) => /^b?f16/.test(report.ops[at].output))}));
}

function rooflineChart(points, roofs, memory) {
  const wide = 640;
  const high = 340;
  const all = (key) => points.map((point) => Math.log10(point[key]));
  const xs = [Math.floor(Math.min(-1, ...all('intensity'))), Math.ceil(Math.max(2, ...all('intensity')))];
  const top = Math.log10(Math.max(...roofs.map((roof) => roof[1]), ...points.map((point) => point.rate)));
  const ys = [Math.floor(Math.min(top - 3, ...all('rate'))), Math.ceil(top)];
  const x = (value) => 84 + (Math.log10(value) - xs[0]) / (xs[1] - xs[0]) * (wide - 100);
  const y = (value) => high - 34 - (Math.log10(value) - ys[0]) / (ys[1] - ys[0]) * (high - 54);
  const chart = drawing('svg', {viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': 'Roofline of the layers'});
  for (let power = xs[0]; power <= xs[1]; power += 1) {
    chart.append(drawing('path', {class: 'axis', d: `M${x(10 ** power)} 20V${high - 34}`}),
                 drawing('text', {x: x(10 ** power), y: high - 18, 'text-anchor': 'middle'}, String(10 ** power)));
  }
  for (let power = ys[0]; power <= ys[1]; power += 1) {
    chart.append(drawing('path', {class: 'axis', d: `M84 ${y(10 ** power)}H${wide - 16}`}),
                 drawing('text', {x: 78, y: y(10 ** power) + 4, 'text-anchor': 'end'}, scaled(10 ** power, 1000,
                   ['FLOP/s', 'kFLOP/s', 'MFLOP/s', 'GFLOP/s', 'TFLOP/s', 'PFLOP/s'])));
  }
  chart.append(drawing('text', {x: wide / 2, y: high - 3, 'text-anchor': 'middle'}, 'operations per byte'));
  const blocked = [];  // boxes of the roofs and their names
  for (const [name, peak] of roofs) {
    const knee = Math.max(10 ** xs[0], peak / memory);
    const start = Math.max(10 ** xs[0], 10 ** ys[0] / memory);
    chart.append(drawing('path', {class: 'roof', d: `M${x(start)} ${y(Math.min(peak, memory * start))}L${x(knee)} ${y(peak)}` +
                                                    `H${wide - 16}`}),
                 drawing('text', {x: wide - 18, y: y(peak) - 5, 'text-anchor': 'end', class: 'name'}, `${name}: ${flops(peak)}/s`));
    blocked.push([x(knee), y(peak) - 18, wide - 16, y(peak) + 2]);
  }
  const sum = points.reduce((all, point) => all + point.layer.forward, 0);
  for (const point of points) {
    const share = point.layer.forward / sum;
    Object.assign(point, {x: x(point.intensity), y: y(point.rate), r: 3 + 14 * Math.sqrt(share)});
    point.dot = drawing('circle', {cx: point.x, cy: point.y, r: point.r,
      fill: `var(--${kPartColours[point.layer.stage % 5]})`, 'fill-opacity': 0.75});
    point.dot.append(drawing('title', {}, `${layerName(point.layer)}, stage ${point.layer.stage}: ${flops(point.rate)}/s, ` +
      `${digits(point.intensity)} operations per byte, ${percent(share)} of the forward pass`));
    chart.append(point.dot);
  }
  labelPoints(chart, points, blocked, wide, high - 34);
  return chart;
}

// "blocks.0–11, stages 1–6": one text for points that lie at the same place.
function groupText(group) {
  const range = (numbers) => (numbers[0] === numbers[numbers.length - 1] ? `${numbers[0]}`
    : `${numbers[0]}–${numbers[numbers.length - 1]}`);
  const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);
  const names = [...new Set(group.map((point) => point.layer.name))];
  const parts = names.map((name) => name.match(/^(.*?)(\d+)$/));
  const numbers = parts.every(Boolean) ? sorted(parts.map((part) => Number(part[2]))) : [];
  const run = numbers.length > 1 && parts.every((part) => part[1] === parts[0][1]) &&
    numbers[numbers.length - 1] - numbers[0] === numbers.length - 1;
  const name = names.length === 1 ? layerName(group[0].layer) : run ? parts[0][1] + range(numbers)
    : `${names[0]} and ${names.length - 1} more`;
  const stages = sorted(group.map((point) => point.layer.stage));
  if (report.stages.length === 1) return name;
  return `${name}, ${stages.length > 1 ? 'stages' : 'stage'} ${range(stages)}`;
}

// Adds names at places where they cover neither a point, nor another name, nor one of the boxes `blocked`. A line leads
// to a name that is not next to its point. A name for which there is no place is left out: its row and its point still
// light each other up.
function labelPoints(chart, points, blocked, right, bottom) {
  const groups = [];
  for (const point of [...points].sort((a, b) => b.layer.forward - a.layer.forward)) {
    const near = groups.find(([first]) => Math.hypot(first.x - point.x, first.y - point.y) < 6);
    if (near) near.push(point);
    else groups.push([point]);
  }
  const taken = [...blocked, ...points.map(({x, y, r}) => [x - r, y - r, x + r, y + r])];
  const isFree = ([x0, y0, x1, y1]) => x0 >= 86 && x1 <= right - 4 && y0 >= 10 && y1 <= bottom - 2 &&
    taken.every(([a, b, c, d]) => x1 < a || c < x0 || y1 < b || d < y0);
  const names = [];  // above all lines
  for (const group of groups.slice(0, 10)) {
    const [{x, y, r}] = group;
    const text = groupText(group);
    const width = 6.1 * text.length;
    const places = [];
    for (const away of [2, 14, 28, 44, 64]) {
      for (const down of [0, -1, 1]) {
        places.push([x + r + away, y + down * (r + away)], [x - r - away - width, y + down * (r + away)]);
      }
      places.push([x - width / 2, y - r - away - 5], [x - width / 2, y + r + away + 5]);
    }
    const box = ([left, middle]) => [left, middle - 6, left + width, middle + 6];
    const place = places.find((one) => isFree(box(one)));
    if (!place) continue;
    taken.push(box(place));
    const end = Math.max(place[0], Math.min(x, place[0] + width));
    if (Math.hypot(end - x, place[1] - y) > r + 6) {
      chart.append(drawing('path', {class: 'cursor', d: `M${x} ${y}L${end} ${place[1]}`}));
    }
    names.push(drawing('text', {x: place[0], y: place[1] + 4, class: 'name'}, text));
  }
  chart.append(...names);
}

// A row and its point light each other up.
function linkRows(rows, points) {
  points.forEach((point, at) => {
    const light = (on) => () => {
      point.dot.classList.toggle('lit', on);
      if (rows[at]) rows[at].classList.toggle('lit', on);
    };
    for (const one of [point.dot, rows[at]]) {
      if (!one) continue;
      one.addEventListener('pointerenter', light(true));
      one.addEventListener('pointerleave', light(false));
    }
  });
}

function showRoofline() {
  const body = find('roofline-body');
  const points = rooflinePoints();
  if (!data.rates || points.length === 0) {
    body.append(element('p', {class: 'note'}, 'The plan has no times or no speeds for a roofline.'));
    return;
  }
  const workers = data.rates.threads;
  const roofs = [['f32', data.rates.f32 * workers], ['bf16', data.rates.bf16 * workers]];
  const memory = data.rates.bytes * workers;
  points.sort((a, b) => b.layer.forward - a.layer.forward);
  const rows = points.slice(0, 12).map((point) => {
    const peak = roofs[point.narrow ? 1 : 0];
    const roof = Math.min(peak[1], memory * point.intensity);
    return [layerName(point.layer), String(point.layer.stage), digits(point.intensity), flops(point.rate) + '/s',
            point.intensity < peak[1] / memory ? 'memory' : `${peak[0]}\u00a0rate`, percent(point.rate / roof),
            seconds(point.layer.forward)];
  });
  const layers = table(['layer', 'stage', 'operations per byte', 'predicted', 'limited by', 'of that limit', 'forward'], rows,
                       [1, 2, 3, 5, 6]);
  body.append(element('div', {class: 'two'}, element('div', {}, rooflineChart(points, roofs, memory),
    element('p', {class: 'note'}, 'The area of a point is the layer’s share of the forward pass, its colour the stage. ' +
      `Roofs: one device with ${counted(workers, 'worker')}, ${bytes(memory)}/s from memory. Heads are not drawn: their ` +
      'times are those of a whole step.' +
      (points.length > rows.length ? ` The table has the ${rows.length} layers that take longest.` : ''))),
    layers));
  linkRows(layers.querySelectorAll('tbody tr'), points);
}
