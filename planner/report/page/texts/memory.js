// Memory curves: live bytes over time against the arena and the limit of the device.
const kWide = 460;
const kHigh = 190;
const kPartColours = ['forward', 'backward', 'head', 'update', 'comm', 'other'];

// The bytes at the top of a chart. The charts of all devices have one scale; the host has its own.
function memoryScale(curve) {
  const like = data.memory.filter((one) => (one.device === 'host') === (curve.device === 'host'));
  const used = Math.max(1, ...like.map((one) => Math.max(one.arena, one.peak.bytes)));
  const limits = like.map((one) => one.limit).filter((limit) => limit > 0 && limit < 4 * used);
  return 1.08 * Math.max(used, ...limits);
}

function memoryChart(curve) {
  const end = Math.max(1, schedule.makespan * 1e9);
  const most = memoryScale(curve);
  const limited = curve.limit > 0 && curve.limit < most;
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
                                                        stepTime(schedule.makespan)),
    drawing('text', {x: 4, y: 9}, bytes(most / 1.08)));
  if (limited) chart.append(line('limit', curve.limit));
  const shown = drawing('text', {x: kWide / 2, y: label.y, 'text-anchor': 'middle', class: 'name'}, '');
  chart.append(shown);
  chart.addEventListener('pointermove', (event) => {
    const box = chart.getBoundingClientRect();
    const time = Math.max(0, Math.min(end, ((event.clientX - box.left) / box.width * kWide - 4) / (kWide - 8) * end));
    const point = curve.points.reduce((found, one) => (one[0] <= time ? one : found), curve.points[0]);
    cursor.setAttribute('d', `M${x(time)} 8V${y(0)}`);
    shown.textContent = `${stepTime(time / 1e9)}: ${bytes(point[1])}`;
  });
  chart.addEventListener('pointerleave', () => {
    cursor.setAttribute('d', '');
    shown.textContent = '';
  });
  return chart;
}

function memoryText(curve) {
  const at = curve.peak.what ? ` at ${stepTime(curve.peak.seconds)}, ${curve.peak.what}` : ' all the time';
  return `peak ${bytes(curve.peak.bytes)}${at}`;
}

function capacityText(curve) {
  const gaps = curve.arena - curve.peak.bytes;
  const allocated = `Allocated: ${bytes(curve.arena)} (dashed line)` +
    (gaps > 0 ? `; ${bytes(gaps)} of it is never used, because it lies between buffers` : '');
  return curve.limit > 0 ? `${allocated}. The device has ${bytes(curve.limit)}, of which the plan uses ` +
    `${percent(curve.arena / curve.limit)}.` : allocated + '.';
}

// The largest parts of the peak and, as "other", all that is left of it.
function partsOf(curve) {
  const most = curve.parts.length > kPartColours.length ? kPartColours.length - 1 : curve.parts.length;
  const parts = curve.parts.slice(0, most).map((part, at) => [...part, kPartColours[at]]);
  const rest = curve.peak.bytes - parts.reduce((all, part) => all + part[1], 0);
  const small = curve.parts.slice(most).map(([part, size]) => [part, size]);
  if (rest > 0) parts.push(['other', rest, small, small.length, 'other']);
  return parts;
}

// A part as a line that unfolds to its largest buffers.
function partLine([part, size, buffers, number, colour]) {
  const swatch = element('span', {class: 'swatch', style: `background:var(--${colour})`});
  const line = element('summary', {}, swatch, element('span', {}, part), element('span', {class: 'number'}, bytes(size)));
  if (buffers.length === 0) return element('div', {class: 'part'}, ...line.childNodes);
  const rows = buffers.map(([name, one]) => [element('code', {}, name), bytes(one)]);
  const listed = buffers.reduce((all, one) => all + one[1], 0);
  if (number > buffers.length) rows.push([counted(number - buffers.length, 'smaller buffer'), bytes(size - listed)]);
  return element('details', {class: 'part'}, line, table([], rows, [1]));
}

// The parts of the memory of a run, whose sum the overview has.
function runMemoryTable() {
  const run = report.run_memory;
  const rows = [['devices and host in training: the sum of the cards', run.training],
                ['forward pass of evaluations, mapped at the first one', run.evaluation],
                ['readers of data, at most', run.readers], ['saves in the background, at most', run.saving || 0],
                ['decoding', run.decoding]]
    .filter(([, size]) => size > 0).map(([what, size]) => [what, bytes(size)]);
  rows.push(['together', bytes(run.sum)]);
  rows[rows.length - 1].chosen = true;
  return element('article', {class: 'card'}, element('h3', {}, 'Memory of a run'), table([], rows, [1]),
    run.uncounted.length > 0 ? element('p', {class: 'note'}, `Not counted: the files of ${run.uncounted.join(', ')}, ` +
      'which their readers keep in memory.') : null);
}

function showMemory() {
  find('memory-body').append(runMemoryTable());
  for (const curve of data.memory) {
    const drawn = schedule.devices.find((device) => device.device === curve.device);
    const alike = drawn ? drawn.alike.length - 1 : 0;
    const name = curve.device === 'host' ? 'host' : drawn ? drawn.name : 'device ' + curve.device;
    const parts = partsOf(curve);
    const stack = element('div', {class: 'stack'});
    for (const [, size, , , colour] of parts) {
      stack.append(element('span', {style: `width:${(100 * size / Math.max(1, curve.peak.bytes)).toFixed(2)}%;` +
                                           `background:var(--${colour})`}));
    }
    find('memory-body').append(element('article', {class: 'card', 'data-peak': curve.peak.bytes},
      element('h3', {}, name + (alike > 0 ? ` and ${alike} alike` : '')), memoryChart(curve),
      element('p', {}, element('strong', {}, memoryText(curve))), element('p', {class: 'note'}, capacityText(curve)),
      element('p', {}, 'Parts of the peak; each unfolds to its largest buffers:'), stack, ...parts.map(partLine)));
  }
}
