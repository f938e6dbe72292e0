// Memory curves: live bytes over time against the arena and the limit of the device.
const kWide = 460;
const kHigh = 190;
const kPartColours = ['forward', 'backward', 'head', 'update', 'comm', 'other'];

function memoryChart(curve) {
  const end = Math.max(1, schedule.makespan * 1e9);
  const limited = curve.limit > 0 && curve.limit < 4 * curve.arena;
  const most = 1.08 * Math.max(curve.arena, curve.peak.bytes, limited ? curve.limit : 0, 1);
  const x = (time) => 4 + time / end * (kWide - 8);
  const y = (size) => kHigh - 18 - size / most * (kHigh - 26);
  let path = `M${x(0)} ${y(0)}`;
  let before = 0;
  for (const [time, size] of curve.points) {
    path += `L${x(time).toFixed(1)} ${y(before).toFixed(1)}L${x(time).toFixed(1)} ${y(size).toFixed(1)}`;
    before = size;
  }
  path += `L${x(end)} ${y(0)}Z`;
  const line = (name, size) => drawing('path', {class: name, d: `M4 ${y(size)}H${kWide - 4}`});
  const peak = {x: x(curve.peak.seconds * 1e9), y: y(curve.peak.bytes)};
  const label = {x: Math.max(4, Math.min(peak.x + 6, kWide - 130)), y: kHigh - 4};
  const cursor = drawing('path', {class: 'cursor', d: ''});
  const chart = drawing('svg', {viewBox: `0 0 ${kWide} ${kHigh}`, role: 'img', 'aria-label': memoryText(curve)},
    drawing('path', {class: 'axis', d: `M4 ${y(0)}H${kWide - 4}`}),
    drawing('path', {class: 'curve', d: path}), line('arena', curve.arena), cursor,
    drawing('circle', {class: 'peak', cx: peak.x, cy: peak.y, r: 4}),
    drawing('text', {x: 4, y: label.y}, '0'), drawing('text', {x: kWide - 4, y: label.y, 'text-anchor': 'end'},
                                                        seconds(schedule.makespan)));
  if (limited) chart.append(line('limit', curve.limit));
  const shown = drawing('text', {x: kWide / 2, y: label.y, 'text-anchor': 'middle', class: 'name'}, '');
  chart.append(shown);
  chart.addEventListener('pointermove', (event) => {
    const box = chart.getBoundingClientRect();
    const time = Math.max(0, Math.min(end, ((event.clientX - box.left) / box.width * kWide - 4) / (kWide - 8) * end));
    const point = curve.points.reduce((found, one) => (one[0] <= time ? one : found), curve.points[0]);
    cursor.setAttribute('d', `M${x(time)} 8V${y(0)}`);
    shown.textContent = `${seconds(time / 1e9)}: ${bytes(point[1])}`;
  });
  chart.addEventListener('pointerleave', () => {
    cursor.setAttribute('d', '');
    shown.textContent = '';
  });
  return chart;
}

function memoryText(curve) {
  const at = curve.peak.what ? ` at ${seconds(curve.peak.seconds)}, ${curve.peak.what}` : ' all the time';
  return `peak ${bytes(curve.peak.bytes)}${at}`;
}

function capacityText(curve) {
  const gaps = curve.arena - curve.peak.bytes;
  const allocated = `allocated ${bytes(curve.arena)} (dashed)` + (gaps > 0 ? `, ${bytes(gaps)} of it gaps` : '');
  return curve.limit > 0 ? `${allocated}; the device has ${bytes(curve.limit)}, ${percent(curve.arena / curve.limit)} is used`
    : allocated;
}

function showMemory() {
  for (const curve of data.memory) {
    const drawn = schedule.devices.find((device) => device.device === curve.device);
    const alike = drawn ? drawn.alike.length - 1 : 0;
    const name = curve.device === 'host' ? 'host' : drawn ? drawn.name : 'device ' + curve.device;
    const sum = curve.parts.reduce((all, part) => all + part[1], 0);
    const stack = element('div', {class: 'stack'});
    const legend = element('ul', {class: 'legend'});
    curve.parts.slice(0, 6).forEach(([part, size], at) => {
      const colour = `background:var(--${kPartColours[at]})`;
      stack.append(element('span', {style: `width:${(100 * size / Math.max(1, sum)).toFixed(2)}%;${colour}`}));
      legend.append(element('li', {}, element('span', {class: 'swatch', style: colour}), `${part} ${bytes(size)}`));
    });
    find('memory-body').append(element('article', {class: 'card', 'data-peak': curve.peak.bytes},
      element('h3', {}, name + (alike > 0 ? ` and ${alike} alike` : '')), memoryChart(curve),
      element('p', {}, element('strong', {}, memoryText(curve))), element('p', {class: 'note'}, capacityText(curve)),
      element('p', {}, 'Parts at the peak:'), stack, legend));
  }
}
