// The roofline of the forward pass: each layer by its operations for a byte, and by the operations a second that the
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
  const x = (value) => 64 + (Math.log10(value) - xs[0]) / (xs[1] - xs[0]) * (wide - 80);
  const y = (value) => high - 34 - (Math.log10(value) - ys[0]) / (ys[1] - ys[0]) * (high - 54);
  const chart = drawing('svg', {viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': 'Roofline of the layers'});
  for (let power = xs[0]; power <= xs[1]; power += 1) {
    chart.append(drawing('path', {class: 'axis', d: `M${x(10 ** power)} 20V${high - 34}`}),
                 drawing('text', {x: x(10 ** power), y: high - 18, 'text-anchor': 'middle'}, String(10 ** power)));
  }
  for (let power = ys[0]; power <= ys[1]; power += 1) {
    chart.append(drawing('path', {class: 'axis', d: `M64 ${y(10 ** power)}H${wide - 16}`}),
                 drawing('text', {x: 58, y: y(10 ** power) + 4, 'text-anchor': 'end'}, scaled(10 ** power, 1000,
                   ['F/s', 'kF/s', 'MF/s', 'GF/s', 'TF/s', 'PF/s'])));
  }
  chart.append(drawing('text', {x: wide / 2, y: high - 3, 'text-anchor': 'middle'}, 'operations for a byte'));
  for (const [name, peak] of roofs) {
    const knee = Math.max(10 ** xs[0], peak / memory);
    const start = Math.max(10 ** xs[0], 10 ** ys[0] / memory);
    chart.append(drawing('path', {class: 'roof', d: `M${x(start)} ${y(Math.min(peak, memory * start))}L${x(knee)} ${y(peak)}` +
                                                    `H${wide - 16}`}),
                 drawing('text', {x: wide - 18, y: y(peak) - 5, 'text-anchor': 'end', class: 'name'}, name));
  }
  const sum = points.reduce((all, point) => all + point.layer.forward, 0);
  const named = new Set([...points].sort((a, b) => b.layer.forward - a.layer.forward).slice(0, 5));
  for (const point of points) {
    const share = point.layer.forward / sum;
    const dot = drawing('circle', {cx: x(point.intensity), cy: y(point.rate), r: 3 + 14 * Math.sqrt(share),
      fill: `var(--${kPartColours[point.layer.stage % 5]})`, 'fill-opacity': 0.75});
    dot.append(drawing('title', {}, `${point.layer.name}: ${flops(point.rate)}/s, ${digits(point.intensity)} operations ` +
                                    `for a byte, ${percent(share)} of the forward pass`));
    chart.append(dot);
  }
  // Names are moved down until they do not overlap the name above.
  let above = 0;
  for (const point of [...named].sort((a, b) => b.rate - a.rate)) {
    above = Math.max(y(point.rate) + 4, above + 12);
    const right = x(point.intensity) > wide - 150;
    chart.append(drawing('text', {x: x(point.intensity) + (right ? -11 : 11), y: above, class: 'name',
      'text-anchor': right ? 'end' : 'start'}, point.layer.name));
  }
  return chart;
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
  const rows = points.sort((a, b) => b.layer.forward - a.layer.forward).slice(0, 12).map((point) => {
    const peak = roofs[point.narrow ? 1 : 0];
    const roof = Math.min(peak[1], memory * point.intensity);
    return [point.layer.name, String(point.layer.stage), digits(point.intensity), flops(point.rate) + '/s',
            point.intensity < peak[1] / memory ? 'memory' : `${peak[0]} rate`, percent(point.rate / roof),
            seconds(point.layer.forward)];
  });
  body.append(element('div', {class: 'two'}, element('div', {}, rooflineChart(points, roofs, memory),
    element('p', {class: 'note'}, 'The area of a point is the layer’s share of the forward pass, its colour the stage. ' +
      `Roofs: one device with ${workers} ${workers === 1 ? 'worker' : 'workers'}, ${bytes(memory)}/s.`)),
    table(['layer', 'stage', 'operations for a byte', 'predicted', 'bound by', 'of that roof', 'forward'], rows,
          [1, 2, 3, 5, 6])));
}
